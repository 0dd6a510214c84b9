//! Exposure: rows of counts add up to what happened, however the log is cut into commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use reflex::record::event::Route;
use reflex::record::fleet::{BUCKET_MS, FleetRecord, OTHER, ROWS_BYTES_MAX, RowKey, Tally, bucket_of};
use reflex::record::output::{Output, Record};
use reflex::record::rows::Rows;
use reflex::record::sketch::Sketch;
use reflex::record::time::Timestamp;
use reflex::registry::Registry;
use reflex::session::Effects;
use serde_json::{Map, Value, json};

use crate::draft::{self, put};
use crate::world::{Act, Step, World, bytes, high, instant, registry};

/// Counts by bucket, graph and row.
type Sums = BTreeMap<(Timestamp, String, RowKey), Tally>;

fn rows_of(outputs: &[Output]) -> Vec<&Rows> {
    let records = outputs.iter().filter_map(|output| match &output.value {
        Some(Record::Fleet(record)) => Some(&**record),
        _ => None,
    });
    let rows = records.filter_map(|record| match record {
        FleetRecord::Rows(rows) => Some(rows),
        FleetRecord::Signature(_) => None,
    });
    rows.collect()
}

fn add_up(sums: &mut Sums, outputs: &[Output]) {
    for rows in rows_of(outputs) {
        assert_eq!(rows.bucket, bucket_of(rows.bucket), "a bucket starts at whole 10 s");
        assert!(rows.bucket <= rows.source_watermark, "nothing is counted ahead of the clock");
        assert_eq!(rows.fault(), None);
        let keys: BTreeSet<RowKey> = rows.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), rows.rows.len(), "one row for each combination");
        for (key, tally) in rows.iter() {
            sums.entry((rows.bucket, rows.graph.clone(), key)).or_default().add(&tally);
        }
    }
}

/// Plays steps, with a commit behind every step that `is_commit` names, and one at the end.
fn sums(registry: &Arc<Registry>, steps: &[Step], is_commit: impl Fn(usize) -> bool) -> Sums {
    let (mut world, mut sums) = (World::new(registry), Sums::new());
    for (at, step) in steps.iter().enumerate() {
        world.step(step);
        if is_commit(at) || at + 1 == steps.len() {
            let mut effects = Effects::default();
            world.session().flush(&mut effects);
            add_up(&mut sums, &effects.outputs);
            drop(world.session().take_changes());
            world.session().committed();
        }
    }
    sums
}

/// Beginnings and ends of healthy and failed runs, late ones too.
fn run_event() -> impl Strategy<Value = Map<String, Value>> {
    let kind = select(vec!["graph_started", "graph_completed", "graph_failed"]);
    let graph = select(vec!["order_graph", "other_graph", "unknown_graph"]);
    let schema = option::of(select(vec!["order_graph:v1", "other_graph:v2"]));
    let route = option::of(select(vec!["primary", "trial", "degraded", "shadow", "sideways"]));
    let values = (option::of(select(vec!["t-1", "t-2"])), option::of(select(vec!["eu", "us"])), option::of(0_u32..3));
    let latency = option::of(0.0_f64..5_000.0);
    let present = option::of(any::<bool>());
    let late = proptest::bool::weighted(0.2);
    (kind, graph, schema, route, values, latency, present, late).prop_map(
        |(kind, graph, schema, route, (tenant, region, attempt), latency, present, late)| {
            let mut event = Map::new();
            put(&mut event, "type", Some(kind));
            put(&mut event, "session_id", Some("s"));
            put(&mut event, "graph", Some(graph));
            put(&mut event, "graph_version", Some("v1"));
            put(&mut event, "schema_ref", schema.or(route.map(|_| "order_graph:v1")));
            put(&mut event, "route", route);
            put(&mut event, "tenant", tenant);
            put(&mut event, "region", region);
            put(&mut event, "override_id", attempt.map(|_| "ovr_of_a_cohort"));
            put(&mut event, "override_attempt", attempt);
            put(&mut event, "latency_ms", latency);
            put(&mut event, "occurred_at", late.then_some("1969-12-31T00:00:00Z"));
            if let Some(present) = present {
                event.insert(String::from("artifact"), json!({"present": present}));
            }
            event
        },
    )
}

