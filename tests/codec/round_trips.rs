//! JSON -> Avro -> JSON is the identity for every record, and the reference implementation reads the same bytes.

use std::fmt::Write as _;

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use proptest::prelude::*;
use reflex::record::audit::Audit;
use reflex::record::codec::avro::{SINGLE_OBJECT, encode};
use reflex::record::codec::{RecordKind, Schemas, json};
use reflex::record::command::Command;
use reflex::record::escalation::Escalation;
use reflex::record::event::{Event, EventType, Route};
use reflex::record::fleet::FleetRecord;
use reflex::record::intervention::Intervention;
use reflex::record::overrides::Override;
use reflex::record::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::text;

type Json = BoxedStrategy<Value>;

fn word() -> Json {
    prop_oneof![Just(String::new()), "[a-z_:/]{1,12}", any::<String>()].prop_map(Value::from).boxed()
}

fn time() -> Json {
    // The years 1 to 9999 in microseconds, and more of our own.
    let micros = prop_oneof![-62_135_596_800_000_000_i64..253_402_207_200_000_000, 0_i64..2_000_000_000_000_000];
    micros.prop_map(|micros| Timestamp::from_micros(micros).to_string().into()).boxed()
}

fn whole(max: i64) -> Json {
    (0..=max).prop_map(Value::from).boxed()
}

fn number() -> Json {
    whole(u32::MAX.into())
}

fn float() -> Json {
    any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from).boxed()
}

fn flag() -> Json {
    any::<bool>().prop_map(Value::from).boxed()
}

fn list(item: Json) -> Json {
    prop::collection::vec(item, 0..4).prop_map(Value::from).boxed()
}

fn map(value: Json) -> Json {
    let members = prop::collection::btree_map("[a-jl-z]{1,6}", value, 0..3);
    members.prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()).boxed()
}

fn one_of(words: &'static [&'static str]) -> Json {
    prop::sample::select(words).prop_map(Value::from).boxed()
}

/// An object of these members. A name that ends in `?` is left out now and then, one that ends in `|null` is null now
/// and then.
fn object(members: Vec<(&'static str, Json)>) -> Json {
    let (names, values): (Vec<_>, Vec<_>) = members
        .into_iter()
        .map(|(name, value)| match name.strip_suffix("|null") {
            Some(name) => (name, prop::option::of(value).prop_map(|value| Some(value.unwrap_or_default())).boxed()),
            None if name.ends_with('?') => (name.trim_end_matches('?'), prop::option::of(value).boxed()),
            None => (name, value.prop_map(Some).boxed()),
        })
        .unzip();
    let members = move |values: Vec<Option<Value>>| {
        names.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?))).collect::<Map<_, _>>()
    };
    values.prop_map(move |values| members(values).into()).boxed()
}

