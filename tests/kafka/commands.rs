//! `reflex topics` and `reflex publish`.

use std::fs;

use serde_json::Value;

use super::world::{World, text};

#[test]
fn topics_are_planned_applied_and_checked() {
    let world = World::bare("topics");
    let check = |arguments: &[&str]| world.output(&[&["topics", "check", "--dev"], arguments].concat()).status.code();
    assert_eq!(check(&[]), Some(1));
    let plan = world.output(&["topics", "plan", "--dev", "--partitions", "3"]);
    assert_eq!(plan.status.code(), Some(0));
    let said = text(&plan);
    let line = format!("--create --topic {} --partitions 3 --replication-factor 1", world.topics().audit);
    assert!(said.contains(&line), "{said}");
    assert_eq!(check(&[]), Some(1), "a plan changes nothing");

    world.apply();
    assert_eq!(check(&[]), Some(0));
    world.apply();
    assert_eq!(check(&["--partitions", "4"]), Some(1));

    let entity = ["--alter", "--entity-type", "topics", "--entity-name", &world.topics().overrides, "--add-config"];
    let broker = crate::harness::Broker::shared();
    let own = "cleanup.policy=delete,max.message.bytes=2000000";
    broker.tool("kafka.admin.ConfigCommand", &[&entity[..], &[own]].concat()).expect("configured");
    let json = world.output(&["topics", "check", "--dev", "-o", "json"]);
    assert_eq!(json.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let changed: Vec<&Value> =
        report.as_array().expect("topics").iter().filter(|topic| topic["changes"] != Value::Array(vec![])).collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0]["changes"][0]["change"], "set cleanup.policy=compact (is delete)");
    world.apply();
    assert_eq!(check(&[]), Some(0));
    let described = ["--describe", "--entity-type", "topics", "--entity-name", &world.topics().overrides];
    let described = broker.tool("kafka.admin.ConfigCommand", &described).expect("described");
    assert!(described.contains("max.message.bytes=2000000"), "what is not ours is kept: {described}");
}

#[test]
fn publish_writes_events_under_their_sessions_and_names_malformed_lines() {
    let world = World::new("publish");
    let file = world.folder.path().join("events.ndjson");
    let event = |session: &str, time: &str| {
        format!(
            r#"{{"new":{{"b":1,"a":1.50}},"event_id":"e-{session}","type":"progress","session_id":"{session}","graph":"g","occurred_at":"{time}"}}"#
        )
    };
    let lines = [
        event("s1", "2026-01-01T00:00:00Z"),
        "nonsense".to_owned(),
        String::new(),
        event("s2", "2026-01-01T00:00:05Z"),
    ];
    fs::write(&file, lines.join("\n")).expect("written");
    let name = file.display().to_string();
    let published = world.output(&["publish", "--keep-times", &name]);
    assert_eq!(published.status.code(), Some(0), "{}", text(&published));
    assert!(text(&published).contains(&format!("{name}:2: not_json")), "{}", text(&published));
    let topic = world.topics().events;
    let mut records = world.wait_for_records(&topic, 2);
    records.sort_by_key(|record| record.key.clone());
    assert_eq!(records[0].key.as_deref(), Some(&b"s1"[..]));
    assert_eq!(records[0].value.as_deref(), Some(lines[0].as_bytes()), "byte by byte");

    let shifted = world.output(&["publish", "--strict", "-o", "json", &name]);
    assert_eq!(shifted.status.code(), Some(65), "{}", text(&shifted));
    let report: Value = serde_json::from_slice(&shifted.stdout).expect("JSON");
    assert_eq!((&report["published"], &report["malformed"]), (&Value::from(2), &Value::from(1)));
    let records = world.wait_for_records(&topic, 4);
    let times: Vec<reflex::record::time::Timestamp> = records
        .iter()
        .filter_map(|record| record.json()["occurred_at"].as_str()?.parse().ok())
        .filter(|time| *time > "2026-02-01T00:00:00Z".parse().expect("a time"))
        .collect();
    assert_eq!(times.len(), 2);
    assert_eq!(times[0].millis_since(times[1]).abs(), 5000);

    assert_eq!(world.output(&["publish", "no-such-file"]).status.code(), Some(66));
    let nowhere = World::bare("publish-nowhere");
    assert_eq!(nowhere.output(&["publish", &name]).status.code(), Some(69));
}
