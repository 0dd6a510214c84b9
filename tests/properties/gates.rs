//! The gates between a signature and an override, one by one: each test here fails without its line of the core.

use reflex::record::codec::json;
use reflex::record::command::{Command, Verb};
use reflex::record::position::Position;
use reflex::record::time::Timestamp;
use reflex::record::topic;
use reflex::session::{Effects, Input, Session};
use serde_json::json;

use crate::cases::{ends, event, gives_up, last_line, text, timed, told};
use crate::world::{Act, registry};

fn of(session_id: &str) -> (Option<String>, String) {
    (None, session_id.to_owned())
}

#[test]
fn the_end_of_the_failing_run_does_not_end_its_override() {
    let on =
        |kind: &str, route: &str, schema: &str| event(&json!({"type": kind, "route": route, "schema_ref": schema}));
    let acts = vec![
        gives_up("s", "rank"),
        on("graph_failed", "primary", "order_graph:v1"),
        on("graph_completed", "trial", "order_graph:v2"),
        on("graph_completed", "degraded", "manual_order_graph:v1"),
        on("graph_completed", "shadow", "degraded_order_graph:v1"),
        on("graph_completed", "degraded", "degraded_order_graph:v1"),
    ];
    let (done, _) = told(&registry(&[]), acts);
    let live: Vec<u32> = done.iter().map(|done| done.in_use.0).collect();
    assert_eq!(live, [1, 1, 1, 1, 1, 0], "only the end of the run on its own schema");
}

#[test]
fn what_ends_at_a_time_ends_before_an_event_of_that_time() {
    let hour = 3_600_000;
    let acts = vec![
        (0, gives_up("s", "rank")),
        (
            hour,
            event(&json!({"type": "node_failed", "node": "rank", "retry_state": "timeout", "error": {"class": "E"}})),
        ),
    ];
    let (done, _) = timed(&registry(&[]), acts);
    assert_eq!(text(&ends(&done[1])), ["acts_once applied -"], "nothing lives any more that it could attach to");
    assert_eq!(done[1].outputs[0].at, Timestamp::from_millis(hour));
}

#[test]
fn an_approval_bound_to_another_hash_is_refused() {
    let (done, _) = told(&registry(&[]), vec![gives_up("s", "ask"), Act::Approve(of("s"), false)]);
    assert_eq!(last_line(&done[1]), (String::from("refused"), String::from("other_content_hash")));
    assert_eq!(done[1].in_use.0, 0);
}

/// Records a failing event gives that was written, appended and read at these seconds.
fn records_of(occurred: i64, appended: i64, received: i64) -> usize {
    let second = |second: i64| Timestamp::from_millis(second * 1_000);
    let at = second(occurred);
    let text = format!(
        r#"{{"event_id":"e","type":"retries_exhausted","session_id":"s","graph":"order_graph","node":"rank","occurred_at":"{at}"}}"#
    );
    let event = json::event(&text, 1_024).expect("an event");
    let position = Position { topic: topic::EVENTS, partition: 0, offset: 0 };
    let (mut session, mut effects) = (Session::new("session/0", registry(&[])), Effects::default());
    let input = Input::Event { position, event: &event, received_at: second(received) };
    session.step(second(appended), input, &mut effects);
    // What the fleet stage is told is no record of a decision.
    effects.outputs.iter().filter(|output| output.topic != topic::Topic::Fleet).count()
}

#[test]
fn an_event_read_too_long_after_its_append_time_never_triggers() {
    assert!(records_of(0, 0, 60) > 0, "60 s are allowed");
    assert_eq!(records_of(0, 0, 61), 0);
    assert!(records_of(0, 0, -3_600) > 0, "a clock behind the broker's is no age");
}

#[test]
fn an_event_far_behind_its_append_time_never_triggers() {
    assert!(records_of(0, 120, 120) > 0, "120 s are allowed");
    assert_eq!(records_of(0, 121, 121), 0);
    assert!(records_of(3_600, 0, 0) > 0, "a producer ahead of the broker is not late");
}

#[test]
fn late_failures_are_no_part_of_a_trip() {
    let failed = |number: i64, occurred: &str| {
        event(&json!({"event_id": number.to_string(), "type": "node_failed", "node": "rank", "occurred_at": occurred}))
    };
    let (early, recent) = ("1970-01-01T00:00:00Z", "1970-01-01T00:10:00Z");
    let acts = [early, early, recent, recent, recent];
    let acts = (0..).zip(acts).map(|(number, occurred)| (600_000, failed(number, occurred))).collect();
    let (done, _) = timed(&registry(&[]), acts);
    let applied: Vec<usize> = done.iter().map(|done| ends(done).len()).collect();
    assert_eq!(applied, [0, 0, 0, 0, 1]);
}