fn runs(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let after_ms = prop_oneof![6 => 0_i64..3_000, 1 => 5_000_i64..40_000, 1 => -9_000_i64..0];
    vec((after_ms, run_event()), 1..most).prop_map(|list| {
        let mut at_ms = 0;
        let steps = (0..).zip(list).map(|(number, (after_ms, event))| {
            at_ms += after_ms;
            Step { number, at_ms, act: Act::Event(event) }
        });
        steps.collect()
    })
}

/// The contract, read naively: every event in its row, runs by starts once there was one, else by ends.
fn recount(steps: &[Step]) -> Sums {
    let (mut sums, mut clock, mut starting) = (Sums::new(), Timestamp::MIN, BTreeSet::new());
    for step in steps {
        let Act::Event(event) = &step.act else { continue };
        clock = clock.max(instant(step.at_ms));
        let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
        let graph = text("graph").unwrap();
        let dimensions = ["graph_version", "region", "tenant"].map(|name| Some((name.to_owned(), text(name)?)));
        let key = RowKey {
            schema_ref: text("schema_ref").or_else(|| Some(format!("{graph}:v1"))),
            route: Route::from(&*text("route").unwrap_or_else(|| String::from("primary"))),
            override_id: text("override_id"),
            override_attempt: event
                .get("override_attempt")
                .map(|attempt| attempt.as_u64().unwrap().try_into().unwrap()),
            late: event.contains_key("occurred_at"),
            dimensions: dimensions.into_iter().flatten().collect(),
        };
        let bucket = Timestamp::from_millis(clock.as_millis().div_euclid(BUCKET_MS) * BUCKET_MS);
        let kind = text("type").unwrap();
        let is_run = kind == "graph_started" || !starting.contains(&graph);
        if kind == "graph_started" {
            starting.insert(graph.clone());
        }
        // A required artifact is registered for this graph alone.
        let has_required = key.schema_ref.as_deref() == Some("order_graph:v1") || graph == "order_graph";
        let completed = kind == "graph_completed";
        let present = event.get("artifact").map(|artifact| artifact["present"] == true);
        let present = present.filter(|_| completed && has_required);
        let tally = sums.entry((bucket, graph, key)).or_default();
        tally.runs_started += u64::from(is_run);
        tally.runs_completed += u64::from(completed);
        tally.runs_failed += u64::from(kind == "graph_failed");
        tally.artifacts_present += u64::from(present == Some(true));
        tally.artifacts_missing += u64::from(present == Some(false));
        if let Some(latency_ms) = event.get("latency_ms").filter(|_| completed) {
            tally.latency.record(latency_ms.as_f64().unwrap());
        }
    }
    sums
}

fn total(sums: &Sums) -> Tally {
    let mut total = Tally::default();
    for tally in sums.values() {
        total.add(tally);
    }
    total
}

