//! What one event costs: plain borrowed decode, decode, decode and step of a healthy event, a failure with its signature.
//! The ratios are what counts: all figures come from one run on one machine.
#![allow(clippy::expect_used, reason = "a broken expectation is a failed test")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests read files and clocks")]

use std::borrow::Cow;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use reflex::record::codec::{DecodeLimits, Headers, Schemas, decode, json};
use reflex::record::position::Position;
use reflex::record::time::Timestamp;
use reflex::registry::{Registry, SourceFile, load};
use reflex::session::normalise::Facts;
use reflex::session::{Effects, Input, Restore, Session};
use serde::Deserialize;

/// A typical healthy event: 16 fields, about 440 bytes.
const HEALTHY: &str = r#"{"event_id":"01JDXK3V7Q8Z9W2M4N6P8R0T1A","occurred_at":"2026-11-30T07:00:00.123Z","type":"node_completed","session_id":"sess_12345678","run_id":"run_77012345","graph":"refund_graph","graph_version":"v1","schema_ref":"refund_graph:v1","route":"primary","node":"request_evidence","attempt":1,"latency_ms":812.5,"app_version":"6.4.1","region":"eu-west","tenant":"t-7","attributes":{"model":"m-1","runtime":"langgraph-1.2"}}"#;

const FAILED: &str = r#"{"event_id":"EVENT","type":"node_failed","session_id":"sess_1","run_id":"run_1","graph":"refund_graph","graph_version":"v1","tenant":"t-7","node":"evaluate_evidence","attempt":3,"max_attempts":3,"error":{"class":"pydantic.ValidationError","code":"ast_decoder","message":"1 validation error for Evidence: field 'total' is not a number (got 30,5 EUR)"},"artifact":{"name":"evidence_analysis","present":false}}"#;

/// The same 16 fields, borrowed, and nothing else done.
#[derive(Deserialize)]
#[allow(dead_code, reason = "decoded to be timed")]
struct Plain<'a> {
    #[serde(borrow)]
    event_id: Cow<'a, str>,
    #[serde(borrow)]
    occurred_at: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    event_type: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    run_id: Cow<'a, str>,
    #[serde(borrow)]
    graph: Cow<'a, str>,
    #[serde(borrow)]
    graph_version: Cow<'a, str>,
    #[serde(borrow)]
    schema_ref: Cow<'a, str>,
    #[serde(borrow)]
    route: Cow<'a, str>,
    #[serde(borrow)]
    node: Cow<'a, str>,
    attempt: u32,
    latency_ms: f64,
    #[serde(borrow)]
    app_version: Cow<'a, str>,
    #[serde(borrow)]
    region: Cow<'a, str>,
    #[serde(borrow)]
    tenant: Cow<'a, str>,
    #[serde(borrow)]
    attributes: &'a serde_json::value::RawValue,
}

fn registry() -> Arc<Registry> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/registry");
    let files = ["defaults.toml", "refund.toml", "shapes.toml"].map(|name| SourceFile {
        name: name.to_owned(),
        text: std::fs::read_to_string(folder.join(name)).expect("a shipped file"),
    });
    Arc::new(load::load(&files).expect("the shipped registry").registry)
}

fn position(offset: i64) -> Position<'static> {
    Position { topic: "reflex.events", partition: 0, offset }
}

/// A task that tracks 10 000 failing sessions.
fn busy_session(registry: &Arc<Registry>) -> Session {
    let mut session = Session::new("session/0", registry.clone());
    let mut effects = Effects::default();
    for number in 0..10_000 {
        let text = FAILED.replace("EVENT", &format!("e{number}")).replace("sess_1", &format!("failing_{number}"));
        let event = json::event(&text, 1024).expect("an event");
        let input = Input::Event { position: position(number), event: &event, received_at: Timestamp::EPOCH };
        session.step(Timestamp::EPOCH, input, &mut effects);
        effects.clear();
    }
    session
}

