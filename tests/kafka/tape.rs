//! The tape: what was decided can be decided again, and what cannot be published becomes a dead letter.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::{SOON, World, story, text};
use crate::harness::{Broker, child};

fn verified(world: &World, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = world.output(&[&["verify", "-o", "json"], arguments].concat());
    let told = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    (output.status.code(), told)
}

#[test]
fn what_was_decided_over_crashes_is_decided_again_byte_for_byte() {
    let world = World::new("tape");
    let mut running = world.run(&["--set", "commit_interval_ms=200"]);
    for round in 0..4 {
        let before = world.offsets();
        for session in 0..10 {
            world.send_events(&story(&format!("sess-{round}-{session}")));
        }
        world.send(&world.topics().events, Some(b"bad"), Some(b"no event"), None);
        if round < 3 {
            // Every task has committed something in this life, and in all likelihood not everything.
            let has_begun = |(before, now): (&(i64, i64), &(i64, i64))| now.0 > before.0 || now.1 == before.1;
            child::wait_for("a commit of each", SOON, || {
                before.iter().zip(&world.offsets()).all(has_begun).then_some(())
            });
            running.kill9();
            running = world.run(&["--set", "commit_interval_ms=200"]);
        }
    }
    let frozen = world.output(&["freeze", "--reason", "r", "--author", "ann"]);
    assert!(frozen.status.success(), "{}", text(&frozen));
    world.wait_until_processed();
    running.stop();

    let (code, told) = verified(&world, &[]);
    assert_eq!(code, Some(0), "{told:#}");
    let tasks = told.as_array().expect("tasks");
    assert_eq!(tasks.len(), 6);
    let sum = |field: &str| tasks.iter().map(|task| task[field].as_u64().expect("a number")).sum::<u64>();
    let sessions: Vec<_> =
        tasks.iter().filter(|task| task["task"].as_str().expect("a task").starts_with("session/")).collect();
    let inputs: u64 = sessions.iter().map(|task| task["inputs"].as_u64().expect("a number")).sum();
    // Events, the bad ones, an activation and a freeze for each task.
    assert_eq!(inputs, 4 * 10 * 3 + 4 + 2 * 3);
    assert!(sum("incarnations") >= 12, "{told:#}");
    assert!(sum("outputs") > 4 * 10 * 8);

    // A span of it, and a task that there is not.
    let (code, told) = verified(&world, &["--task", "session/0", "--from", "1"]);
    assert_eq!((code, told.as_array().map(Vec::len)), (Some(0), Some(1)), "{told:#}");
    assert_eq!(world.output(&["verify", "--task", "session/9"]).status.code(), Some(64));
}

#[test]
fn what_no_topic_takes_becomes_a_dead_letter_and_the_rest_goes_on() {
    let world = World::new("unpublishable");
    let topics = world.topics();
    let running = world.run(&[]);
    world.send_events(&story("sess-1"));
    world.wait_for_decisions(4);
    // From now on a broker refuses what the engine believes it takes.
    let bound = ["--alter", "--entity-type", "topics", "--entity-name", &topics.interventions, "--add-config"];
    let set = [&bound[..], &["max.message.bytes=700"]].concat();
    Broker::shared().tool("kafka.admin.ConfigCommand", &set).expect("configured");
    let described = ["--describe", "--entity-type", "topics", "--entity-name", &topics.interventions];
    child::wait_for("the broker to know", SOON, || {
        let told = Broker::shared().tool("kafka.admin.ConfigCommand", &described).expect("described");
        told.contains("max.message.bytes=700").then_some(())
    });
    std::thread::sleep(Duration::from_secs(1));
    let healthy = |number: usize| json!({"event_id": format!("h-{number}"), "type": "graph_started", "session_id": format!("h-{number}"), "graph": "refund_graph"});
    let mut events: Vec<Value> = (0..40).map(healthy).collect();
    events.extend(story("sess-2"));
    events.extend((40..80).map(healthy));
    world.send_events(&events);
    world.wait_until_processed();
    let letters = world.wait_for_records(&format!("{}.dlq", topics.events), 1);
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].key.as_deref(), Some(&b"sess-2"[..]));
    assert_eq!(world.read(&topics.overrides).len(), 1, "nothing of the refused one is published");
    running.stop();
    let (code, told) = verified(&world, &[]);
    assert_eq!(code, Some(0), "{told:#}");
}
