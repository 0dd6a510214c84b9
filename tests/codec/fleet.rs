//! Records of the topic between the stages: what is none is refused with its code, and never with its values.

use proptest::prelude::*;
use reflex::record::codec::avro::encode;
use reflex::record::codec::{RecordKind, fleet};
use reflex::record::dead_letter::Code;
use reflex::record::fleet::FleetRecord;
use serde_json::{Value, json};

use crate::text;

const FIELD_BYTES_MAX: usize = 32;
const NO_SKETCH: &str = "rows: a row with latencies that are no buckets of a sketch";

fn rows() -> Value {
    json!({
        "kind": "rows", "graph": "g", "source": "session/3", "bucket": "2026-11-30T07:00:00.000Z",
        "source_watermark": "2026-11-30T07:00:01.000Z",
        "dimension_names": ["region"], "texts": ["eu", "primary"],
        "rows": [[0, 2, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 1, 64, 2]],
    })
}

fn signature() -> Value {
    json!({
        "kind": "signature", "graph": "g", "source": "session/3", "source_watermark": "2026-11-30T07:00:01.000Z",
        "fingerprint": "f", "session_id": "s", "route": "shadow", "event_id": "e",
        "signature": {"node": null, "failure_shape": "x", "retry_budget_exhausted": true,
            "required_artifact_present": null, "scope": "session"},
        "position": {"topic": "reflex.events", "partition": 0, "offset": 1},
    })
}

fn refused(record: &Value) -> (String, String) {
    refused_text(&record.to_string())
}

fn refused_text(text: &str) -> (String, String) {
    let rejection = fleet::record(text, FIELD_BYTES_MAX).expect_err("a rejection");
    (rejection.code.to_string(), rejection.message)
}

/// A record with one member changed; null takes it out.
fn with(mut record: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = record.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
    if value.is_null() {
        parent.remove(name);
    } else {
        parent.insert(name.to_owned(), value);
    }
    record
}

/// The table with one row of these numbers.
fn row(numbers: &[u64]) -> Value {
    with(rows(), "/rows", json!([numbers]))
}

#[test]
fn both_kinds_are_read_from_json_and_avro() {
    for record in [rows(), signature()] {
        let read = fleet::record(&record.to_string(), FIELD_BYTES_MAX).expect("a record");
        assert_eq!((read.key(), read.source().0), (String::from("graph/g"), "session/3"));
        assert_eq!(serde_json::to_value(&read).expect("JSON"), record);
        let avro = text(&[], &encode(RecordKind::Fleet, &record).expect("bytes")).expect("text");
        assert_eq!(fleet::record(&avro, FIELD_BYTES_MAX).expect("a record"), read);
    }
    let more = with(rows(), "/x_new", json!([1]));
    assert!(matches!(fleet::record(&more.to_string(), FIELD_BYTES_MAX), Ok(FleetRecord::Rows(_))));
}

#[test]
fn what_is_no_record_is_refused_with_its_code() {
    assert_eq!(refused_text("{").0, "not_json");
    assert_eq!(refused_text("[]").0, "not_object");
    let long = "x".repeat(FIELD_BYTES_MAX + 1);
    let cases = [
        (with(rows(), "/kind", Value::Null), "missing_field", "kind: missing"),
        (with(rows(), "/kind", json!(7)), "bad_field", "kind: of the wrong type"),
        (with(rows(), "/kind", json!("verdict")), "bad_field", "kind: neither rows nor signature"),
        (with(rows(), "/graph", Value::Null), "missing_field", "graph: missing"),
        (with(rows(), "/graph", json!("")), "bad_field", "graph: empty"),
        (with(rows(), "/graph", json!(long)), "bad_field", "graph: longer than field_bytes_max"),
        (with(rows(), "/bucket", json!("yesterday")), "bad_time", "bucket: not an RFC 3339 time"),
        (with(rows(), "/source_watermark", json!(7)), "bad_time", "source_watermark: not an RFC 3339 time"),
        (with(rows(), "/rows", json!({})), "bad_field", "rows: of the wrong type"),
        (with(rows(), "/texts", Value::Null), "missing_field", "texts: missing"),
        (with(rows(), "/rows", json!([{}])), "bad_field", "rows[0]: of the wrong type"),
        (with(rows(), "/rows", json!([[-1]])), "bad_field", "rows[0][0]: of the wrong type"),
        (row(&[0, 2, 0, 0]), "bad_field", "rows: a row with too few numbers"),
        (row(&[0, 2, 0, 0, 0, 1, 2, 0, 0, 0]), "bad_field", "rows: a row with too few numbers"),
        (row(&[0, 3, 0, 0, 0, 1, 2, 0, 0, 0, 0]), "bad_field", "rows: a row with a text that there is not"),
        (row(&[0, 2, 0, 0, 0, u64::MAX, 2, 0, 0, 0, 0]), "bad_field", "rows: a row with a text that there is not"),
        (row(&[0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0]), "bad_field", "rows: a row without a route"),
        (row(&[0, 2, 0, 1 << 33, 0, 1, 2, 0, 0, 0, 0]), "bad_field", "rows: a row with an attempt that is too large"),
        (row(&[0, 2, 0, 0, 2, 1, 2, 0, 0, 0, 0]), "bad_field", "rows: a row that is late neither 0 nor 1"),
        (row(&[0, 2, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 1, 1, 1]), "bad_field", NO_SKETCH),
        (row(&[0, 2, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0]), "bad_field", NO_SKETCH),
        (row(&[0, 2, 0, 0, 0, 1, 2, 0, 0, 0, 0, 60_000, 1]), "bad_field", NO_SKETCH),
        (row(&[0, 2, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 1, 8]), "bad_field", NO_SKETCH),
        (with(rows(), "/texts", json!([long, "primary"])), "bad_field", "texts: longer than field_bytes_max"),
        (with(rows(), "/dimension_names", json!([long])), "bad_field", "dimension_names: longer than field_bytes_max"),
        (with(signature(), "/event_id", Value::Null), "missing_field", "event_id: missing"),
        (with(signature(), "/session_id", json!(long)), "bad_field", "session_id: longer than field_bytes_max"),
        (with(signature(), "/signature/scope", Value::Null), "missing_field", "signature: a field is missing"),
        (with(signature(), "/position/partition", json!("p")), "bad_field", "position.partition: of the wrong type"),
    ];
    for (record, code, message) in cases {
        assert_eq!(refused(&record), (code.to_owned(), message.to_owned()), "{record}");
    }
    let many: Vec<String> = (0..65).map(|number| format!("d{number}")).collect();
    assert_eq!(refused(&with(rows(), "/dimension_names", json!(many))).1, "dimension_names: too many");
    let twice = rows().to_string().replacen('{', r#"{"graph":"h","#, 1);
    assert_eq!(refused_text(&twice), (String::from("bad_field"), String::from("graph: stands twice")));
}

#[test]
fn every_code_is_one_that_dead_letters_have() {
    for record in ["{", "[]", "{}"] {
        let code = fleet::record(record, FIELD_BYTES_MAX).expect_err("a rejection").code;
        assert!(!matches!(code, Code::Unknown(_)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bent_records_are_refused_without_their_values_or_taken(
        is_rows in any::<bool>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut text = if is_rows { rows() } else { signature() }.to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(text) = std::str::from_utf8(&text)
            && let Err(rejection) = fleet::record(text, FIELD_BYTES_MAX)
        {
            prop_assert!(!rejection.message.contains("session/3"), "{}", rejection.message);
        }
    }
}
