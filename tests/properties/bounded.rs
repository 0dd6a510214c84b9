//! Limits hold whatever comes, and what is live is never forgotten for room.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::cases::{event, gives_up, last_line, told};
use crate::draft;
use crate::ledger::Ledger;
use crate::world::{Act, Step, World, registry};

/// Forty sessions, of which three may have proposals, so that less than ten are ever held.
fn drawn(number: i64, runner: &mut TestRunner) -> Act {
    let mut event = draft::event().new_tree(runner).expect("a draft").current();
    let session = (number * 7_919 + number / 40) % 40;
    event.insert(String::from("session_id"), format!("s-{session}").into());
    event.remove("tenant");
    let proposes = event.get("node").is_some_and(|node| node == "ask" || node == "file_order");
    if proposes && session > 2 {
        event.insert(String::from("node"), "rank".into());
    }
    Act::Event(event)
}

#[test]
fn ten_thousand_events_stay_within_small_limits() {
    let small = registry(&[
        ("sessions_tracked_max", 10),
        ("session_overrides_live_max", 4),
        ("runs_per_session_max", 2),
        ("shapes_per_run_max", 2),
        ("evidence_events_max", 2),
        ("artifacts_per_run_max", 1),
        ("duplicate_ids_max", 2),
        ("command_ids_max", 2),
        ("irreversible_runs_max", 2),
    ]);
    let mut runner = TestRunner::new(draft::config(1));
    let (mut world, mut ledger) = (World::new(&small), Ledger::default());
    for number in 0..10_000 {
        let done = world.step(&Step { number, at_ms: number * 5_000, act: drawn(number, &mut runner) });
        assert!(done.in_use.1 <= 10, "{} sessions tracked after {number}", done.in_use.1);
        ledger.step(&done);
    }
    assert!(ledger.published > 100, "something happened: {}", ledger.published);
}

#[test]
fn a_session_with_a_live_override_is_not_forgotten_for_room() {
    let mut acts = vec![gives_up("s", "rank"), gives_up("t", "ask")];
    acts.extend((0..200).map(|other| event(&json!({"session_id": format!("o-{other}"), "type": "node_failed"}))));
    acts.push(event(&json!({"session_id": "s", "type": "session_ended"})));
    acts.push(event(&json!({"session_id": "t", "type": "session_ended"})));
    let (done, ledger) = told(&registry(&[("sessions_tracked_max", 4)]), acts);
    assert_eq!(last_line(&done[202]), (String::from("removed"), String::from("session_ended")));
    assert_eq!(last_line(&done[203]), (String::from("expired"), String::from("session_ended")));
    assert_eq!((ledger.held(), done[203].in_use.0), (0, 0));
    assert!(done.iter().all(|done| done.in_use.1 <= 4));
}

#[test]
fn sessions_that_are_held_do_not_keep_others_from_making_room() {
    let mut acts: Vec<Act> = (0..70).map(|held| gives_up(&format!("held-{held}"), "rank")).collect();
    acts.extend((0..300).map(|other| event(&json!({"session_id": format!("o-{other}"), "type": "node_failed"}))));
    let (done, _) = told(&registry(&[("sessions_tracked_max", 100)]), acts);
    // The held ones are passed over once, 64 at a time: at most one session too many for each 64 of them.
    assert!(done.iter().all(|done| done.in_use.1 <= 102));
    assert_eq!(done[369].in_use, (70, 100));
}
