//! `CloudEvents`: binary and structured mode, what the envelope gives, and what is refused.

use std::borrow::Cow;

use reflex::record::codec::avro::encode;
use reflex::record::codec::cloudevents::CloudEvent;
use reflex::record::codec::headers::CloudEventsMode;
use reflex::record::codec::{Headers, RecordKind, Schemas, decode};
use reflex::record::dead_letter::Code;
use serde_json::{Value, json};

use crate::{LIMITS, code, text, value};

const ENVELOPE: [(&str, &str); 7] = [
    ("ce_specversion", "1.0"),
    ("ce_id", "ce-77"),
    ("ce_source", "/runtimes/langgraph/prod"),
    ("ce_type", "reflex.node_failed"),
    ("ce_time", "2026-11-30T07:00:00Z"),
    ("ce_partitionkey", "sess-9"),
    ("ce_subject", "evaluate"),
];
const STRUCTURED: [(&str, &str); 1] = [("Content-Type", "application/CloudEvents+json; charset=UTF-8")];

fn with_header(name: &'static str, value: &'static str) -> Vec<(&'static str, &'static str)> {
    ENVELOPE.into_iter().chain([(name, value)]).collect()
}

fn without_header(name: &str) -> Vec<(&'static str, &'static str)> {
    ENVELOPE.into_iter().filter(|(other, _)| *other != name).collect()
}

fn filled(data: &Value) -> Value {
    let mut event = json!({"event_id": "ce-77", "type": "node_failed", "occurred_at": "2026-11-30T07:00:00Z",
        "session_id": "sess-9", "node": "evaluate"});
    for (name, value) in data.as_object().expect("an object").iter().filter(|(_, value)| !value.is_null()) {
        event[name] = value.clone();
    }
    event
}

#[test]
fn the_envelope_fills_what_binary_data_lacks() {
    for data in [
        json!({"graph": "g"}),
        json!({}),
        json!({"graph": "g", "event_id": "own", "node": null, "session_id": null, "extra": {"node": 1}}),
        json!({"event_id": "own", "type": "retry", "occurred_at": "2026-11-30T08:00:00Z", "session_id": "s"}),
    ] {
        let text = format!(" {data:#}\n");
        assert_eq!(value(&ENVELOPE, text.as_bytes()), Ok(filled(&data)), "{data}");
    }
}

#[test]
fn complete_data_is_borrowed() {
    let data = br#"{"event_id":"e","type":"retry","occurred_at":"2026-11-30T08:00:00Z","session_id":"s","node":"n"}"#;
    let headers = ENVELOPE.map(|(name, value)| (name, Some(value.as_bytes())));
    let decoded = decode(&Headers(&headers), Some(data), &Schemas::default(), LIMITS).expect("text");
    assert!(matches!(decoded, Cow::Borrowed(_)));
}

#[test]
fn structured_mode_reads_data_and_data_base64() {
    let mut event = json!({"specversion": "1.0", "id": "ce-77", "source": "/r", "type": "reflex.node_failed",
        "time": "2026-11-30T07:00:00Z", "partitionkey": "sess-9", "subject": "evaluate", "sequence": 7,
        "sampled": true, "nothing": null, "data": {"graph": "g"}});
    assert_eq!(value(&STRUCTURED, event.to_string().as_bytes()), Ok(filled(&json!({"graph": "g"}))));
    event["data_base64"] = "eyJncmFwaCI6ImcifQ==".into();
    assert_eq!(code(text(&STRUCTURED, event.to_string().as_bytes())), Code::BadCloudEvent, "both kinds of data");
    event["data"] = Value::Null;
    assert_eq!(value(&STRUCTURED, event.to_string().as_bytes()), Ok(filled(&json!({"graph": "g"}))));
    event["data_base64"] = "eyJncmFwaCI6ImcifQ".into();
    assert_eq!(code(text(&STRUCTURED, event.to_string().as_bytes())), Code::BadCloudEvent, "no padding");
}