/// Members that are all texts.
fn texts(names: &[&'static str]) -> Vec<(&'static str, Json)> {
    names.iter().map(|name| (*name, word())).collect()
}

fn record(names: &[&'static str], others: Vec<(&'static str, Json)>) -> Json {
    object(texts(names).into_iter().chain(others).collect())
}

fn scope() -> Json {
    let session = object(vec![("kind", Just(json!("session")).boxed()), ("session_id", word())]);
    let cohort = map(word()).prop_map(|mut scope| {
        scope["kind"] = "cohort".into();
        scope
    });
    prop_oneof![session, cohort].boxed()
}

fn evidence() -> Json {
    let numbers = vec![("partition", whole(i32::MAX.into())), ("offset", whole(i64::MAX))];
    record(&["topic", "event_id", "exhausted_by?"], numbers)
}

fn signature() -> Json {
    let flags = vec![("retry_budget_exhausted", flag()), ("required_artifact_present|null", flag())];
    record(&["node|null", "failure_shape", "scope"], flags)
}

fn command() -> Json {
    let verb = one_of(&["lift", "approve", "reject", "freeze", "unfreeze"]);
    record(&["command_id", "target", "content_hash?", "reason", "author"], vec![("verb", verb)])
}

fn intervention() -> Json {
    let texts = [
        "intervention_id",
        "kind",
        "signal",
        "fingerprint",
        "tenant|null",
        "run_id|null",
        "graph",
        "status",
        "reason?",
        "author?",
        "override_id?",
        "registry_version",
    ];
    let others = vec![
        ("signature", signature()),
        ("scope", scope()),
        ("response?", record(&["action", "kind", "schema_ref?", "entry_point?"], Vec::new())),
        ("proposal?", record(&["content_hash"], vec![("expires_at", time())])),
        ("evidence", list(evidence())),
        ("revision", number()),
        ("created_at", time()),
        ("updated_at", time()),
    ];
    record(&texts, others)
}

fn live_override() -> Json {
    let texts = [
        "override_id",
        "graph",
        "tenant|null",
        "run_id|null",
        "source",
        "kind",
        "schema_ref?",
        "entry_point?",
        "primary_schema_ref?",
        "shadow_schema_ref?",
        "default_schema_ref?",
        "candidate_schema_ref?",
        "selection?",
        "attempt_salt?",
        "status",
        "mode",
        "intervention_id?",
        "reason",
        "author?",
    ];
    let words = || list(word());
    let resume = vec![("requires_channels", words()), ("reset_channels", words()), ("compatible_from", words())];
    let shadow = ["schema_ref", "status", "selection", "side_effects"];
    let others = vec![
        ("scope", scope()),
        ("resume?", record(&["after?"], resume)),
        ("shadow?", record(&shadow, vec![("probe_percentage", float())])),
        ("trial_percentage?", float()),
        ("attempt", number()),
        ("revision", number()),
        ("created_at", time()),
        ("expires_at", time()),
    ];
    record(&texts, others)
}

fn escalation() -> Json {
    let texts = [
        "escalation_id",
        "reason",
        "session_id",
        "tenant|null",
        "run_id|null",
        "graph",
        "signal|null",
        "fingerprint",
        "intervention_id?",
        "override_id?",
        "next_step",
    ];
    let others = vec![("signature", signature()), ("evidence", list(evidence())), ("created_at", time())];
    record(&texts, others)
}

fn audit() -> Json {
    let texts = ["task", "previous_hash", "entity", "entity_id", "from|null", "to", "reason?", "author?"];
    record(&texts, vec![("seq", whole(i64::MAX)), ("at", time()), ("cause?", evidence())])
}

fn rows() -> Json {
    let texts = || list(word());
    let others = vec![
        ("kind", Just(json!("rows")).boxed()),
        ("bucket", time()),
        ("source_watermark", time()),
        ("dimension_names", texts()),
        ("texts", texts()),
        ("rows", list(list(whole(i64::MAX)))),
    ];
    record(&["graph", "source"], others)
}

fn signature_row() -> Json {
    let position = record(&["topic"], vec![("partition", whole(i32::MAX.into())), ("offset", whole(i64::MAX))]);
    let dimensions =
        map(word()).prop_filter("written only where there is one", |map| !map.as_object().is_none_or(Map::is_empty));
    let texts = [
        "graph",
        "source",
        "fingerprint",
        "signal?",
        "session_id",
        "tenant?",
        "run_id?",
        "schema_ref?",
        "route",
        "override_id?",
        "event_id",
        "exhausted_by?",
    ];
    let others = vec![
        ("kind", Just(json!("signature")).boxed()),
        ("source_watermark", time()),
        ("signature", signature()),
        ("dimensions?", dimensions.boxed()),
        ("override_attempt?", number()),
        ("position", position),
    ];
    record(&texts, others)
}

fn event() -> Json {
    let code = prop_oneof![word(), any::<i64>().prop_map(Value::from)].boxed();
    let cause = record(&["class?", "message?"], vec![("code?", code.clone())]);
    let error = record(&["class?", "message?"], vec![("code?", code), ("causes?", list(cause))]);
    let failure = vec![("safe_to_retry?", flag()), ("idempotent?", flag())];
    let id = || "[a-zA-Z0-9_]{1,12}".prop_map(Value::from).boxed();
    let texts = [
        "run_id?",
        "graph_version?",
        "override_id?",
        "node?",
        "retry_state?",
        "app_version?",
        "region?",
        "tenant?",
        "dependency?",
        "operation?",
        "idempotency_key?",
        "reason?",
        "runtime_id?",
    ];
    let others = vec![
        ("event_id", id()),
        ("session_id", id()),
        ("graph", id()),
        ("schema_ref", id()),
        ("type", one_of(EventType::WORDS)),
        ("route?", one_of(Route::WORDS)),
        ("occurred_at?", time()),
        ("override_attempt?", number()),
        ("attempt?", number()),
        ("max_attempts?", number()),
        ("error?", error),
        ("artifact?", record(&["name?"], vec![("present?", flag())])),
        ("latency_ms?", float()),
        ("attributes?", map(word())),
        ("side_effect?", flag()),
        ("failure?", record(&["class?", "reason?", "partial_output_ref?"], failure)),
        ("token_usage?", map(any::<i64>().prop_map(Value::from).boxed())),
        ("schema_refs?", list(word())),
    ];
    record(&texts, others)
}

/// JSON -> Avro -> JSON gives the same JSON, and again the same bytes.
fn avro_round_trip(kind: RecordKind, record: &Value) -> Result<Value, TestCaseError> {
    let bytes = encode(kind, record).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let text = Schemas::default().single_object_text(&bytes, 1 << 24).expect("it reads");
    let read: Value = serde_json::from_str(&text).expect("JSON");
    prop_assert_eq!(&read, record);
    prop_assert_eq!(&encode(kind, &read).expect("bytes"), &bytes);
    // The reference implementation reads the same bytes to their end.
    let schema = Schema::parse_str(kind.schema_json()).expect("a schema");
    let reader = GenericDatumReader::builder(&schema).build().expect("a reader");
    let mut body = &bytes[SINGLE_OBJECT.len() + 8..];
    let value = reader.read_value(&mut body).expect("the reference reads it");
    prop_assert!(body.is_empty() && value.validate(&schema));
    Ok(read)
}

fn typed_round_trip<T: Serialize + DeserializeOwned>(kind: RecordKind, record: &Value) -> Result<(), TestCaseError> {
    let read = avro_round_trip(kind, record)?;
    let typed: T = serde_json::from_value(read).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(&serde_json::to_value(typed).expect("JSON"), record);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn commands_survive_avro(record in command()) {
        typed_round_trip::<Command>(RecordKind::Command, &record)?;
    }

    #[test]
    fn interventions_survive_avro(record in intervention()) {
        typed_round_trip::<Intervention>(RecordKind::Intervention, &record)?;
    }

    #[test]
    fn overrides_survive_avro(record in live_override()) {
        typed_round_trip::<Override>(RecordKind::Override, &record)?;
    }

    #[test]
    fn escalations_survive_avro(record in escalation()) {
        typed_round_trip::<Escalation>(RecordKind::Escalation, &record)?;
    }

    #[test]
    fn audits_survive_avro(record in audit()) {
        typed_round_trip::<Audit>(RecordKind::Audit, &record)?;
    }

    #[test]
    fn records_for_the_fleet_survive_avro(record in prop_oneof![rows(), signature_row()]) {
        let read = avro_round_trip(RecordKind::Fleet, &record)?;
        let typed = match read["kind"].as_str() {
            Some("rows") => serde_json::from_value(read).map(FleetRecord::Rows),
            _ => serde_json::from_value(read).map(FleetRecord::Signature),
        };
        let typed = typed.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&serde_json::to_value(&typed).expect("JSON"), &record);
    }

    #[test]
    fn events_survive_avro_and_cloudevents(event in event()) {
        avro_round_trip(RecordKind::Event, &event)?;
        let plain = event.to_string();
        let avro = text(&[], &encode(RecordKind::Event, &event).expect("bytes")).expect("text");
        let structured = json!({"specversion": "1.0", "id": "i", "source": "s", "type": "t", "data": event}).to_string();
        let structured = text(&[("content-type", "application/cloudevents+json")], structured.as_bytes());
        let read = |text: &str| describe(&json::event(text, 1 << 20).expect("an event"));
        prop_assert_eq!(read(&plain), read(&avro));
        // The envelope adds its id, source and the like only where the event has none.
        prop_assert_eq!(read(&plain), read(&structured.expect("text")));
    }
}

/// An event in words, attributes by their values: their order may change on the way.
fn describe(event: &Event<'_>) -> String {
    let mut event = event.clone();
    let attributes = event.attributes.take().map(|raw| serde_json::from_str::<Value>(raw.get()).expect("JSON"));
    let mut words = String::new();
    write!(words, "{event:?} {attributes:?}").expect("to memory");
    words
}