#[test]
fn a_frozen_task_acts_on_nothing() {
    let (done, _) = told(&registry(&[]), vec![Act::Freeze, gives_up("s", "rank"), gives_up("t", "watch")]);
    assert_eq!(text(&ends(&done[1])), ["acts_once failed frozen"]);
    assert_eq!(text(&ends(&done[2])), ["observes observed -"], "observing is no automation");
}

#[test]
fn a_loud_tenant_leaves_room_for_others() {
    let gives_up = |tenant: &str, number: i32| {
        let session = format!("{tenant}-{number}");
        event(&json!({"session_id": session, "tenant": tenant, "type": "retries_exhausted", "node": "rank"}))
    };
    let mut acts: Vec<Act> = (0..6).map(|number| gives_up("loud", number)).collect();
    acts.extend((0..3).map(|number| gives_up("quiet", number)));
    acts.extend((0..2).map(|number| gives_up("third", number)));
    let (done, _) = told(&registry(&[("session_overrides_live_max", 10)]), acts);
    let applied: Vec<bool> = done.iter().map(|done| text(&ends(done)) == ["acts_once applied -"]).collect();
    let expected = [true, true, true, true, true, false, true, true, false, true, true];
    assert_eq!(applied, expected, "half for whoever comes, then a fifth each");
    assert_eq!(text(&ends(&done[5])), ["acts_once failed limit:session_overrides_live_max"]);
}

#[test]
fn too_many_interventions_in_a_minute_are_refused() {
    let acts = vec![(0, gives_up("a", "rank")), (59_000, gives_up("b", "rank")), (61_000, gives_up("c", "rank"))];
    let (done, _) = timed(&registry(&[("interventions_per_minute_max", 1)]), acts);
    assert_eq!(text(&ends(&done[1])), ["acts_once failed limit:interventions_per_minute_max"]);
    assert_eq!(text(&ends(&done[2])), ["acts_once applied -"]);
}

#[test]
fn the_last_sixteen_failures_of_a_session_are_remembered() {
    let failed = |id: &str, class: &str| {
        event(&json!({"event_id": id, "type": "node_failed", "node": "rank", "error": {"class": class}}))
    };
    let between = |failures: i32| {
        let mut acts = vec![failed("1", "E"), failed("2", "E")];
        acts.extend((1..failures).map(|number| failed(&format!("other-{number}"), &format!("Other{}", number % 9))));
        acts.push(failed("2", "E"));
        let (done, _) = told(&registry(&[("interventions_per_session_max", 100)]), acts);
        let ended = text(&ends(done.last().expect("a step")));
        (ended, last_line(done.last().expect("a step")).1)
    };
    let counted = |failures| between(failures) != (Vec::new(), String::new());
    assert!(!counted(16), "fifteen came between: it is still known");
    assert!(counted(17), "sixteen came between: it is a third failure, and attaches to what the others did");
}

#[test]
fn a_node_on_another_route_starts_afresh() {
    let failed = |number: i64, route: &str| {
        event(&json!({
            "event_id": number.to_string(), "type": "node_failed", "node": "rank", "route": route,
            "schema_ref": "order_graph:v1", "error": {"class": "E"},
        }))
    };
    let routes = ["primary", "primary", "trial", "trial", "trial"];
    let (done, _) = told(&registry(&[]), (0..).zip(routes).map(|(number, route)| failed(number, route)).collect());
    let applied: Vec<usize> = done.iter().map(|done| ends(done).len()).collect();
    assert_eq!(applied, [0, 0, 0, 0, 1]);
}

#[test]
fn a_command_that_comes_twice_is_carried_out_once() {
    let (mut session, mut effects) = (Session::new("session/0", registry(&[])), Effects::default());
    let position = Position { topic: topic::SESSION_COMMANDS, partition: 0, offset: 0 };
    let command = Command {
        command_id: String::from("once"),
        verb: Verb::Freeze,
        target: String::from("*"),
        content_hash: None,
        order: None,
        reason: String::from("storm"),
        author: String::from("ann"),
    };
    for expected in [2, 2] {
        session.step(Timestamp::EPOCH, Input::Command { position, command: &command }, &mut effects);
        assert_eq!(effects.outputs.len(), expected, "the task's line and the command's");
    }
}
