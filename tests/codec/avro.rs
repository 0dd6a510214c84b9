//! Avro: customers' schemas, framings, cut bytes, and what writing does with JSON that does not quite fit.

use reflex::record::codec::avro::encode;
use reflex::record::codec::{Headers, RecordKind, Schemas, decode, json};
use reflex::record::dead_letter::Code;
use reflex::record::event::EventType;
use serde_json::{Value, json};

use crate::{EVENT, LIMITS, code, text_with, value};

/// A customer's own record: another name, other types for the same facts.
const CUSTOMER: &str = r#"{"type":"record","name":"Fact","namespace":"acme.agents","fields":[
    {"name":"event_id","type":{"type":"fixed","name":"Id","size":4}},
    {"name":"type","type":{"type":"enum","name":"Kind","symbols":["graph_started","node_failed"]}},
    {"name":"session_id","type":{"type":"string","logicalType":"uuid"}},
    {"name":"graph","type":"string"},
    {"name":"occurred_at","type":{"type":"long","logicalType":"timestamp-millis"}},
    {"name":"node","type":["null","string"],"default":null},
    {"name":"tenant","type":["null","string"],"default":null},
    {"name":"attempt","type":["int","null"]},
    {"name":"latency_ms","type":"float"},
    {"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
    {"name":"raw","type":"bytes"},
    {"name":"day","type":{"type":"int","logicalType":"date"}},
    {"name":"tags","type":{"type":"array","items":["null","string"]}},
    {"name":"attributes","type":{"type":"map","values":["string","long"]}},
    {"name":"cause","type":["null",{"type":"record","name":"Cause","fields":[{"name":"next","type":["null","Cause"]}]}]}
]}"#;

/// The body of one fact, written by hand after the specification.
fn customer_body() -> Vec<u8> {
    let mut body = b"id-\xe9".to_vec();
    body.push(2); // node_failed
    body.push(72);
    body.extend(b"00000000-0000-0000-0000-000000000001");
    body.extend([2, b'g']);
    body.extend([0xD0, 0x0F]); // 1000 ms
    body.extend([2, 2, b'n', 0]); // a node, no tenant
    body.extend([0, 6]); // attempt 3
    body.extend(0.5_f32.to_le_bytes());
    body.extend([4, 0x04, 0xD2]); // 1234
    body.extend([4, 0x00, b'z']);
    body.push(0);
    body.extend([3, 8, 0, 2, 2, b't', 2, 0, 0]); // a sized block of two, a plain block of one, the end
    body.extend([4, 2, b'k', 0, 2, b'v', 2, b'n', 2, 14, 0]);
    body.extend([2, 2, 0]);
    body
}

fn customer_json() -> Value {
    json!({"event_id": "id-é", "type": "node_failed", "session_id": "00000000-0000-0000-0000-000000000001",
        "graph": "g", "occurred_at": "1970-01-01T00:00:01.000Z", "node": "n", "attempt": 3, "latency_ms": 0.5,
        "price": "12.34", "raw": "\u{0}z", "day": "1970-01-01", "tags": [null, "t", null],
        "attributes": {"k": "v", "n": 7}, "cause": {"next": {"next": null}}})
}

fn framed(id: u8, body: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 0, id], body].concat()
}

#[test]
fn a_customers_record_is_read_by_registry_id() {
    let schemas = Schemas::default().with_id(7, CUSTOMER).expect("a schema");
    let framed = framed(7, &customer_body());
    let text = text_with(&schemas, &[], &framed).expect("text");
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), customer_json());
    let event = json::event(&text, 1024).expect("an event");
    assert_eq!((event.event_type, event.attempt), (EventType::NodeFailed, Some(3)));
    assert_eq!(code(text_with(&Schemas::default(), &[], &framed)), Code::UnknownSchema);
}

#[test]
fn the_schema_id_may_stand_in_a_header() {
    let schemas = Schemas::default().with_id(7, CUSTOMER).expect("a schema");
    let number = [("__value_schema_id", Some(&[0_u8, 0, 0, 0, 7][..]))];
    let guid = [("__value_schema_id", Some(&[1_u8; 17][..]))];
    let body = customer_body();
    assert!(decode(&Headers(&number), Some(&body), &schemas, LIMITS).is_ok());
    assert_eq!(code(decode(&Headers(&guid), Some(&body), &schemas, LIMITS)), Code::UnknownSchema);
    // JSON is readable whatever a registry calls its schema.
    assert!(decode(&Headers(&guid), Some(EVENT.as_bytes()), &schemas, LIMITS).is_ok());
}

#[test]
fn every_cut_of_a_body_and_every_byte_after_it_is_refused() {
    let schemas = Schemas::default().with_id(1, CUSTOMER).expect("a schema");
    let framed = framed(1, &customer_body());
    for end in 1..framed.len() {
        assert_eq!(code(text_with(&schemas, &[], &framed[..end])), Code::BadAvro, "{end} bytes");
    }
    let longer = [&framed[..], &[0]].concat();
    assert_eq!(code(text_with(&schemas, &[], &longer)), Code::BadAvro);
}

#[test]
fn schemas_that_are_no_records_are_refused() {
    for schema in [
        "",
        "\"string\"",
        r#"{"type":"array","items":"int"}"#,
        r#"{"type":"record","name":"R","fields":[{"name":"a","type":"Nope"}]}"#,
    ] {
        assert!(Schemas::default().with_id(1, schema).is_err(), "{schema}");
    }
}

#[test]
fn attributes_that_are_no_text_become_text_and_unknown_fields_are_dropped() {
    let record = json!({"event_id": "e", "type": "retry", "session_id": "s", "graph": "g", "unknown": 1,
        "attributes": {"b": true, "a": [1], "t": "x", "none": null}});
    let bytes = encode(RecordKind::Event, &record).expect("bytes");
    let expected = json!({"event_id": "e", "type": "retry", "session_id": "s", "graph": "g",
        "attributes": {"a": "[1]", "b": "true", "t": "x"}});
    assert_eq!(value(&[], &bytes), Ok(expected));
}

#[test]
fn what_does_not_fit_a_schema_is_named_by_its_path() {
    let path = |record: &Value| encode(RecordKind::Event, record).expect_err("it does not fit").path;
    let mut record = json!({"event_id": "e", "type": "retry", "session_id": "s", "graph": "g",
        "error": {"causes": [{"class": 7}]}});
    assert_eq!(path(&record), "error.causes.class");
    record["error"] = Value::Null;
    record["attempt"] = json!(1.5);
    assert_eq!(path(&record), "attempt");
    assert_eq!(path(&json!({"event_id": "e"})), "type");
}
