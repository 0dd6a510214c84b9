//! Every record has an Avro schema with the names of its JSON, and schemas do not change unnoticed.
#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};

use apache_avro::Schema;
use reflex::record::audit::Audit;
use reflex::record::codec::avro::{Fingerprint, encode};
use reflex::record::codec::{RecordKind, Schemas, json};
use reflex::record::command::{Command, Order, Verb};
use reflex::record::dead_letter::{Code, HEADER_NAMES, HEADER_PREFIX, Rejection, headers};
use reflex::record::escalation::Escalation;
use reflex::record::event::Route;
use reflex::record::fleet::{FleetRecord, RowKey, SignatureRow, Tally};
use reflex::record::intervention::{Action, Intervention, InterventionKind, InterventionStatus, Proposal};
use reflex::record::overrides::{Override, OverrideKind, OverrideMode, OverrideSource, OverrideStatus, Resume, Shadow};
use reflex::record::position::{Evidence, Place};
use reflex::record::rows::Rows;
use reflex::record::scope::Scope;
use reflex::record::signature::Signature;
use reflex::record::sketch::Sketch;
use reflex::record::time::Timestamp;
use serde_json::{Map, Value, json};

fn text() -> String {
    String::from("x")
}

#[allow(clippy::unnecessary_wraps, reason = "what optional fields take")]
fn some() -> Option<String> {
    Some(text())
}

fn evidence() -> Evidence {
    Evidence { topic: text(), partition: 1, offset: 2, event_id: text(), exhausted_by: some() }
}

fn signature() -> Signature {
    Signature {
        node: some(),
        failure_shape: text(),
        retry_budget_exhausted: true,
        required_artifact_present: Some(false),
        scope: text(),
    }
}

fn intervention() -> Intervention {
    Intervention {
        intervention_id: text(),
        kind: InterventionKind::Session,
        signal: text(),
        signature: signature(),
        fingerprint: text(),
        scope: Scope::session("s"),
        tenant: some(),
        run_id: some(),
        graph: text(),
        status: InterventionStatus::Applied,
        reason: some(),
        response: Some(Action { action: text(), kind: OverrideKind::Replace, schema_ref: some(), entry_point: some() }),
        proposal: Some(Proposal { content_hash: text(), expires_at: Timestamp::EPOCH }),
        author: some(),
        override_id: some(),
        evidence: vec![evidence()],
        revision: 3,
        created_at: Timestamp::EPOCH,
        updated_at: Timestamp::EPOCH,
        registry_version: text(),
    }
}

fn live_override() -> Override {
    let channels = || vec![text()];
    Override {
        override_id: text(),
        graph: text(),
        scope: Scope::session("s"),
        tenant: some(),
        run_id: some(),
        source: OverrideSource::Auto,
        kind: OverrideKind::Replace,
        schema_ref: some(),
        entry_point: some(),
        resume: Some(Resume {
            after: some(),
            requires_channels: channels(),
            reset_channels: channels(),
            compatible_from: channels(),
        }),
        primary_schema_ref: some(),
        shadow: Some(Shadow {
            schema_ref: text(),
            status: text(),
            probe_percentage: 5.0,
            selection: text(),
            side_effects: text(),
        }),
        shadow_schema_ref: some(),
        default_schema_ref: some(),
        candidate_schema_ref: some(),
        trial_percentage: Some(25.0),
        selection: some(),
        attempt_salt: some(),
        status: OverrideStatus::Active,
        mode: OverrideMode::Trial,
        attempt: 0,
        revision: 1,
        intervention_id: some(),
        reason: text(),
        author: some(),
        created_at: Timestamp::EPOCH,
        expires_at: Timestamp::EPOCH,
    }
}

fn escalation() -> Escalation {
    Escalation {
        escalation_id: text(),
        reason: text(),
        session_id: text(),
        tenant: some(),
        run_id: some(),
        graph: text(),
        signal: some(),
        signature: signature(),
        fingerprint: text(),
        intervention_id: some(),
        override_id: some(),
        next_step: text(),
        evidence: vec![evidence()],
        created_at: Timestamp::EPOCH,
    }
}

fn audit() -> Audit {
    Audit {
        task: text(),
        seq: 7,
        previous_hash: text(),
        at: Timestamp::EPOCH,
        entity: text(),
        entity_id: text(),
        from: some(),
        to: text(),
        reason: some(),
        author: some(),
        cause: Some(evidence()),
    }
}

