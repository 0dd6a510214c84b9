//! Hostile and broken input: each kind has its code, none panics, none takes more memory than it is worth.
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use reflex::record::codec::avro::encode;
use reflex::record::codec::{DecodeLimits, Headers, RecordKind, Schemas, decode, json};
use reflex::record::dead_letter::{Code, Rejection};
use serde_json::{Value, json};

#[path = "bad_input/allocations.rs"]
mod allocations;
#[path = "bad_input/avro.rs"]
mod avro;

const LIMITS: DecodeLimits = DecodeLimits { event_bytes_max: 1 << 20, field_bytes_max: 1024 };

/// Most bytes that decoding and reading one input may hold at a time, for each byte of the input and beyond.
const BYTES_PER_BYTE_MAX: usize = 4;
const BYTES_FREE: usize = 64 * 1024;

type Owned = Vec<(&'static str, Vec<u8>)>;

/// Decodes and reads an event; `None` where it is accepted. Holds every input to the bound on memory.
fn outcome(schemas: &Schemas, headers: &Owned, value: Option<&[u8]>) -> Option<Rejection> {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, Some(&value[..]))).collect();
    let (outcome, _, peak) = allocations::measured(|| {
        let text = match decode(&Headers(&headers), value, schemas, LIMITS) {
            Ok(text) => text,
            Err(rejection) => return Some(rejection),
        };
        json::event(&text, LIMITS.field_bytes_max).err()
    });
    let input =
        value.map_or(0, <[u8]>::len) + headers.iter().map(|(_, value)| value.map_or(0, <[u8]>::len)).sum::<usize>();
    assert!(peak <= BYTES_PER_BYTE_MAX * input + BYTES_FREE, "{peak} bytes held for {input} bytes of input");
    outcome
}

fn code_of(value: &[u8]) -> Option<Code> {
    outcome(&Schemas::default(), &Vec::new(), Some(value)).map(|rejection| rejection.code)
}

