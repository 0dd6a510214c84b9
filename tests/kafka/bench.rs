//! `reflex bench`: what it announces is found, and what is not found is told by its exit code.

use serde_json::Value;

use super::world::{World, text};

const FLEET: [&str; 10] = [
    "bench",
    "--events=20000",
    "--partitions=3",
    "--sessions=200",
    "--failing-percentage=5",
    "--seed=3",
    "--baseline=raw",
    "--reuse",
    "-o",
    "json",
];

#[test]
fn the_overrides_found_are_those_announced_and_others_fail() {
    let world = World::bare("bench");
    let mut announced = Value::Null;
    // The second time the events are there already.
    for _ in 0..2 {
        let ended = world.output(&FLEET);
        assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
        let report: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
        assert_eq!(report["overrides"]["found"], report["overrides"]["expected"]);
        assert_eq!(report["raw_batches"]["events"], report["events"]);
        assert_eq!(report["raw_polls"]["events"], report["events"]);
        assert_eq!(report["not_committed"], 0);
        assert!(report["engine"]["cpu_us_per_event"].as_f64().is_some_and(|us| us > 0.0), "{report}");
        announced = report;
    }
    let expected = announced["overrides"]["expected"].as_u64().expect("a number");
    assert!((20..200).contains(&expected), "{expected}");
    let topic = announced["topic"].as_str().expect("a name");
    let wrong = (expected + 1).to_string();
    let ended = world.output(&["bench", "--topic", topic, "--expect", &wrong]);
    assert_eq!(ended.status.code(), Some(1), "{}", text(&ended));
    assert!(text(&ended).contains("NOT as announced"), "{}", text(&ended));
}

#[test]
fn latency_is_measured_and_every_failing_session_is_seen() {
    let world = World::bare("latency");
    let ended = world.output(&[
        "bench",
        "--latency=1000",
        "--seconds=3",
        "--partitions=3",
        "--sessions=50",
        "--failing-percentage=20",
        "-o",
        "json",
    ]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    let report: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let latency = |name: &str| report["latency_ms"][name].as_f64().unwrap_or_default();
    assert!(report["measured"].as_u64().is_some_and(|measured| measured > 10), "{report}");
    assert!(0.0 < latency("p50") && latency("p50") <= latency("p99"), "{report}");
}