/// A record of each kind as one: their fields stand side by side in the schema.
fn fleet() -> Value {
    let dimensions = || BTreeMap::from([(text(), text())]);
    let mut latency = Sketch::default();
    latency.record(812.5);
    let tally = Tally {
        runs_started: 1,
        runs_completed: 2,
        runs_failed: 3,
        artifacts_present: 4,
        artifacts_missing: 5,
        latency,
    };
    let key = RowKey {
        schema_ref: some(),
        route: Route::Trial,
        override_id: some(),
        override_attempt: Some(1),
        late: true,
        dimensions: dimensions(),
    };
    let rows = Rows::empty(&text(), &text(), Timestamp::EPOCH, Timestamp::EPOCH).of(&[(key, tally)]).remove(0);
    let row = SignatureRow {
        graph: text(),
        source: text(),
        source_watermark: Timestamp::EPOCH,
        fingerprint: text(),
        signature: signature(),
        signal: some(),
        session_id: text(),
        tenant: some(),
        run_id: some(),
        dimensions: dimensions(),
        schema_ref: some(),
        route: Route::Primary,
        override_id: some(),
        override_attempt: Some(1),
        event_id: text(),
        position: Place { topic: text(), partition: 1, offset: 2 },
        exhausted_by: some(),
    };
    let mut all = serde_json::to_value(FleetRecord::Signature(row)).expect("JSON");
    let rows = serde_json::to_value(FleetRecord::Rows(rows)).expect("JSON");
    all.as_object_mut().expect("an object").extend(rows.as_object().expect("an object").clone());
    all
}

fn command() -> Command {
    Command {
        command_id: text(),
        verb: Verb::Approve,
        target: text(),
        content_hash: some(),
        order: Some(Order {
            scope: Scope::Cohort(BTreeMap::from([(text(), text())])),
            kind: OverrideKind::Pause,
            schema_ref: some(),
            ttl_ms: 1,
        }),
        reason: text(),
        author: text(),
    }
}

/// All fields of an event, those of runtime-level events included.
fn event() -> Value {
    json!({
        "event_id": "x", "occurred_at": "1970-01-01T00:00:00.000Z", "type": "node_failed", "session_id": "s",
        "run_id": "r", "graph": "g", "graph_version": "v1", "schema_ref": "g:v1", "route": "primary",
        "override_id": "o", "override_attempt": 0, "node": "n", "attempt": 3, "max_attempts": 3,
        "retry_state": "max_attempts",
        "error": {"code": "c", "class": "C", "message": "m", "causes": [{"code": 429, "class": "D", "message": "m"}]},
        "artifact": {"name": "a", "present": false}, "latency_ms": 812.5, "app_version": "6.4.1", "region": "eu-west",
        "tenant": "t-7", "attributes": {"model": "m-1"}, "dependency": "payments_api", "operation": "charge:order-17",
        "side_effect": true, "idempotency_key": "k", "token_usage": {"total": 812}, "reason": "budget_expired",
        "failure": {"class": "transient", "safe_to_retry": true, "idempotent": true, "reason": "w",
            "partial_output_ref": "p"},
        "runtime_id": "rt-1", "schema_refs": ["g:v1"],
    })
}

/// The headers of a dead letter as its schema sees them: without their prefix, numbers as numbers.
fn dead_letter() -> Value {
    let rejection = Rejection::new(Code::BadField, "node: of the wrong type");
    let headers = headers(&rejection, "session", "reflex.events", 3, 7781, Timestamp::EPOCH);
    let mut record = Map::new();
    for ((name, value), expected) in headers.into_iter().zip(HEADER_NAMES) {
        assert_eq!(name, format!("{HEADER_PREFIX}{expected}"));
        let is_number = ["partition", "offset"].contains(&expected);
        let value = if is_number { serde_json::from_str(&value).expect("a number") } else { Value::from(value) };
        record.insert(expected.to_owned(), value);
    }
    record.into()
}

fn full(kind: RecordKind) -> Value {
    let value = match kind {
        RecordKind::Event => Ok(event()),
        RecordKind::DeadLetter => Ok(dead_letter()),
        RecordKind::Fleet => Ok(fleet()),
        RecordKind::Command => serde_json::to_value(command()),
        RecordKind::Intervention => serde_json::to_value(intervention()),
        RecordKind::Override => serde_json::to_value(live_override()),
        RecordKind::Escalation => serde_json::to_value(escalation()),
        RecordKind::Audit => serde_json::to_value(audit()),
    };
    value.expect("a record is JSON")
}