/// A good event with more members, which may stand there twice.
fn with(members: &str) -> Vec<u8> {
    format!(r#"{{"event_id":"e","type":"node_failed","session_id":"s","graph":"g",{members}}}"#).into_bytes()
}

fn nested(opening: &str, middle: &str, closing: &str, levels: usize) -> String {
    format!("{}{middle}{}", opening.repeat(levels), closing.repeat(levels))
}

#[test]
fn values_that_are_no_json_objects() {
    let table: &[(&str, &[u8], Code)] = &[
        ("blank", b" ", Code::NotJson),
        ("text", b"hello", Code::NotJson),
        ("invalid UTF-8", b"{\"event_id\":\"\xff\"}", Code::NotJson),
        ("UTF-16", b"\xff\xfe{\0}\0", Code::NotJson),
        ("byte order mark", b"\xef\xbb\xbf{}", Code::NotJson),
        ("trailing garbage", b"{} x", Code::NotJson),
        ("two objects", b"{}{}", Code::NotJson),
        ("cut off", br#"{"event_id":"e","type"#, Code::NotJson),
        ("single quotes", b"{'event_id':'e'}", Code::NotJson),
        ("control character in text", b"{\"event_id\":\"a\nb\"}", Code::NotJson),
        ("null", b"null", Code::NotObject),
        ("array", b"[]", Code::NotObject),
        ("array of the required fields", br#"["e","node_failed","s","g"]"#, Code::NotObject),
        ("number", b"1", Code::NotObject),
        ("text in quotes", br#""{}""#, Code::NotObject),
        ("empty object", b"{}", Code::MissingField),
    ];
    for (name, value, code) in table {
        assert_eq!(code_of(value), Some(code.clone()), "{name}");
    }
    for code in [outcome(&Schemas::default(), &Vec::new(), None), outcome(&Schemas::default(), &Vec::new(), Some(b""))]
    {
        assert_eq!(code.map(|rejection| rejection.code), Some(Code::NullValue));
    }
}

#[test]
fn known_fields_that_are_wrong() {
    let table = [
        ("duplicate required field", r#""event_id":"f""#, Code::BadField),
        ("duplicate optional field", r#""node":"n","node":"n""#, Code::BadField),
        ("duplicate in error", r#""error":{"class":"a","class":"b"}"#, Code::BadField),
        ("number for text", r#""node":7"#, Code::BadField),
        ("object for text", r#""node":{}"#, Code::BadField),
        ("text for number", r#""attempt":"3""#, Code::BadField),
        ("negative attempt", r#""attempt":-1"#, Code::BadField),
        ("float attempt", r#""attempt":3.0"#, Code::BadField),
        ("attempt of 2^32", r#""attempt":4294967296"#, Code::BadField),
        ("attempt of 2^64", r#""attempt":18446744073709551616"#, Code::BadField),
        ("1e999", r#""latency_ms":1e999"#, Code::BadField),
        ("lone surrogate", r#""node":"\ud800""#, Code::BadField),
        ("lone surrogate in a name", r#""\ud800":1"#, Code::BadField),
        ("NaN", r#""latency_ms":NaN"#, Code::NotJson),
        ("NaN in an unknown field", r#""other":NaN"#, Code::NotJson),
        ("error as text", r#""error":"boom""#, Code::BadField),
        ("error as array", r#""error":["c","C","m"]"#, Code::BadField),
        ("artifact as array", r#""artifact":["a",true]"#, Code::BadField),
        ("failure as array", r#""failure":["transient"]"#, Code::BadField),
        ("cause as array", r#""error":{"causes":[["c"]]}"#, Code::BadField),
        ("causes as object", r#""error":{"causes":{}}"#, Code::BadField),
        ("float code", r#""error":{"code":1.5}"#, Code::BadField),
        ("attributes as array", r#""attributes":[]"#, Code::BadField),
        ("attributes as text", r#""attributes":"{}""#, Code::BadField),
        ("degraded without schema", r#""route":"degraded""#, Code::MissingField),
        ("unknown route without schema", r#""route":"other""#, Code::MissingField),
        ("epoch seconds", r#""occurred_at":1764486000"#, Code::BadTime),
        ("epoch seconds as text", r#""occurred_at":"1764486000""#, Code::BadTime),
        ("empty time", r#""occurred_at":"""#, Code::BadTime),
        ("time without offset", r#""occurred_at":"2026-11-30T07:00:00""#, Code::BadTime),
        ("year 10000", r#""occurred_at":"+010000-01-01T00:00:00Z""#, Code::BadTime),
        ("lone surrogate in the time", r#""occurred_at":"\ud800""#, Code::BadTime),
    ];
    for (name, members, code) in table {
        assert_eq!(code_of(&with(members)), Some(code), "{name}");
    }
}

#[test]
fn required_fields_that_are_missing_null_or_empty() {
    let full = json!({"event_id": "e", "type": "node_failed", "session_id": "s", "graph": "g"});
    for name in ["event_id", "type", "session_id", "graph"] {
        let mut event = full.clone();
        event[name] = Value::Null;
        assert_eq!(code_of(event.to_string().as_bytes()), Some(Code::MissingField), "{name} null");
        event[name] = "".into();
        assert_eq!(code_of(event.to_string().as_bytes()), Some(Code::BadField), "{name} empty");
        event[name] = 7.into();
        assert_eq!(code_of(event.to_string().as_bytes()), Some(Code::BadField), "{name} number");
        event.as_object_mut().expect("an object").remove(name);
        assert_eq!(code_of(event.to_string().as_bytes()), Some(Code::MissingField), "{name} missing");
    }
}

#[test]
fn identity_fields_that_are_too_long() {
    let (fits, over) = ("x".repeat(LIMITS.field_bytes_max), "x".repeat(LIMITS.field_bytes_max + 1));
    let names = ["run_id", "schema_ref", "route", "node", "retry_state", "tenant", "region"];
    let members = |text: &str| -> Vec<String> {
        let mut members: Vec<_> = names.iter().map(|name| format!(r#""schema_ref":"v","{name}":"{text}""#)).collect();
        members[1] = format!(r#""schema_ref":"{text}""#);
        members.push(format!(r#""artifact":{{"name":"{text}"}}"#));
        members.push(format!(r#""error":{{"class":"{text}"}}"#));
        members.push(format!(r#""error":{{"causes":[{{"code":"{text}"}}]}}"#));
        members.push(format!(r#""failure":{{"class":"{text}"}}"#));
        members
    };
    for (fitting, long) in members(&fits).iter().zip(members(&over)) {
        assert_eq!(code_of(&with(fitting)), None, "{fitting}");
        assert_eq!(code_of(&with(&long)), Some(Code::BadField), "{long}");
    }
    // Free text is bounded by the event alone.
    assert_eq!(code_of(&with(&format!(r#""error":{{"message":"{over}"}},"reason":"{over}""#))), None);
}

#[test]
fn odd_input_that_is_an_event() {
    let deep = nested("[", "1", "]", 100_000);
    let table = [
        ("1e999 in an unknown field", r#""other":1e999"#.to_owned()),
        ("lone surrogate in an unknown field", r#""other":"\ud800""#.to_owned()),
        ("duplicate unknown fields", r#""other":1,"other":2"#.to_owned()),
        ("10^5 levels in an unknown field", format!(r#""other":{deep}"#)),
        ("10^5 levels in attributes", format!(r#""attributes":{{"a":{deep}}}"#)),
        ("10^5 levels in an error", format!(r#""error":{{"other":{deep}}}"#)),
        ("10^5 objects deep", format!(r#""other":{}"#, nested(r#"{"a":"#, "1", "}", 100_000))),
        (
            "unknown words",
            r#""retry_state":"later","route":"side","schema_ref":"x","failure":{"class":"new"}"#.to_owned(),
        ),
        ("U+0000 and a right-to-left override", r#""node":"\u0000\u202e""#.to_owned()),
        ("attempt of 2^32 - 1", r#""attempt":4294967295"#.to_owned()),
        ("minus zero", r#""latency_ms":-0.0"#.to_owned()),
        ("year 1", r#""occurred_at":"0001-01-01T00:00:00Z""#.to_owned()),
        ("year 9999", r#""occurred_at":"9999-12-31T23:59:59Z""#.to_owned()),
        ("code as number", r#""error":{"code":429}"#.to_owned()),
        ("empty optional words", r#""route":"","retry_state":"","tenant":"""#.to_owned()),
        ("an escape in every place", r#""node":"\n","reason":"\u00e9","attributes":{"\t":1}"#.to_owned()),
    ];
    for (name, members) in table {
        assert_eq!(code_of(&with(&members)), None, "{name}");
    }
    assert_eq!(code_of(format!("\r\n\t {}", String::from_utf8_lossy(&with(r#""node":"n""#))).as_bytes()), None);
}

#[test]
fn null_is_as_good_as_absent_for_every_optional_field() {
    let names = [
        "occurred_at",
        "run_id",
        "graph_version",
        "schema_ref",
        "route",
        "override_id",
        "override_attempt",
        "node",
        "attempt",
        "max_attempts",
        "retry_state",
        "error",
        "artifact",
        "latency_ms",
        "app_version",
        "region",
        "tenant",
        "attributes",
        "side_effect",
        "failure",
        "reason",
    ];
    let nulls: Vec<_> = names.iter().map(|name| format!(r#""{name}":null"#)).collect();
    let with_nulls = String::from_utf8(with(&nulls.join(","))).expect("text");
    let without = String::from_utf8(with(r#""x":1"#)).expect("text");
    let read = |text: &str| format!("{:?}", json::event(text, 64).expect("an event"));
    assert_eq!(read(&with_nulls), read(&without));
    let inner = r#""error":{"code":null,"class":null,"message":null,"causes":null},"artifact":{"name":null,"present":null},
        "failure":{"class":null,"safe_to_retry":null,"idempotent":null,"reason":null}"#;
    assert_eq!(code_of(&with(inner)), None);
}

/// Large inputs, each near the limit: held to the bound on memory by `outcome`.
#[test]
fn inputs_made_to_take_memory() {
    let many = |item: &str, count: usize| vec![item; count].join(",");
    let keys: Vec<_> = (0..80_000).map(|n| format!(r#""{n}":1"#)).collect();
    let table = [
        ("300 000 empty causes", with(&format!(r#""error":{{"causes":[{}]}}"#, many("{}", 300_000))), None),
        ("80 000 keys", with(&keys.join(",")), None),
        ("80 000 keys and a bad field", with(&format!(r#""attempt":-1,{}"#, keys.join(","))), Some(Code::BadField)),
        ("80 000 attributes", with(&format!(r#""attributes":{{{}}}"#, keys.join(","))), None),
        ("1 MB of text", with(&format!(r#""other":"{}""#, "x".repeat(1_000_000))), None),
        ("1 MB of escapes", with(&format!(r#""reason":"{}""#, "\\n".repeat(500_000))), None),
        ("1 MB of brackets", nested("[", "", "]", 500_000).into_bytes(), Some(Code::NotObject)),
        ("1 MB of open brackets", "[".repeat(1_000_000).into_bytes(), Some(Code::NotJson)),
        ("1 MB of open objects", with(&format!(r#""a":{}"#, r#"{"a":"#.repeat(200_000))), Some(Code::NotJson)),
        (
            "a type of 900 kB",
            format!(r#"{{"event_id":"e","type":"{}","session_id":"s","graph":"g"}}"#, "x".repeat(900_000)).into_bytes(),
            Some(Code::BadField),
        ),
        ("one byte over", vec![b' '; LIMITS.event_bytes_max + 1], Some(Code::Oversized)),
        ("10 MB", vec![b'{'; 10 << 20], Some(Code::Oversized)),
    ];
    for (name, value, code) in table {
        assert_eq!(code_of(&value), code, "{name}");
    }
    let full = with(r#""node":"n""#);
    let padded = [&full[..], &vec![b' '; LIMITS.event_bytes_max - full.len()]].concat();
    assert_eq!(code_of(&padded), None, "exactly the limit");
}

#[test]
fn cloudevents_made_to_take_memory() {
    let structured = vec![("content-type", b"application/cloudevents+json".to_vec())];
    let keys: Vec<_> = (0..50_000).map(|n| format!(r#""k{n}":"""#)).collect();
    let envelope = r#""specversion":"1.0","id":"i","source":"s","type":"t""#;
    let data = String::from_utf8(with(r#""node":"n""#)).expect("text");
    let table = [
        ("50 000 attributes", format!("{{{envelope},{}}}", keys.join(",")), Some(Code::BadCloudEvent)),
        (
            "data 10^5 deep",
            format!(r#"{{{envelope},"data":{}}}"#, nested("[", "", "]", 100_000)),
            Some(Code::BadCloudEvent),
        ),
        (
            "an attribute 10^5 deep",
            format!(r#"{{{envelope},"x":{}}}"#, nested("[", "", "]", 100_000)),
            Some(Code::BadCloudEvent),
        ),
        ("an attribute of 500 kB", format!(r#"{{{envelope},"x":"{}","data":{data}}}"#, "x".repeat(500_000)), None),
        (
            "1 MB of base64",
            format!(r#"{{{envelope},"data_base64":"{}"}}"#, "wwEA".repeat(250_000)),
            Some(Code::UnknownSchema),
        ),
        (
            "an unknown field 10^5 deep",
            format!(
                r#"{{{envelope},"data":{{"event_id":"e","graph":"g","session_id":"s","x":{}}}}}"#,
                nested("[", "", "]", 100_000)
            ),
            None,
        ),
    ];
    for (name, value, code) in table {
        let outcome = outcome(&Schemas::default(), &structured, Some(value.as_bytes()));
        assert_eq!(outcome.map(|rejection| rejection.code), code, "{name}");
    }
}

#[test]
fn messages_name_fields_and_never_values() {
    let secret = "hunter2-canary";
    let members = [
        format!(r#""attempt":"{secret}""#),
        format!(r#""error":{{"causes":[{{"class":["{secret}"]}}]}}"#),
        format!(r#""occurred_at":"{secret}""#),
        format!(r#""attributes":"{secret}""#),
        format!(r#""other":{secret}"#),
        format!(r#""{secret}":1,"node":[]"#),
        format!(r#""error":{{"{secret}":1,"code":[]}}"#),
    ];
    for members in members {
        let rejection = outcome(&Schemas::default(), &Vec::new(), Some(&with(&members))).expect("a rejection");
        assert!(!rejection.message.contains(secret), "{rejection}");
        assert!(!rejection.message.is_empty());
    }
    let rejection = outcome(&Schemas::default(), &Vec::new(), Some(&with(r#""error":{"causes":[{"class":7}]}"#)));
    assert_eq!(rejection.expect("a rejection").message, "error.causes[0].class: of the wrong type");
    let rejection = outcome(&Schemas::default(), &Vec::new(), Some(&with(r#""node":"a","node":"a""#)));
    assert_eq!(rejection.expect("a rejection").message, "node: stands twice");
}

/// 436 bytes, 16 fields: what most records of a fleet look like.
const HEALTHY: &str = r#"{"event_id":"01JDXW2V6Z7M8QK4T5N9R3C1BA","occurred_at":"2026-11-30T07:00:00.123Z","type":"node_completed","session_id":"sess_0123456789","run_id":"run_0000077","graph":"refund_graph","graph_version":"v1","schema_ref":"refund_graph:v1","route":"primary","node":"evaluate_evidence","attempt":1,"latency_ms":812.25,"app_version":"6.4.1","region":"eu-west","tenant":"tenant-000007","attributes":{"model":"model-1","zone":"b","pool":"main"}}"#;

#[test]
fn a_healthy_event_allocates_nothing() {
    assert_eq!(HEALTHY.len(), 436);
    let schemas = Schemas::default();
    let headers = [("traceparent", Some(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" as &[u8]))];
    let (event_type, calls, peak) = allocations::measured(|| {
        let text = decode(&Headers(&headers), Some(HEALTHY.as_bytes()), &schemas, LIMITS).expect("text");
        json::event(&text, LIMITS.field_bytes_max).expect("an event").event_type
    });
    assert_eq!((event_type.as_str(), calls, peak), ("node_completed", 0, 0));
}

/// Headers that choose each of the encodings.
fn any_headers() -> impl Strategy<Value = Owned> {
    let envelope = || -> Owned {
        let names = ["ce_specversion", "ce_id", "ce_source", "ce_type", "ce_partitionkey"];
        names
            .into_iter()
            .zip([&b"1.0"[..], b"i", b"s", b"t", b"p"])
            .map(|(name, value)| (name, value.to_vec()))
            .collect()
    };
    prop_oneof![
        Just(Vec::new()),
        Just(vec![("content-type", b"application/cloudevents+json".to_vec())]),
        Just(envelope()),
        Just(vec![("__value_schema_id", vec![0, 0, 0, 0, 1])]),
        prop::collection::vec(any::<u8>(), 0..20)
            .prop_map(|value| vec![("ce_specversion", b"1.0".to_vec()), ("ce_id", value)]),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|value| vec![("content-type", value)]),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|value| vec![("__value_schema_id", value)]),
    ]
}

/// Bytes that get past the first look of each encoding, then changed in some places.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let event: Value = serde_json::from_str(HEALTHY).expect("JSON");
    let avro = encode(RecordKind::Event, &event).expect("bytes");
    let structured = json!({"specversion": "1.0", "id": "i", "source": "s", "type": "t", "data": event}).to_string();
    let framed = [&[0, 0, 0, 0, 1], &avro[10..]].concat();
    let bytes = || prop::collection::vec(any::<u8>(), 0..64);
    let start = prop_oneof![
        bytes(),
        bytes().prop_map(|tail| [&[0xC3, 0x01], &tail[..]].concat()),
        bytes().prop_map(|tail| [&[0, 0, 0, 0, 1], &tail[..]].concat()),
        Just(HEALTHY.as_bytes().to_vec()),
        Just(structured.into_bytes()),
        Just(avro),
        Just(framed),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (start, changes, any::<prop::sample::Index>(), prop::bool::weighted(0.3)).prop_map(
        |(mut value, changes, end, is_cut)| {
            if !value.is_empty() {
                for (at, byte) in &changes {
                    let at = at.index(value.len());
                    value[at] = *byte;
                }
                if is_cut {
                    value.truncate(end.index(value.len()));
                }
            }
            value
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic_or_take_memory_in_any_encoding(headers in any_headers(), value in any_value()) {
        let schemas = Schemas::default().with_id(1, RecordKind::Event.schema_json()).expect("a schema");
        outcome(&schemas, &headers, Some(&value));
    }
}
