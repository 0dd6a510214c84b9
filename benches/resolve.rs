//! `resolve` over 10 000 live overrides: 90 % of sessions, 10 % of cohorts of seven dimension sets; half of
//! the session records are for one tenant. Target: 0.3 us.

#![allow(missing_docs, clippy::expect_used, reason = "a benchmark")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use reflex::record::time::Timestamp;
use reflex::resolve::{Context, OverrideTable, Reason, explain, resolve};
use serde_json::{Value, json};

const OVERRIDES: usize = 10_000;

fn record(id: usize, scope: &Value) -> Value {
    json!({"override_id": format!("ovr_{id:036}"), "graph": "graph", "scope": scope, "source": "auto",
        "tenant": if id.is_multiple_of(2) { Value::Null } else { json!(format!("t-{}", id % 50)) }, "run_id": "run_77",
        "schema_ref": "degraded:v1", "default_schema_ref": "degraded:v1", "candidate_schema_ref": "graph:v2",
        "trial_percentage": 100.0, "mode": if id.is_multiple_of(4) { "trial" } else { "degraded" }, "status": "active",
        "attempt": 0, "revision": 1, "reason": "slow", "created_at": "2026-11-30T05:00:00Z",
        "expires_at": "2026-12-01T05:00:00Z"})
}

fn scope(id: usize) -> Value {
    if !id.is_multiple_of(10) {
        return json!({"kind": "session", "session_id": format!("session-{id:028}")});
    }
    let (region, version, model) = (format!("region-{id}"), format!("6.4.{id}"), format!("model-{id}"));
    match id / 10 % 7 {
        0 => json!({"region": region}),
        1 => json!({"app_version": version}),
        2 => json!({"region": region, "app_version": version}),
        3 => json!({"attributes.model": model}),
        4 => json!({"graph_version": "v1", "region": region}),
        5 => json!({"tenant": format!("t-{}", id % 50), "app_version": version}),
        _ => json!({"attributes.model": model, "region": region}),
    }
}

fn table() -> OverrideTable {
    let mut table = OverrideTable::new();
    for id in 0..OVERRIDES {
        table.apply_json(&id.to_string(), Some(record(id, &scope(id)).to_string().as_bytes()));
    }
    assert_eq!(table.len(), OVERRIDES);
    table
}

fn context(session: &str, region: &str) -> Context {
    let json = json!({"session_id": session, "run_id": "run_77", "tenant": "t-1", "region": region, "app_version": "6.4.1",
        "graph_version": "v1", "attributes": {"model": "m-1", "tool": "search"}});
    serde_json::from_value(json).expect("a context")
}

fn compare(criterion: &mut Criterion) {
    let table = table();
    let now: Timestamp = "2026-11-30T07:00:00Z".parse().expect("a time");
    let mine = format!("session-{:028}", 9_998);
    let (trial, degraded) = ("region-140", "region-70");
    let questions = [
        ("no match", "session-of-nobody-0000000000000001", "eu-west", Reason::Default),
        ("session match", mine.as_str(), "eu-west", Reason::Session),
        ("cohort match", "session-of-nobody-0000000000000001", degraded, Reason::Cohort),
        ("trial match", "session-of-nobody-0000000000000001", trial, Reason::Trial),
    ];
    for (name, session, region, reason) in questions {
        let context = context(session, region);
        assert_eq!(resolve(&table, "graph", &context, now).reason, reason, "{name}");
        criterion.bench_function(&format!("resolve, {name}"), |bencher| {
            bencher.iter(|| resolve(black_box(&table), black_box("graph"), black_box(&context), now));
        });
        criterion.bench_function(&format!("explain, {name}"), |bencher| {
            bencher.iter(|| explain(black_box(&table), black_box("graph"), black_box(&context), now));
        });
    }
}

criterion_group!(benches, compare);
criterion_main!(benches);
