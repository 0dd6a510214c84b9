//! `reflex bench`: what it announces is found, and what is not found is told by its exit code.

use serde_json::{Value, json};

use super::world::{World, text};

const FLEET: [&str; 11] = [
    "bench",
    "--events=20000",
    "--partitions=3",
    "--sessions=200",
    "--failing-percentage=5",
    "--seed=3",
    "--baseline=raw",
    "--reuse",
    "--verify",
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
        assert_eq!(report["verified"]["differences"], json!([]));
        // Those of the session stage, and of the fleet stage what they add up to; each with its activation.
        assert_eq!(report["verified"]["tasks"], 6);
        let events = report["events"].as_u64().expect("a number");
        assert!(report["verified"]["inputs"].as_u64().is_some_and(|inputs| inputs >= events + 6), "{report}");
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

#[test]
fn every_store_gives_the_same_state_as_the_changelog() {
    let world = World::bare("restore");
    let ended = world.output(&["bench", "--restore=3000", "--partitions=3", "-o", "json"]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    let report: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let entries = report["entries"].as_u64().expect("a number");
    // One each, and what the tasks keep beside them.
    assert!((3003..3100).contains(&entries), "{report}");
    let restores = report["restores"].as_array().expect("restores");
    let of = |field: &str| restores.iter().map(|restore| restore[field].clone()).collect::<Vec<_>>();
    assert_eq!(of("from"), ["changelog", "fjall", "sled"]);
    assert_eq!(of("loaded"), [0, 6, 6]);
    assert_eq!(of("entries"), vec![entries; 3]);
    assert_eq!(of("state_hash"), vec![restores[0]["state_hash"].clone(); 3]);
    assert_eq!(of("problem"), vec![Value::Null; 3]);
    for restore in restores {
        let figure = |name: &str| restore[name].as_f64().unwrap_or_default();
        assert!(figure("seconds") > 0.0 && figure("cpu_seconds") > 0.0 && figure("resident_bytes") > 1e6, "{restore}");
    }
    // Nothing is left behind.
    let data = std::fs::read_dir(world.folder.path().join("data")).into_iter().flatten().flatten();
    assert_eq!(data.map(|entry| entry.path()).collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new());

    let ended = world.output(&["bench", "--restore=300", "--partitions=1", "--store=sled"]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    let table = text(&ended);
    assert!(table.contains("sled ") && !table.contains("fjall"), "{table}");
    assert_eq!(world.output(&["bench", "--restore=300", "--store=redb"]).status.code(), Some(64));
}

#[test]
fn sessions_that_live_are_tracked_while_healthy_events_are_measured() {
    let world = World::bare("live");
    let ended = world.output(&["bench", "--sessions-live=100,1000", "--events=20000", "--partitions=3", "-o", "json"]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    let report: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let measured = report["measured"].as_array().expect("measured");
    for (measured, sessions) in measured.iter().zip([100, 1000]) {
        assert_eq!((&measured["sessions_live"], &measured["tracked"]), (&json!(sessions), &json!(sessions)));
        for of in ["broker", "stage", "stage_of_failing"] {
            assert!(measured[of]["events"].as_u64().is_some_and(|events| events >= 20_000), "{measured}");
            assert!(measured[of]["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{measured}");
        }
    }
    assert_eq!(measured[0]["broker"]["ratio"], 1.0);
}
