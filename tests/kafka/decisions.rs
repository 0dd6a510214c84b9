//! Verbs that decide: what is sent, to whom, and what is told of it.

use serde_json::Value;

use super::world::{World, story, text};

#[test]
fn a_freeze_is_answered_by_every_task_and_stops_new_automation() {
    let world = World::new("freeze");
    let running = world.run(&[]);
    let frozen = world.output(&["freeze", "--reason", "a bad release", "--author", "ann"]);
    assert_eq!(frozen.status.code(), Some(0), "{}", text(&frozen));
    assert!(text(&frozen).contains("freeze *: done by 3 of 3 tasks"), "{}", text(&frozen));
    world.send_events(&story("sess-1"));
    world.wait_until_processed();
    assert_eq!(world.read(&world.topics().overrides).len(), 0, "frozen tasks publish no overrides");
    let thawed = world.output(&["unfreeze", "--reason", "fixed", "--author", "ann", "-o", "json"]);
    assert_eq!(thawed.status.code(), Some(0), "{}", text(&thawed));
    let told: Value = serde_json::from_slice(&thawed.stdout).expect("JSON");
    assert_eq!(told["answers"].as_array().map(Vec::len), Some(3));
    assert!(told["answers"].as_array().expect("answers").iter().all(|answer| answer["outcome"] == "done"));
    world.send_events(&story("sess-2"));
    world.wait_for_records(&world.topics().overrides, 1);
    running.stop();
    for topic in [world.topics().session_commands, world.topics().commands] {
        let partitions: Vec<i32> = world.read(&topic).iter().map(|record| record.partition).collect();
        assert_eq!(partitions, [0, 0, 1, 1, 2, 2], "{topic}");
    }
}

#[test]
fn without_an_engine_a_freeze_is_sent_and_not_answered() {
    let world = World::new("freeze-alone");
    let sent = world.output(&["freeze", "--reason", "r", "--author", "ann", "--no-wait"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent));
    assert!(text(&sent).contains("sent to 3 tasks"), "{}", text(&sent));
    let waited = world.output(&["freeze", "--reason", "r", "--author", "ann", "--wait", "1"]);
    assert_eq!(waited.status.code(), Some(75), "{}", text(&waited));
    assert!(text(&waited).contains("3 of 3 tasks have not answered within 1 s"), "{}", text(&waited));
    for (arguments, code) in [(&["freeze"][..], 64), (&["freeze", "--reason", "", "--author", "ann"], 64)] {
        assert_eq!(world.output(arguments).status.code(), Some(code), "{arguments:?}");
    }
    let bare = World::bare("freeze-bare");
    assert_eq!(bare.output(&["freeze", "--reason", "r", "--author", "ann"]).status.code(), Some(69));
}
