//! `docker-compose.yml` against the harness: what a person tries out is what the tests run with.

mod harness;

use std::collections::BTreeMap;

const COMPOSE: &str = include_str!("../docker-compose.yml");
const POM: &str = include_str!("harness/pom.xml");

#[test]
fn compose_runs_the_broker_settings_of_the_tests() {
    let compose = broker_settings();
    for (key, value) in harness::settings::DEFAULTS {
        assert_eq!(compose.get(*key).map(String::as_str), Some(*value), "{key}");
    }
}

#[test]
fn compose_runs_the_kafka_of_the_tests() {
    let image = value_of("image: apache/kafka:");
    let version = POM.split("<kafka.version>").nth(1).and_then(|rest| rest.split('<').next());
    assert_eq!(Some(image), version);
}

#[test]
fn published_ports_are_open_to_this_machine_only() {
    let ports: Vec<&str> =
        COMPOSE.lines().map(str::trim).filter(|line| line.ends_with(":9092\"") || line.ends_with(":8080\"")).collect();
    assert_eq!(ports, [r#"- "127.0.0.1:9092:9092""#, r#"- "127.0.0.1:8080:8080""#]);
}

/// `KAFKA_LOG_DIRS: x` is `log.dirs`, by the rule of the image.
fn broker_settings() -> BTreeMap<String, String> {
    let lines = COMPOSE.lines().filter_map(|line| line.trim().strip_prefix("KAFKA_")?.split_once(": "));
    lines.map(|(key, value)| (key.to_lowercase().replace('_', "."), value.trim_matches('"').to_owned())).collect()
}

fn value_of(key: &str) -> &str {
    COMPOSE.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap_or_default()
}
