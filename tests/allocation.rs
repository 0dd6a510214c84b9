//! What an event costs in memory: nothing where all is well, a stated multiple of its bytes where it is hostile.
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use reflex::record::codec::json;
use reflex::record::position::Position;
use reflex::record::time::Timestamp;
use reflex::record::topic;
use reflex::registry::{Registry, SourceFile, load};
use reflex::session::{Effects, Input, Session};

#[path = "bad_input/allocations.rs"]
mod allocations;

/// Most bytes that decoding and stepping one hostile event may hold at a time, for each of its bytes and beyond.
const BYTES_PER_BYTE_MAX: usize = 2;
const BYTES_FREE: usize = 64 * 1024;

fn registry() -> Arc<Registry> {
    let text = include_str!("scenarios/registry/plain.toml").to_owned();
    let files = [SourceFile { name: String::from("plain.toml"), text }];
    Arc::new(load::load(&files).expect("a valid registry").registry)
}

/// Decodes and steps one event.
fn take(session: &mut Session, text: &str, effects: &mut Effects) {
    let event = json::event(text, 1_024).expect("an event");
    let position = Position { topic: topic::EVENTS, partition: 0, offset: 7 };
    let now = Timestamp::EPOCH;
    session.step(now, Input::Event { position, event: &event, received_at: now }, effects);
}

/// A task with a thousand failing sessions, ten of them with a live override.
fn busy() -> (Session, Effects) {
    let (mut session, mut effects) = (Session::new("session/0", registry()), Effects::default());
    for number in 0..1_000 {
        let kind = if number < 10 { "retries_exhausted" } else { "node_failed" };
        let failed = format!(
            r#"{{"event_id":"e-{number}","type":"{kind}","session_id":"failing-{number}","run_id":"r","graph":"order_graph","graph_version":"v1","tenant":"t-7","node":"rank"}}"#
        );
        take(&mut session, &failed, &mut effects);
    }
    assert_eq!(session.in_use(), (10, 1_000));
    effects.clear();
    (session, effects)
}

/// A healthy event with every usual field; `session` and what follows the schema may differ.
fn healthy(kind: &str, session: &str, schema: &str) -> String {
    format!(
        r#"{{"event_id":"01JDXW2V6Z7M8QK4T5N9R3C1BA","occurred_at":"1970-01-01T00:00:00.000Z","type":"{kind}","session_id":"{session}","run_id":"r","graph":"order_graph","graph_version":"v1",{schema}"route":"primary","override_id":null,"override_attempt":null,"node":"rank","attempt":1,"max_attempts":3,"retry_state":"in_progress","error":null,"artifact":{{"name":"scores","present":true}},"latency_ms":812.25,"app_version":"6.4.1","region":"eu-west","tenant":"t-7","attributes":{{"model":"m-1","zone":"b"}},"dependency":"payments_api","operation":"charge:order-17","side_effect":false,"failure":null,"token_usage":{{"total":812}}}}"#
    )
}

const KINDS: [&str; 9] = [
    "graph_started",
    "node_started",
    "node_completed",
    "tool_call_started",
    "tool_call_completed",
    "progress",
    "session_started",
    "override_applied",
    "graph_completed",
];

/// Allocations of each healthy event of a session, once its row of counts is there: a run of another session came first.
fn calls_of(sessions: &[&str], schema: &str) -> Vec<(String, usize)> {
    let (mut session, mut effects) = busy();
    for kind in ["graph_started", "graph_completed"] {
        take(&mut session, &healthy(kind, "another", schema), &mut effects);
    }
    let mut counted = Vec::new();
    for name in sessions {
        for kind in KINDS {
            let text = healthy(kind, name, schema);
            let ((), calls, _) = allocations::measured(|| take(&mut session, &text, &mut effects));
            counted.push((format!("{kind} of {name}"), calls));
        }
    }
    assert!(effects.is_empty());
    counted.retain(|(_, calls)| *calls > 0);
    counted
}

#[test]
fn a_healthy_event_of_a_healthy_session_allocates_nothing() {
    assert_eq!(calls_of(&["healthy-1", "healthy-2"], r#""schema_ref":"order_graph:v1","#), []);
    assert_eq!(calls_of(&["healthy-3"], ""), []);
}

#[test]
fn a_healthy_event_of_a_failing_session_allocates_nothing() {
    assert_eq!(calls_of(&["failing-500", "failing-501"], r#""schema_ref":"order_graph:v1","#), []);
    assert_eq!(calls_of(&["failing-502"], ""), []);
}

#[test]
fn a_healthy_event_of_a_session_with_an_override_allocates_nothing() {
    assert_eq!(calls_of(&["failing-3"], r#""schema_ref":"order_graph:v1","#), []);
}

/// A failing event with more fields, as text.
fn failing(fields: &str) -> String {
    format!(
        r#"{{"event_id":"e","type":"node_failed","session_id":"s","graph":"order_graph","node":"rank","attempt":1,"max_attempts":1{fields}}}"#
    )
}

/// Events of close to a mebibyte, the most that is taken.
fn hostile() -> Vec<(&'static str, String)> {
    let list = |item: &str, bytes: usize| vec![item; bytes / (item.len() + 1)].join(",");
    let mebibyte = 1_000_000;
    let causes = |item: &str| failing(&format!(r#","error":{{"causes":[{}]}}"#, list(item, mebibyte)));
    let message = |text: &str| failing(&format!(r#","error":{{"message":"{text}"}}"#));
    vec![
        ("empty causes", causes("{}")),
        ("causes with a class", causes(r#"{"class":"A"}"#)),
        ("causes with a code", causes(r#"{"code":1}"#)),
        ("causes with long classes", causes(&format!(r#"{{"class":"{}"}}"#, "x.Y".repeat(300)))),
        ("causes with messages", causes(r#"{"message":"1 'a' {\"b\"}"}"#)),
        ("a long message", message(&"word 7 ".repeat(140_000))),
        ("a message of blank lines", message(&r"\n".repeat(450_000))),
        ("a message of quotes", message(&"'a ".repeat(330_000))),
        ("an unknown field of the error", failing(&format!(r#","error":{{"x":[{}]}}"#, list("0", mebibyte)))),
        ("an unknown field", failing(&format!(r#","x":[{}]"#, list("0", mebibyte)))),
        ("attributes", failing(&format!(r#","attributes":{{"model":[{}]}}"#, list("0", mebibyte)))),
        ("many attributes", {
            let pairs: Vec<String> = (0..70_000).map(|number| format!(r#""a{number}":0"#)).collect();
            failing(&format!(r#","attributes":{{{}}}"#, pairs.join(",")))
        }),
    ]
}

#[test]
fn a_hostile_event_holds_no_more_than_its_bytes_are_worth() {
    for (name, text) in hostile() {
        let (mut session, mut effects) = (Session::new("session/0", registry()), Effects::default());
        let ((), calls, peak) = allocations::measured(|| take(&mut session, &text, &mut effects));
        let worth = BYTES_PER_BYTE_MAX * text.len() + BYTES_FREE;
        assert!(peak <= worth, "{name}: {peak} bytes held for {} bytes, in {calls} calls", text.len());
    }
}
