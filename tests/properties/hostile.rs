//! Bytes that no honest runtime sends: each is an event or is refused with a code, and nothing panics.

use proptest::collection::vec;
use proptest::prelude::*;
use reflex::record::codec::json;
use reflex::record::dead_letter::Code;
use reflex::record::position::Position;
use reflex::record::time::Timestamp;
use reflex::record::topic;
use reflex::session::{Effects, Input, Session};

use crate::draft;
use crate::world::{bytes, high};

/// Decodes and steps; the code of a refusal, else how many records came out.
fn taken(session: &mut Session, input: &[u8]) -> Result<usize, Code> {
    let event = json::event_from_bytes(input, 1_024).map_err(|rejection| {
        assert!(rejection.message.chars().count() <= 200, "{rejection}");
        rejection.code
    })?;
    let mut effects = Effects::default();
    let now = Timestamp::EPOCH;
    let position = Position { topic: topic::EVENTS, partition: 0, offset: 0 };
    session.step(now, Input::Event { position, event: &event, received_at: now }, &mut effects);
    // What came out can be written, too.
    drop(bytes(&effects.outputs));
    Ok(effects.outputs.len())
}

fn once(input: &[u8]) -> Result<usize, Code> {
    taken(&mut Session::new("session/0", high()), input)
}

