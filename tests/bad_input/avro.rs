//! Avro made to hurt: lengths and counts that promise much, items of no size, schemas that multiply.

use reflex::record::codec::avro::encode;
use reflex::record::codec::{RecordKind, Schemas};
use reflex::record::dead_letter::Code;
use serde_json::json;

use crate::outcome;

/// A schema of one record whose only field, `a`, has this type.
fn schema(field_type: &str) -> Schemas {
    let json = format!(r#"{{"type":"record","name":"R","fields":[{{"name":"a","type":{field_type}}}]}}"#);
    Schemas::default().with_id(1, &json).expect("a schema")
}

fn code_of(schemas: &Schemas, body: &[u8]) -> Option<Code> {
    let framed = [&[0, 0, 0, 0, 1], body].concat();
    outcome(schemas, &Vec::new(), Some(&framed)).map(|rejection| rejection.code)
}

/// The zigzag varint of a number.
fn long(number: i64) -> Vec<u8> {
    let mut bits = (number << 1 ^ number >> 63).cast_unsigned();
    let mut bytes = Vec::new();
    while bits > 0x7F {
        bytes.push(u8::try_from(bits & 0x7F).expect("seven bits") | 0x80);
        bits >>= 7;
    }
    bytes.push(u8::try_from(bits).expect("seven bits"));
    bytes
}

#[test]
fn bodies_that_do_not_fit_their_schema() {
    let int = |number: i64| long(number);
    let table: &[(&str, &str, Vec<u8>)] = &[
        ("nothing", r#""string""#, vec![]),
        ("length bomb", r#""string""#, int(1 << 40)),
        ("negative length", r#""bytes""#, int(-5)),
        ("length of i64::MAX", r#""bytes""#, int(i64::MAX)),
        ("length of i64::MIN", r#""string""#, int(i64::MIN)),
        ("text that is not UTF-8", r#""string""#, vec![2, 0xFF]),
        ("endless number", r#""long""#, vec![0xFF; 11]),
        ("number of 65 bits", r#""long""#, vec![0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x03]),
        ("int of 33 bits", r#""int""#, int(1 << 32)),
        ("boolean of 2", r#""boolean""#, vec![2]),
        ("no boolean", r#""boolean""#, vec![]),
        ("no branch", r#"["null","string"]"#, vec![]),
        ("branch 2 of 2", r#"["null","string"]"#, int(2)),
        ("branch -1", r#"["null","string"]"#, int(-1)),
        ("symbol 1 of 1", r#"{"type":"enum","name":"E","symbols":["A"]}"#, int(1)),
        ("symbol -1", r#"{"type":"enum","name":"E","symbols":["A"]}"#, int(-1)),
        ("cut double", r#""double""#, vec![0; 7]),
        ("NaN", r#""double""#, f64::NAN.to_le_bytes().to_vec()),
        ("infinity", r#""float""#, f32::INFINITY.to_le_bytes().to_vec()),
        ("cut fixed of 2 GB", r#"{"type":"fixed","name":"F","size":2000000000}"#, vec![0; 9]),
        (
            "decimal of 17 bytes",
            r#"{"type":"bytes","logicalType":"decimal","precision":40}"#,
            [vec![34], vec![0; 17]].concat(),
        ),
        ("10^7 nulls in 5 bytes", r#"{"type":"array","items":"null"}"#, [int(10_000_000), vec![0]].concat()),
        ("i64::MAX nulls", r#"{"type":"array","items":"null"}"#, [int(i64::MAX), vec![0]].concat()),
        (
            "i64::MIN nulls in a sized block",
            r#"{"type":"array","items":"null"}"#,
            [int(i64::MIN), int(0), vec![0]].concat(),
        ),
        (
            "10^9 empty records",
            r#"{"type":"array","items":{"type":"record","name":"E","fields":[]}}"#,
            [int(1_000_000_000), vec![0]].concat(),
        ),
        (
            "10^9 fixed of no size",
            r#"{"type":"array","items":{"type":"fixed","name":"F","size":0}}"#,
            [int(1_000_000_000), vec![0]].concat(),
        ),
        ("10^9 texts", r#"{"type":"array","items":"string"}"#, [int(1_000_000_000), vec![0]].concat()),
        ("10^9 entries", r#"{"type":"map","values":"null"}"#, [int(1_000_000_000), vec![0]].concat()),
        (
            "arrays of arrays of nulls",
            r#"{"type":"array","items":{"type":"array","items":"null"}}"#,
            [int(100), int(100_000_000), vec![0]].concat(),
        ),
        ("no end of blocks", r#"{"type":"array","items":"int"}"#, vec![2, 2]),
        ("a byte too many", r#""null""#, vec![0]),
        ("a record that holds itself", r#""R""#, vec![]),
        ("a list 200 deep", r#"["null","R"]"#, [vec![2; 200], vec![0]].concat()),
    ];
    for (name, field_type, body) in table {
        assert_eq!(code_of(&schema(field_type), body), Some(Code::BadAvro), "{name}");
    }
}

#[test]
fn a_schema_that_multiplies_is_cheap() {
    // 40 records, each with two of the next: 2^40 nulls in no bytes at all.
    let inner = (0..40).rev().fold(String::from(r#""null""#), |inner, level| {
        let second = if level == 39 { r#""null""#.to_owned() } else { format!(r#""L{}""#, level + 1) };
        format!(r#"{{"type":"record","name":"L{level}","fields":[{{"name":"a","type":{inner}}},{{"name":"b","type":{second}}}]}}"#)
    });
    assert_eq!(code_of(&schema(&inner), &[]), Some(Code::BadAvro));
}

#[test]
fn times_outside_the_calendar_and_texts_that_grow_have_their_own_codes() {
    let instant = |unit: &str| schema(&format!(r#"{{"type":"long","logicalType":"timestamp-{unit}"}}"#));
    for unit in ["millis", "micros"] {
        assert_eq!(code_of(&instant(unit), &long(i64::MAX)), Some(Code::BadTime), "{unit}");
        assert_eq!(code_of(&instant(unit), &long(i64::MIN)), Some(Code::BadTime), "{unit}");
    }
    // 200 kB of booleans whose names are longer than they are: over a megabyte as JSON.
    let wide = r#"{"type":"array","items":{"type":"record","name":"W","fields":[{"name":"twenty_letters_or_so","type":"boolean"}]}}"#;
    let body = [long(200_000), vec![1; 200_000], vec![0]].concat();
    let framed = [&[0, 0, 0, 0, 1], &body[..]].concat();
    let decoded = schema(wide).framed_text(&framed, crate::LIMITS.event_bytes_max);
    assert_eq!(decoded.map_err(|rejection| rejection.code), Err(Code::Oversized));
}

#[test]
fn messages_cut_off_before_their_body() {
    let event = encode(RecordKind::Event, &json!({"event_id": "e", "type": "t", "session_id": "s", "graph": "g"}));
    let event = event.expect("bytes");
    for end in 2..event.len() {
        let code = outcome(&Schemas::default(), &Vec::new(), Some(&event[..end])).map(|rejection| rejection.code);
        assert_eq!(code, Some(Code::BadAvro), "{end} bytes");
    }
    let mut other = event.clone();
    other[5] ^= 1;
    let table: &[(&str, &[u8], Code)] = &[
        ("another fingerprint", &other, Code::UnknownSchema),
        ("magic alone", &[0], Code::BadAvro),
        ("half an id", &[0, 0, 0], Code::BadAvro),
        ("an id without schema", &[0, 0, 0, 0, 9, 2, b'e'], Code::UnknownSchema),
        ("half a marker", &[0xC3], Code::NotJson),
    ];
    for (name, value, code) in table {
        let outcome = outcome(&Schemas::default(), &Vec::new(), Some(value));
        assert_eq!(outcome.map(|rejection| rejection.code), Some(code.clone()), "{name}");
    }
}
