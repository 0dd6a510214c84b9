//! `reflex doctor` on a real broker: healthy, without a broker, a topic or a processor, frozen; and what it leaves behind.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::world::{World, text};
/// What the program says: the state of each check, by its name, in order; and its exit code.
fn doctor(world: &World, arguments: &[&str]) -> (Option<i32>, Vec<(String, String)>, String) {
    let output = world.output(&[&["doctor", "-o", "json"], arguments].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    let text_of = |value: &Value| value.as_str().expect("a word").to_owned();
    let checks = report["checks"].as_array().expect("checks");
    let states = checks.iter().map(|line| (text_of(&line["check"]), text_of(&line["state"]))).collect();
    let failed = checks.iter().any(|line| line["state"] == "failed");
    assert_eq!(report["state"] == "failed", failed, "{report}");
    // Whoever is told that something does not work is told what to do.
    let helpless = checks.iter().filter(|line| line["state"] == "failed" && line["remedy"].is_null());
    let helpless: Vec<&Value> = helpless.filter(|line| !text_of(&line["words"]).contains('`')).collect();
    assert!(helpless.is_empty(), "{helpless:?}");
    (output.status.code(), states, report.to_string())
}

fn found<'a>(states: &'a [(String, String)], check: &str) -> &'a str {
    states.iter().find(|(name, _)| name == check).map(|(_, state)| state.as_str()).expect("checked")
}

#[test]
fn a_healthy_fleet_passes_and_nothing_of_the_probe_lives_on() {
    let world = World::new("doctor");
    let topics = world.topics();
    let running = world.run(&[]);
    let (code, states, report) = doctor(&world, &[]);
    assert_eq!(code, Some(0), "{report}");
    for check in ["registry", "brokers", "topics", "permissions", "active registry", "processor", "clock", "round trip"]
    {
        assert_eq!(found(&states, check), "ok", "{report}");
    }
    // One override, and its tombstone.
    let overrides = world.read(&topics.overrides);
    assert_eq!(overrides.len(), 2, "{overrides:?}");
    let session = overrides[0].json()["scope"]["session_id"].as_str().expect("a session").to_owned();
    assert!(session.starts_with("reflex-doctor-"), "{session}");
    assert_eq!((&overrides[1].key, &overrides[1].value), (&overrides[0].key, &None));
    assert!(report.contains(&session), "{report}");
    world.wait_until_processed();
    let events = world.read(&topics.events);
    assert_eq!(events.len(), 4, "two for the clock, the failure, the end");
    assert!(events.iter().all(|event| event.json()["session_id"] == session.as_str()));
    assert!(world.read(&format!("{}.dlq", topics.events)).is_empty());

    // What is frozen answers, and does nothing.
    let frozen = world.output(&["freeze", "--reason", "a test"]);
    assert!(frozen.status.success(), "{}", text(&frozen));
    let (code, states, report) = doctor(&world, &[]);
    assert_eq!((code, found(&states, "round trip")), (Some(0), "warning"), "{report}");
    assert!(report.contains("reflex unfreeze"), "{report}");
    assert_eq!(world.read(&topics.overrides).len(), 2);

    // Read only: nothing is written at all.
    world.wait_until_processed();
    let before = world.offsets();
    let (code, states, report) = doctor(&world, &["--read-only"]);
    assert_eq!(
        (code, found(&states, "clock"), found(&states, "round trip")),
        (Some(0), "warning", "warning"),
        "{report}"
    );
    assert_eq!(world.offsets(), before);
    drop(running);
}

#[test]
fn without_a_broker_it_ends_soon_and_says_so() {
    // A port that no program of a user can listen on.
    let world = World::on("127.0.0.1:1", "doctor-nobody");
    let started = Instant::now();
    let (code, states, report) = doctor(&world, &["--set", "broker_timeout_ms=1000"]);
    assert_eq!(code, Some(69), "{report}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!((found(&states, "brokers"), found(&states, "registry")), ("failed", "ok"), "{report}");
    for check in ["topics", "permissions", "active registry", "processor", "clock", "round trip"] {
        assert_eq!(found(&states, check), "warning", "{report}");
    }
}

#[test]
fn a_missing_topic_is_named_and_not_made() {
    let world = World::new("doctor-missing");
    let set = format!("topics.events={}.elsewhere", world.name);
    let (code, states, report) = doctor(&world, &["--set", &set]);
    assert_eq!(code, Some(69), "{report}");
    assert_eq!(found(&states, "topics"), "failed", "{report}");
    assert!(report.contains(&format!("2 missing: {0}.elsewhere, {0}.elsewhere.dlq", world.name)), "{report}");
    assert_eq!((found(&states, "clock"), found(&states, "round trip")), ("warning", "warning"));
    let again = doctor(&world, &["--set", &set]);
    assert!(again.2.contains("2 missing"), "it was made by looking for it: {}", again.2);
}

#[test]
fn without_a_processor_the_group_and_the_round_trip_fail() {
    let world = World::new("doctor-idle");
    let pushed = world.output(&["registry", "push", "--reason", "a test"]);
    assert!(pushed.status.success(), "{}", text(&pushed));
    let (code, states, report) = doctor(&world, &["--wait", "2"]);
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(found(&states, "active registry"), "ok", "{report}");
    assert_eq!((found(&states, "processor"), found(&states, "round trip")), ("failed", "failed"), "{report}");
    assert_eq!(found(&states, "clock"), "ok", "{report}");

    // Whoever comes later finds the session over: nothing of it lives on.
    let running = world.run(&[]);
    world.wait_until_processed();
    drop(running);
    let overrides = world.read(&world.topics().overrides);
    let live = overrides.iter().rev().take(1).filter(|record| record.value.is_some()).count();
    assert_eq!(live, 0, "{overrides:?}");
}

#[test]
fn a_registry_that_is_not_in_order_is_a_configuration_error() {
    let world = World::new("doctor-registry");
    let folder = world.folder.path().join("registry");
    std::fs::create_dir(&folder).expect("made");
    std::fs::write(folder.join("a.toml"), "[[signal]]\ncode = 5\n").expect("written");
    let (code, states, report) = doctor(&world, &["--registry", folder.to_str().expect("a path"), "--read-only"]);
    assert_eq!((code, found(&states, "registry")), (Some(78), "failed"), "{report}");
    assert!(report.contains("reflex registry lint"), "{report}");
}