/// A failing event with more fields, as text.
fn failing(fields: &str) -> String {
    format!(r#"{{"event_id":"e","type":"node_failed","session_id":"s","graph":"order_graph","node":"rank"{fields}}}"#)
}

#[test]
fn what_is_no_event_is_refused_with_its_code() {
    let long = "x".repeat(65_536);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: Vec<(&str, Vec<u8>, Code)> = vec![
        ("nothing", Vec::new(), Code::NotJson),
        ("invalid UTF-8", [b"{\"event_id\":\"".as_slice(), &[0xff, 0xfe], b"\"}"].concat(), Code::NotJson),
        ("byte order mark", "\u{feff}{}".into(), Code::NotJson),
        ("truncated", failing("")[..40].into(), Code::NotJson),
        ("trailing garbage", format!("{} x", failing("")).into(), Code::NotJson),
        ("NaN", failing(r#","latency_ms":NaN"#).into(), Code::NotJson),
        ("Infinity", failing(r#","latency_ms":-Infinity"#).into(), Code::NotJson),
        ("a raw control character", failing(",\"node\":\"a\u{1}b\"").into(), Code::NotJson),
        ("an array", "[1]".into(), Code::NotObject),
        ("a string", "\"x\"".into(), Code::NotObject),
        ("null", "null".into(), Code::NotObject),
        ("nesting alone", deep.clone().into(), Code::NotObject),
        ("no fields", "{}".into(), Code::MissingField),
        ("a null id", r#"{"event_id":null,"type":"x","session_id":"s","graph":"g"}"#.into(), Code::MissingField),
        ("a field twice", failing(r#","session_id":"t""#).into(), Code::BadField),
        ("a number as a name", failing(r#","run_id":7"#).into(), Code::BadField),
        ("2^64 as an attempt", failing(r#","attempt":18446744073709551616"#).into(), Code::BadField),
        ("a negative attempt", failing(r#","attempt":-1"#).into(), Code::BadField),
        ("-0.0 as an attempt", failing(r#","attempt":-0.0"#).into(), Code::BadField),
        ("half an attempt", failing(r#","attempt":1.5"#).into(), Code::BadField),
        ("attributes as a list", failing(r#","attributes":[1]"#).into(), Code::BadField),
        ("a session id of 64 KiB", failing("").replace("\"s\"", &format!("\"{long}\"")).into(), Code::BadField),
        ("a node of 64 KiB", failing(&format!(r#","app_version":"{long}""#)).into(), Code::BadField),
        ("a class of 64 KiB", failing(&format!(r#","error":{{"class":"{long}"}}"#)).into(), Code::BadField),
        ("an artifact of 64 KiB", failing(&format!(r#","artifact":{{"name":"{long}"}}"#)).into(), Code::BadField),
        ("half a surrogate", failing(r#","run_id":"\ud800""#).into(), Code::BadField),
        ("nesting in a known field", failing(&format!(r#","error":{deep}"#)).into(), Code::BadField),
        ("a time in words", failing(r#","occurred_at":"yesterday""#).into(), Code::BadTime),
        ("a time as a number", failing(r#","occurred_at":1700000000"#).into(), Code::BadTime),
        ("the year 10000", failing(r#","occurred_at":"10000-01-01T00:00:00Z""#).into(), Code::BadTime),
        ("a time without an offset", failing(r#","occurred_at":"2026-01-01T00:00:00""#).into(), Code::BadTime),
    ];
    for (name, input, code) in cases {
        assert_eq!(once(&input), Err(code), "{name}");
    }
}

#[test]
fn what_is_strange_and_still_an_event_is_taken() {
    let long = "x".repeat(65_536);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    let chain = vec![r#"{"class":"a.B","code":1,"message":"m"}"#; 20_000].join(",");
    let keys: Vec<String> = (0..100_000).map(|key| format!(r#""k{key}":0"#)).collect();
    let cases = [
        ("nesting in an unknown field", failing(&format!(r#","x":{deep}"#))),
        ("objects in an unknown field", failing(&format!(r#","x":{objects}"#))),
        ("nesting in attributes", failing(&format!(r#","attributes":{{"model":{deep}}}"#))),
        ("100 000 unknown fields", failing(&format!(",{}", keys.join(",")))),
        ("1e999 in an unknown field", failing(r#","x":1e400"#)),
        ("2^64 in an unknown field", failing(r#","x":18446744073709551616"#)),
        ("-0.0 as a latency", failing(r#","latency_ms":-0.0"#)),
        ("an error without anything", failing(r#","error":{}"#)),
        ("an error that is null", failing(r#","error":null"#)),
        ("a message of 64 KiB", failing(&format!(r#","error":{{"message":"{long}"}}"#))),
        ("a code of quotes", failing(&format!(r#","error":{{"code":"{}"}}"#, "'".repeat(1_024)))),
        ("a message of brackets", failing(&format!(r#","error":{{"message":"{}"}}"#, "[{'".repeat(20_000)))),
        ("a message of escapes", failing(&format!(r#","error":{{"message":"{}"}}"#, r"\u001b[31m".repeat(9_000)))),
        ("a message of blank lines", failing(&format!(r#","error":{{"message":"{}"}}"#, r"\n".repeat(30_000)))),
        ("20 000 causes", failing(&format!(r#","error":{{"causes":[{chain}]}}"#))),
        ("a type of 1 KiB", failing("").replace("node_failed", &"t".repeat(1_024))),
        ("U+0000 in every name", failing("").replace("\"s\"", "\"\\u0000\"").replace("rank", "\\u0000")),
        ("right-to-left override", failing("").replace("rank", "\\u202ernak")),
        ("the year 1", failing(r#","occurred_at":"0001-01-01T00:00:00Z""#)),
        ("the year 9999", failing(r#","occurred_at":"9999-12-30T00:00:00Z""#)),
        ("an unknown retry state", failing(r#","retry_state":"abandoned","max_attempts":4294967295"#)),
    ];
    for (name, input) in cases {
        assert!(once(input.as_bytes()).is_ok(), "{name}: {:?}", once(input.as_bytes()));
    }
}

proptest! {
    #![proptest_config(draft::config(128))]

    #[test]
    fn bytes_bent_anywhere_never_panic(
        events in vec(draft::event(), 1..8),
        bends in vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut session = Session::new("session/0", high());
        for event in events {
            let mut event = event;
            event.insert(String::from("event_id"), "e".into());
            let mut input = serde_json::Value::Object(event).to_string().into_bytes();
            let _ = taken(&mut session, &input);
            for (at, byte) in &bends {
                let at = at.index(input.len());
                input[at] = *byte;
                let _ = taken(&mut session, &input);
            }
            let _ = taken(&mut session, &input[..cut.index(input.len())]);
        }
    }
}
