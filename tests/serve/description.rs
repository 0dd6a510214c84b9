//! Routes and their description agree.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use reflex::serve::Limits;
use reflex::serve::api::DESCRIPTION;
use serde_json::Value;

use super::client::Answer;
use super::fakes::Served;

static DESCRIBED: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(DESCRIPTION).expect("JSON"));

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The statuses of any operation that every answer may have: of the guards, and of methods that are not there.
const EVERYWHERE: [u16; 4] = [400, 403, 405, 421];

/// The answer has a status, and a content type, that the description gives it.
pub fn is_described(method: &str, path: &str, answer: &Answer) {
    let path = path.split('?').next().unwrap_or(path);
    let operation = &DESCRIBED["paths"][path][method.to_lowercase()];
    if operation.is_null() || answer.status == 0 || EVERYWHERE.contains(&answer.status) {
        return;
    }
    let described = &operation["responses"][answer.status.to_string()];
    assert!(!described.is_null(), "{method} {path}: {} is not described", answer.status);
    if let Some(content) = described["content"].as_object() {
        let is_told = |kind: &String| answer.head.contains(&format!("content-type: {}", kind.to_lowercase()));
        assert!(content.keys().any(is_told), "{method} {path}: {}", answer.head);
    } else {
        assert!(answer.body.is_empty(), "{method} {path}: {}", answer.body);
    }
}

/// `.route("PATH"` of a source file.
fn routes(source: &str) -> BTreeSet<String> {
    source.split(".route(\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

#[test]
fn every_route_is_described_and_every_described_one_is_there() {
    let mut routes = routes(include_str!("../../src/serve/api/mod.rs"));
    routes.extend(self::routes(include_str!("../../src/serve/operations.rs")));
    let described: BTreeSet<String> = DESCRIBED["paths"].as_object().expect("paths").keys().cloned().collect();
    assert_eq!(routes, described);
    // A stream ends soon.
    let limits = Limits { connection_age_max: Duration::from_secs(2), ..Limits::default() };
    let served = Served::with(limits);
    for path in &described {
        for method in METHODS {
            let is_described = !DESCRIBED["paths"][path][method].is_null();
            let status = served.ask(&method.to_uppercase(), path, &super::fakes::bearer("operator"), "").status;
            assert_eq!(![404, 405].contains(&status), is_described, "{method} {path}: {status}");
        }
    }
}

#[test]
fn the_description_is_given_to_everybody_and_refers_to_nothing_that_is_not_there() {
    let served = Served::new();
    let given = served.ask("GET", "/v1/openapi.json", "", "");
    assert_eq!((given.status, given.body.as_str()), (200, DESCRIPTION));
    let schemas = DESCRIBED["components"]["schemas"].as_object().expect("schemas");
    for name in DESCRIPTION.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(schemas.contains_key(name), "{name}");
    }
    let mut ids = BTreeSet::new();
    for (path, operations) in DESCRIBED["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            assert!(ids.insert(operation["operationId"].to_string()), "{method} {path}");
        }
    }
}

#[test]
fn limits_in_words_are_those_in_force() {
    let limits = Limits::default();
    let all = DESCRIPTION;
    for (words, number) in [
        ("more than 25 counts as 25", limits.wait_max.as_secs() == 25),
        ("more than 8 counts as 8", limits.answers_wait_max.as_secs() == 8),
        ("\"maxItems\": 1000", limits.events_max == 1000),
        ("newest 20000 interventions", limits.interventions_kept_max == 20_000),
        ("is cut after 10 s", limits.write_timeout.as_secs() == 10),
        ("ends after 10 minutes", limits.connection_age_max.as_secs() == 600),
    ] {
        assert!(all.contains(words) && number, "{words}");
    }
}