fn parsed(kind: RecordKind) -> Schema {
    Schema::parse_str(kind.schema_json()).expect("a shipped schema parses")
}

/// Paths of all fields in a schema, records in unions and arrays included.
fn schema_paths(schema: &Schema, named: &mut BTreeMap<String, Schema>, prefix: &str, paths: &mut BTreeSet<String>) {
    match schema {
        Schema::Record(record) => {
            named.insert(record.name.fullname(None), schema.clone());
            for field in &record.fields {
                let path = format!("{prefix}/{}", field.name);
                paths.insert(path.clone());
                schema_paths(&field.schema, named, &path, paths);
            }
        }
        Schema::Union(union) => union.variants().iter().for_each(|schema| schema_paths(schema, named, prefix, paths)),
        Schema::Array(array) => schema_paths(&array.items, named, prefix, paths),
        Schema::Ref { name } => {
            let schema = named.get(&name.fullname(None)).expect("defined before it is used").clone();
            schema_paths(&schema, named, prefix, paths);
        }
        _ => {}
    }
}

/// Paths of all members of JSON; the members of maps (`scope`, `attributes`, `token_usage`, `dimensions`) are data, not fields.
fn json_paths(value: &Value, prefix: &str, paths: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = format!("{prefix}/{name}");
                paths.insert(path.clone());
                if !["/scope", "/override/scope", "/attributes", "/token_usage", "/dimensions"].contains(&path.as_str())
                {
                    json_paths(value, &path, paths);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| json_paths(item, prefix, paths)),
        _ => {}
    }
}

#[test]
fn field_names_of_schema_and_json_are_equal_in_both_directions() {
    for kind in RecordKind::ALL {
        let (mut of_schema, mut of_json) = (BTreeSet::new(), BTreeSet::new());
        schema_paths(&parsed(kind), &mut BTreeMap::new(), "", &mut of_schema);
        json_paths(&full(kind), "", &mut of_json);
        assert_eq!(of_schema, of_json, "{kind:?}");
    }
}

#[test]
fn full_records_survive_their_schemas() {
    for kind in RecordKind::ALL {
        let bytes = encode(kind, &full(kind)).expect("it fits");
        let text = Schemas::default().single_object_text(&bytes, 1 << 20).expect("it reads");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), full(kind), "{kind:?}");
    }
}

#[test]
fn a_full_event_is_an_event() {
    let text = event().to_string();
    let event = json::event(&text, 1024).expect("an event");
    let causes = event.error.as_ref().and_then(|error| error.causes.as_deref()).expect("causes");
    assert_eq!(causes[0].code.as_deref(), Some("429"));
}

#[test]
fn schemas_are_documented_evolvable_and_in_one_namespace() {
    for kind in RecordKind::ALL {
        let Schema::Record(record) = parsed(kind) else { panic!("{kind:?} is no record") };
        assert_eq!(record.name.fullname(None), format!("reflex.{kind:?}"));
        assert!(record.doc.is_some());
        for field in &record.fields {
            assert!(field.doc.is_some(), "{kind:?}.{}", field.name);
            let is_bare_time = matches!(field.schema, Schema::Long) && field.name.ends_with("_at");
            assert!(!is_bare_time, "{kind:?}.{}: a time without its logical type", field.name);
        }
    }
    // What a runtime need not send is optional: a writer of an older schema never sent it.
    let Schema::Record(event) = parsed(RecordKind::Event) else { panic!("no record") };
    let required: Vec<_> =
        event.fields.iter().filter(|field| field.default.is_none()).map(|field| &*field.name).collect();
    assert_eq!(required, ["event_id", "type", "session_id", "graph"]);
}

/// Fingerprints in the byte order of single-object messages. Changing one of these means that readers need the new schema before writers use it. The values are those of another
/// implementation of the specification.
#[test]
fn schema_fingerprints_stable() {
    let golden = [
        "a5c88064aca746db",
        "55778c7d38bb4800",
        "eac6428b5fd4d30a",
        "2cef4c6360b4fca8",
        "106f43968d562e9d",
        "6b10802d3e5e4330",
        "3bc3c039ddd43fe1",
        "9030d696d9e63309",
    ];
    assert_eq!(RecordKind::ALL.map(|kind| hex(kind.fingerprint())), golden);
}

fn hex(fingerprint: Fingerprint) -> String {
    format!("{:016x}", u64::from_be_bytes(fingerprint))
}