#[test]
fn binary_events_that_break_the_specification_are_refused() {
    let data = br#"{"graph":"g"}"#;
    for name in ["ce_id", "ce_source", "ce_type"] {
        assert_eq!(code(text(&without_header(name), data)), Code::BadCloudEvent, "{name}");
        assert_eq!(code(text(&with_header(name, ""), data)), Code::BadCloudEvent, "{name} empty");
    }
    assert_eq!(code(text(&with_header("CE_SpecVersion", "0.3"), data)), Code::BadCloudEvent);
    for data in ["[1]", "7", "\"text\"", "null", "<xml/>", "{", "{\"graph\":NaN}"] {
        assert_eq!(code(text(&ENVELOPE, data.as_bytes())), Code::BadCloudEvent, "{data}");
    }
    assert_eq!(code(text(&ENVELOPE, b"\xff")), Code::BadCloudEvent);
    assert_eq!(code(text(&ENVELOPE, b"")), Code::NullValue, "a tombstone");
}

#[test]
fn structured_events_that_break_the_specification_are_refused() {
    for event in ["[]", "null", "7", r#"{"specversion":"1.0","id":"i","source":"s","type":"t"}"#] {
        assert_eq!(code(text(&STRUCTURED, event.as_bytes())), Code::BadCloudEvent, "{event}");
    }
    for member in [r#""subject":{}"#, r#""subject":1.5"#, r#""id":"again""#, r#""subject":"\ud800""#, r#""data":{}"#] {
        let event =
            format!(r#"{{"specversion":"1.0","id":"i","source":"s","type":"t","data":{{"graph":"g"}},{member}}}"#);
        assert_eq!(code(text(&STRUCTURED, event.as_bytes())), Code::BadCloudEvent, "{member}");
    }
    assert_eq!(code(text(&STRUCTURED, b"{")), Code::NotJson);
    assert_eq!(code(text(&STRUCTURED, b"\xff")), Code::NotJson);
}

#[test]
fn header_names_ignore_case_and_the_last_of_a_name_counts() {
    let headers = with_header("Ce_Subject", "later");
    assert_eq!(value(&headers, b"{}").expect("an event")["node"], "later");
    // Quotes and control characters of an envelope cannot break out of their field.
    let headers = with_header("ce_subject", "a\",\"tenant\":\"b\u{1}");
    let event = value(&headers, b"{}").expect("an event");
    assert_eq!((&event["node"], &event["tenant"]), (&json!("a\",\"tenant\":\"b\u{1}"), &Value::Null));
}

#[test]
fn data_of_a_binary_event_may_be_avro() {
    let record = json!({"event_id": "e", "type": "retry", "session_id": "s", "graph": "g"});
    let bytes = encode(RecordKind::Event, &record).expect("bytes");
    assert_eq!(value(&ENVELOPE, &bytes).expect("an event")["node"], "evaluate");
}

/// One scenario of the conformance suite: payload, headers, expected attributes and data.
struct Scenario {
    payload: String,
    headers: Vec<(String, String)>,
    attributes: Vec<(String, String)>,
    data: Value,
}

/// Reads the scenarios of a conformance feature for the Kafka binding, outlines expanded.
fn scenarios(feature: &str) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for part in feature.split("Scenario").skip(1) {
        let (given, rest) = part.split_once("When parsed as Kafka message").expect("a when");
        let (payload, headers) = given.split_once("And Kafka headers:").expect("headers");
        let (attributes, data) = rest.split_once("And the data is equal").expect("data");
        let (data, examples) = data.split_once("Examples:").unwrap_or((data, "| none |\n| none |"));
        for content_type in examples.lines().map(str::trim).filter(|line| line.starts_with('|')).skip(1) {
            let content_type = content_type.trim_matches(['|', ' ']);
            scenarios.push(Scenario {
                payload: block(payload),
                headers: table(&headers.replace("<contentType>", content_type)),
                attributes: table(attributes),
                data: serde_json::from_str(&block(data)).expect("JSON"),
            });
        }
    }
    scenarios
}