fn healthy(c: &mut Criterion) {
    let registry = registry();
    let mut group = c.benchmark_group("healthy event");
    group.bench_function("plain borrowed decode", |b| {
        b.iter(|| {
            let text = std::str::from_utf8(black_box(HEALTHY.as_bytes())).expect("UTF-8");
            serde_json::from_str::<Plain<'_>>(text).expect("an event")
        });
    });
    group.bench_function("decode", |b| b.iter(|| json::event(black_box(HEALTHY), 1024).expect("an event")));
    let schemas = Schemas::default();
    let limits = DecodeLimits { event_bytes_max: 1_048_576, field_bytes_max: 1024 };
    let mut session = busy_session(&registry);
    let mut effects = Effects::default();
    let now: Timestamp = "2026-11-30T07:00:00.200Z".parse().expect("a time");
    group.bench_function("decode and step", |b| {
        b.iter(|| {
            let text = decode(&Headers::NONE, Some(black_box(HEALTHY.as_bytes())), &schemas, limits).expect("JSON");
            let event = json::event(&text, 1024).expect("an event");
            let input = Input::Event { position: position(1), event: &event, received_at: now };
            session.step(now, input, &mut effects);
        });
    });
    let event = json::event(HEALTHY, 1024).expect("an event");
    group.bench_function("step", |b| {
        b.iter(|| {
            let input = Input::Event { position: position(1), event: black_box(&event), received_at: now };
            session.step(now, input, &mut effects);
        });
    });
    // The end of a run is counted, with its latency, in a row that is there.
    let text = HEALTHY.replace("node_completed", "graph_completed");
    let event = json::event(&text, 1024).expect("an event");
    group.bench_function("step of the end of a run", |b| {
        b.iter(|| {
            let input = Input::Event { position: position(1), event: black_box(&event), received_at: now };
            session.step(now, input, &mut effects);
        });
    });
    group.finish();
}

/// An event of a session that failed before, the first since a commit: the session is unpacked for it.
fn healthy_of_failing(c: &mut Criterion) {
    let mut session = busy_session(&registry());
    session.committed();
    let texts: Vec<String> =
        (0..10_000).map(|number| HEALTHY.replace("sess_12345678", &format!("failing_{number}"))).collect();
    let events: Vec<_> = texts.iter().map(|text| json::event(text, 1024).expect("an event")).collect();
    let mut effects = Effects::default();
    let mut next = events.iter().cycle().enumerate();
    c.bench_function("healthy event of a failing session, committed by 64", |b| {
        b.iter(|| {
            let Some((number, event)) = next.next() else { return };
            let input = Input::Event { position: position(1), event, received_at: Timestamp::EPOCH };
            session.step(Timestamp::EPOCH, input, &mut effects);
            if number % 64 == 0 {
                black_box(session.take_changes());
                session.committed();
            }
        });
    });
}

fn failing(c: &mut Criterion) {
    let registry = registry();
    let mut group = c.benchmark_group("failing event");
    let event = json::event(FAILED, 1024).expect("an event");
    group.bench_function("normalise", |b| {
        b.iter(|| Facts::of("node_failed", black_box(event.error.as_ref())).shape(&registry));
    });
    let mut session = Session::new("session/0", registry.clone());
    let mut effects = Effects::default();
    let mut number = 0;
    group.bench_function("decode, step, intervention and override", |b| {
        b.iter(|| {
            number += 1;
            let text = FAILED.replace("EVENT", &format!("e{number}")).replace("sess_1", &format!("s{number}"));
            let event = json::event(&text, 1024).expect("an event");
            // One a second: the guard of a minute is never reached; the life of an override ends after a day.
            let now = Timestamp::from_millis(number * 1000);
            session.step(
                now,
                Input::Event { position: position(number), event: &event, received_at: now },
                &mut effects,
            );
            effects.clear();
        });
    });
    let mut session = Session::new("session/0", registry.clone());
    group.bench_function("the same, changes taken and committed by 64", |b| {
        b.iter(|| {
            number += 1;
            let text = FAILED.replace("EVENT", &format!("e{number}")).replace("sess_1", &format!("s{number}"));
            let event = json::event(&text, 1024).expect("an event");
            let now = Timestamp::from_millis(number * 1000);
            session.step(
                now,
                Input::Event { position: position(number), event: &event, received_at: now },
                &mut effects,
            );
            effects.clear();
            if number % 64 == 0 {
                black_box(session.take_changes());
                session.committed();
            }
        });
    });
    group.finish();
}

/// What a start costs for each tracked session.
fn restoring(c: &mut Criterion) {
    let registry = registry();
    let mut session = busy_session(&registry);
    let entries = session.take_changes();
    let mut group = c.benchmark_group("restore");
    group.throughput(criterion::Throughput::Elements(entries.len() as u64));
    group.bench_function("10 000 sessions", |b| {
        b.iter(|| {
            let mut restore = Restore::new("session/0", registry.clone());
            for entry in &entries {
                restore.apply(entry.key.as_bytes(), entry.value.as_deref()).expect("an entry");
            }
            restore.finish().expect("a state")
        });
    });
    group.finish();
}

criterion_group!(benches, healthy, healthy_of_failing, failing, restoring);
criterion_main!(benches);