proptest! {
    #![proptest_config(draft::config(96))]

    #[test]
    fn rows_add_up_to_a_naive_recount(steps in runs(80), cuts in vec(any::<bool>(), 80)) {
        prop_assert_eq!(sums(&high(), &steps, |at| cuts[at]), recount(&steps));
    }

    #[test]
    fn where_a_log_is_cut_changes_no_sum(steps in draft::steps(80), cuts in vec(any::<bool>(), 80)) {
        prop_assert_eq!(sums(&high(), &steps, |at| cuts[at]), sums(&high(), &steps, |_| false));
    }

    #[test]
    fn rows_beyond_the_limit_fold_and_no_run_is_lost(steps in runs(80), rows_max in 1_u64..20) {
        let (few, all) = (registry(&[("fleet_rows_max", rows_max)]), sums(&high(), &steps, |_| false));
        let folded = sums(&few, &steps, |_| false);
        prop_assert_eq!(total(&folded), total(&all));
        prop_assert_eq!(&folded, &sums(&few, &steps, |_| false), "the same log folds the same");
        let buckets: BTreeSet<_> = folded.keys().map(|(bucket, ..)| *bucket).collect();
        for bucket in buckets {
            let of_bucket = |sums: &Sums| sums.keys().filter(|(at, ..)| *at == bucket).count() as u64;
            // What is never folded: four known routes and another, late or not.
            prop_assert!(of_bucket(&folded) <= rows_max + 10, "{} of {rows_max}", of_bucket(&folded));
            let is_other = |(at, graph, row): &(Timestamp, String, RowKey)| {
                *at == bucket && (graph == OTHER || row.dimensions.values().any(|value| value == OTHER)
                    || [&row.schema_ref, &row.override_id].contains(&&Some(OTHER.to_owned()))
                    || row.route.as_str() == OTHER)
            };
            prop_assert!(of_bucket(&all) <= rows_max + 10 || folded.keys().any(is_other));
        }
    }

    #[test]
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small counts")]
    fn merged_sketches_are_those_of_all_latencies(latencies in vec(0.0_f64..100_000.0, 1..60), cut in 0_usize..60) {
        let sketch = |latencies: &[f64]| {
            let mut sketch = Sketch::default();
            for latency in latencies {
                sketch.record(*latency);
            }
            sketch
        };
        let (one, other) = latencies.split_at(cut.min(latencies.len()));
        let (mut there, mut back) = (sketch(one), sketch(other));
        there.merge(&sketch(other));
        back.merge(&sketch(one));
        prop_assert_eq!(&there, &back);
        prop_assert_eq!(&there, &sketch(&latencies));
        let mut sorted = latencies.clone();
        sorted.sort_by(f64::total_cmp);
        for share in [0.0, 0.5, 0.95, 1.0] {
            let rank = ((sorted.len() as f64 * share).ceil() as usize).max(1);
            let (exact, told) = (sorted[rank - 1], there.quantile_ms(share).unwrap());
            prop_assert!((told - exact).abs() <= exact / 64.0 + 0.001, "{told} for {exact}");
        }
    }
}

/// A step of a run of `order_graph`.
fn step(number: i64, fields: &Value) -> Step {
    let Act::Event(event) = crate::cases::event(fields) else { panic!("an event") };
    Step { number, at_ms: number, act: Act::Event(event) }
}

#[test]
fn what_is_rolled_back_is_not_published() {
    let started = |number| step(number, &json!({"session_id": "s", "type": "graph_started"}));
    let mut world = World::new(&high());
    world.step(&started(0));
    world.session().flush(&mut Effects::default());
    drop(world.session().take_changes());
    world.session().committed();
    world.detour(&[started(1)], reflex::session::Session::rollback);
    let mut effects = Effects::default();
    world.session().flush(&mut effects);
    assert_eq!(bytes(&effects.outputs), "");
    world.step(&started(1));
    world.session().flush(&mut effects);
    assert_eq!(rows_of(&effects.outputs)[0].iter().next().unwrap().1.runs_started, 1);
    let published = effects.outputs.len();
    world.session().flush(&mut effects);
    assert_eq!(effects.outputs.len(), published, "rows are published once");
}

#[test]
fn the_override_of_a_session_is_no_row_of_its_own() {
    let failed = json!({"session_id": "s", "type": "retries_exhausted", "node": "rank"});
    let done = |id: &str| {
        json!({"session_id": "s", "type": "graph_completed", "route": "degraded", "override_id": id,
            "schema_ref": "another_graph:v1"})
    };
    let steps = [step(0, &failed), step(1, &done("$own")), step(2, &done("ovr_of_a_cohort"))];
    let sums = sums(&high(), &steps, |_| false);
    let ids: Vec<_> = sums.keys().map(|(_, _, row)| row.override_id.as_deref()).collect();
    assert_eq!(ids, [None, Some("ovr_of_a_cohort")]);
}