fn block(part: &str) -> String {
    part.split("\"\"\"").nth(1).expect("a block of text").to_owned()
}

fn table(part: &str) -> Vec<(String, String)> {
    let cells = part.lines().filter_map(|line| line.trim().strip_prefix('|')?.strip_suffix('|')?.split_once('|'));
    cells.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).skip(1).collect()
}

fn assert_holds(scenario: &Scenario) {
    let headers: Vec<_> = scenario.headers.iter().map(|(name, value)| (&**name, Some(value.as_bytes()))).collect();
    let headers = Headers(&headers);
    let event = match headers.cloudevents_mode().expect("a known mode").expect("a CloudEvent") {
        CloudEventsMode::Binary => CloudEvent::binary(&headers, Some(scenario.payload.as_bytes())),
        CloudEventsMode::Structured => CloudEvent::structured(&scenario.payload),
    };
    let event = event.expect("a CloudEvent");
    assert_eq!(event.attributes, scenario.attributes.iter().cloned().collect());
    assert_eq!(event.datacontenttype(), Some("application/json"));
    assert_eq!(serde_json::from_slice::<Value>(&event.data.expect("data")).expect("JSON"), scenario.data);
}

#[test]
fn kafka_binding_scenarios_hold() {
    let feature = r#"
    Scenario: Binary content mode
    Given a Kafka message with payload:
        """
        {"answer": 42}
        """
    And Kafka headers:
        | key               | value                 |
        |    ce_specversion | 1.0                   |
        |             ce_id | 77                    |
        |           ce_type | org.example.answered  |
        |         ce_source | /deep/thought         |
        |      content-type | application/json      |
    When parsed as Kafka message
    Then the attributes are:
        | key               | value                 |
        |                id | 77                    |
        |       specversion | 1.0                   |
        |              type | org.example.answered  |
        |            source | /deep/thought         |
        |   datacontenttype | application/json      |
    And the data is equal to the following JSON:
        """
        {"answer": 42}
        """

    Scenario Outline: Structured content mode (<contentType>)
    Given a Kafka message with payload:
        """
        {"specversion": "1.0", "type": "org.example.answered", "id": "78", "source": "/deep/thought",
         "datacontenttype": "application/json", "data": {"answer": 42}}
        """
    And Kafka headers:
        | key               | value         |
        |      content-type | <contentType> |
    When parsed as Kafka message
    Then the attributes are:
        | key               | value                 |
        |                id | 78                    |
        |       specversion | 1.0                   |
        |              type | org.example.answered  |
        |            source | /deep/thought         |
        |   datacontenttype | application/json      |
    And the data is equal to the following JSON:
        """
        {"answer": 42}
        """
    Examples:
    | contentType                                 |
    | application/cloudevents+json                |
    | APPLICATION/cloudevents+json; charset=utf-8 |"#;
    let scenarios = scenarios(feature);
    assert_eq!(scenarios.len(), 3);
    scenarios.iter().for_each(assert_holds);
}

/// CI runs this with `-- --ignored` and the variable; there, its absence is a failure.
#[test]
#[ignore = "needs REFLEX_SHARED_DATA"]
#[allow(clippy::disallowed_methods, reason = "a test reads its vectors")]
fn kafka_binding_scenarios_of_the_conformance_suite_hold() {
    let folder = std::env::var("REFLEX_SHARED_DATA").expect("REFLEX_SHARED_DATA names the folder of shared data");
    let path = std::path::Path::new(&folder).join("vectors/cloudevents/kafka-protocol-binding.feature");
    let feature = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let scenarios = scenarios(&feature);
    assert!(scenarios.len() >= 3, "{} scenarios", scenarios.len());
    scenarios.iter().for_each(assert_holds);
}
