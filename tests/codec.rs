//! The encodings of events and records: told apart, read, written, and read back the same.
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::borrow::Cow;

use reflex::record::codec::{DecodeLimits, Headers, Schemas, decode, json};
use reflex::record::dead_letter::{Code, Rejection};
use reflex::record::event::CAUSES_MAX;
use serde_json::{Value, json};

#[path = "codec/avro.rs"]
mod avro;
#[path = "codec/cloudevents.rs"]
mod cloudevents;
#[path = "codec/fleet.rs"]
mod fleet;
#[path = "codec/round_trips.rs"]
mod round_trips;

const LIMITS: DecodeLimits = DecodeLimits { event_bytes_max: 1 << 20, field_bytes_max: 1024 };

fn text(headers: &[(&str, &str)], value: &[u8]) -> Result<String, Rejection> {
    text_with(&Schemas::default(), headers, value)
}

fn text_with(schemas: &Schemas, headers: &[(&str, &str)], value: &[u8]) -> Result<String, Rejection> {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, Some(value.as_bytes()))).collect();
    decode(&Headers(&headers), Some(value), schemas, LIMITS).map(Cow::into_owned)
}

fn value(headers: &[(&str, &str)], bytes: &[u8]) -> Result<Value, Rejection> {
    text(headers, bytes).map(|text| serde_json::from_str(&text).expect("JSON"))
}

fn code<T: std::fmt::Debug>(result: Result<T, Rejection>) -> Code {
    result.expect_err("a rejection").code
}

const EVENT: &str = r#"{"event_id":"e-1","type":"node_failed","session_id":"s-1","graph":"refund_graph"}"#;

#[test]
fn plain_json_is_borrowed() {
    let headers = [("traceparent", Some(b"00-1-2-01" as &[u8])), ("content-type", Some(b"application/json"))];
    let schemas = Schemas::default();
    let decoded = decode(&Headers(&headers), Some(EVENT.as_bytes()), &schemas, LIMITS).expect("text");
    assert!(matches!(decoded, Cow::Borrowed(text) if text.as_ptr() == EVENT.as_ptr()));
}

#[test]
fn attributes_are_read_by_name() {
    let text = r#"{"event_id":"e","type":"retry","session_id":"s","graph":"g",
        "attributes":{"model":"m\u00e9","n":1.50,"deep":{"a":[1]},"no":null,"twice":1,"twice":"2","":"empty"}}"#;
    let event = json::event(text, 64).expect("an event");
    let expected = [
        ("model", Some("mé")),
        ("n", Some("1.50")),
        ("deep", Some(r#"{"a":[1]}"#)),
        ("no", None),
        ("missing", None),
        ("twice", Some("2")),
        ("", Some("empty")),
    ];
    for (name, value) in expected {
        assert_eq!(event.attribute(name).as_deref(), value, "{name}");
    }
    assert_eq!(json::event(EVENT, 64).expect("an event").attribute("model"), None);
}

#[test]
fn errors_borrow_and_keep_the_innermost_cause() {
    let causes: Vec<_> = (0..100).map(|n| json!({"class": format!("C{n}"), "unknown": {"x": [n]}})).collect();
    let text = json!({"event_id": "e", "type": "node_failed", "session_id": "s", "graph": "g",
        "error": {"extra": {"deep": [[1]]}, "code": 429, "class": "pkg.Error", "message": "m", "causes": causes}})
    .to_string();
    let error = json::event(&text, 1024).expect("an event").error.expect("an error");
    assert!(matches!(error.top.class, Some(ref class) if matches!(class.0, Cow::Borrowed("pkg.Error"))));
    assert_eq!(error.top.code.as_deref(), Some("429"));
    let causes = error.causes.expect("causes");
    assert_eq!(causes.len(), CAUSES_MAX);
    assert_eq!(causes.last().and_then(|cause| cause.class.as_deref()), Some("C99"));
}