#[test]
fn what_a_failed_run_produced_decides_where_its_end_says_nothing() {
    let event = |kind: &str| json!({"session_id": "s", "run_id": "r", "type": kind, "node": "score"});
    let failed = step(0, &event("node_failed"));
    let produced =
        json!({"session_id": "s", "run_id": "r", "type": "artifact_produced", "artifact": {"name": "scores"}});
    let done = step(2, &event("graph_completed"));
    let outcome = |steps: &[Step]| {
        let total = total(&sums(&high(), steps, |_| false));
        (total.artifacts_present, total.artifacts_missing)
    };
    assert_eq!(outcome(&[failed.clone(), done.clone()]), (0, 1));
    assert_eq!(outcome(&[failed, step(1, &produced), done.clone()]), (1, 0));
    assert_eq!(outcome(&[done]), (0, 0), "a run without a failure is not known");
}

#[test]
fn a_graph_forgotten_for_room_counts_ends_again() {
    let event = |graph: &str, kind: &str| json!({"session_id": "s", "graph": graph, "type": kind});
    let list = [("a", "graph_started"), ("a", "graph_completed"), ("b", "graph_started"), ("a", "graph_completed")];
    let steps: Vec<Step> = (0..).zip(list).map(|(number, (graph, kind))| step(number, &event(graph, kind))).collect();
    assert_eq!(total(&sums(&high(), &steps, |_| true)).runs_started, 2);
    assert_eq!(total(&sums(&registry(&[("graphs_seen_max", 1)]), &steps, |_| true)).runs_started, 3);
}

#[test]
fn a_table_that_is_too_large_for_a_record_is_split() {
    let steps: Vec<Step> = (0..3_000)
        .map(|number| {
            let region = format!("region-{number}-{}", "x".repeat(100));
            let mut step = step(number, &json!({"session_id": "s", "type": "graph_started", "region": region}));
            step.at_ms = 0;
            step
        })
        .collect();
    let mut world = World::new(&high());
    for step in &steps {
        drop(world.step(step));
    }
    let mut effects = Effects::default();
    world.session().flush(&mut effects);
    let sizes: Vec<usize> =
        effects.outputs.iter().map(|output| serde_json::to_vec(&output.value).unwrap().len()).collect();
    assert!(sizes.len() > 1 && sizes.iter().all(|size| *size <= ROWS_BYTES_MAX), "{sizes:?}");
    let tables = rows_of(&effects.outputs);
    assert!(tables.iter().all(|table| table.fault().is_none()));
    let regions = tables.iter().flat_map(|table| table.iter()).map(|(key, _)| key.dimensions["region"].clone());
    let regions: BTreeSet<String> = regions.collect();
    assert_eq!(regions.len(), 3_000, "each row with its own text, once");
    let whole = tables.iter().all(|table| table.texts.is_sorted() && table.rows.is_sorted());
    assert!(whole, "texts and rows in order");
    assert!(effects.outputs.iter().all(|output| output.key == "graph/order_graph"));
}

#[test]
fn the_rarest_values_of_the_widest_dimension_fold() {
    let registry = registry(&[("fleet_rows_max", 100)]);
    let mut world = World::new(&registry);
    for number in 0..3_000_i64 {
        let region = if number % 2 == 0 { String::from("eu-west") } else { format!("region-{number}") };
        let tenant = format!("t-{}", number % 3);
        let event = json!({"session_id": "s", "type": "graph_started", "region": region, "tenant": tenant});
        let mut step = step(number, &event);
        step.at_ms = 0;
        world.step(&step);
    }
    let mut effects = Effects::default();
    world.session().flush(&mut effects);
    let mut sums = Sums::new();
    add_up(&mut sums, &effects.outputs);
    assert!(sums.len() <= 110, "{}", sums.len());
    assert_eq!(total(&sums).runs_started, 3_000);
    let runs_in = |region: &str| {
        let of_region = sums.iter().filter(|((_, _, row), _)| row.dimensions["region"] == region);
        of_region.map(|(_, tally)| tally.runs_started).sum::<u64>()
    };
    assert_eq!(runs_in("eu-west"), 1_500, "what is frequent is told apart");
    assert!(runs_in(OTHER) > 1_300);
    assert!(sums.keys().all(|(_, _, row)| row.dimensions["tenant"] != OTHER), "the widest dimension alone");
    assert!(world.session().counts().rows_folded > 1_300);
}
