//! Generators: what runtimes and people may do, in any order.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};

use crate::world::{Act, Step, Whose};

/// A fixed seed, so that a run can be repeated; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` set others.
pub fn config(cases: u32) -> ProptestConfig {
    let given = ProptestConfig::default();
    ProptestConfig {
        cases: if given.cases == 256 { cases } else { given.cases },
        rng_seed: if given.rng_seed == RngSeed::Random { RngSeed::Fixed(7) } else { given.rng_seed },
        max_shrink_iters: 2_000,
        failure_persistence: None,
        ..given
    }
}

/// Types that count as failures.
pub const FAILURES: [&str; 8] = [
    "node_failed",
    "model_output_validation_failed",
    "model_call_failed",
    "tool_call_failed",
    "tool_call_cancelled",
    "stuck",
    "panic",
    "lease_lost",
];
/// Types that say that a run went on, began or ended well.
pub const HEALTHY: [&str; 9] = [
    "graph_started",
    "graph_completed",
    "node_started",
    "node_completed",
    "progress",
    "artifact_produced",
    "session_started",
    "session_resumed",
    "session_ended",
];
/// Types that change nothing in a session.
pub const INERT: [&str; 10] = [
    "tool_call_started",
    "tool_call_completed",
    "retry",
    "lease_recovered",
    "override_applied",
    "action_intended",
    "compensation_paused",
    "slo_breached",
    "something_new",
    "reflex.v9",
];

/// Four sessions; two of them share their id and not their tenant.
pub fn whose() -> impl Strategy<Value = Whose> {
    let sessions = [(None, "s"), (Some("t-1"), "s"), (Some("t-1"), "u"), (Some("t-2"), "s")];
    select(sessions.to_vec()).prop_map(|(tenant, id)| (tenant.map(str::to_owned), id.to_owned()))
}

fn event_type() -> impl Strategy<Value = &'static str> {
    let ends = ["retries_exhausted", "graph_failed", "graph_completed", "graph_started", "override_ignored"];
    prop_oneof![
        6 => Just("node_failed"),
        4 => select(FAILURES.to_vec()),
        3 => select(ends.to_vec()),
        3 => select(HEALTHY[..6].to_vec()),
        1 => select(HEALTHY[6..].to_vec()),
        1 => select(INERT.to_vec()),
    ]
}

fn route() -> impl Strategy<Value = (Option<&'static str>, Option<&'static str>)> {
    prop_oneof![
        8 => Just((None, None)),
        1 => Just((Some("primary"), Some("order_graph:v1"))),
        3 => Just((Some("degraded"), Some("degraded_order_graph:v1"))),
        2 => Just((Some("degraded"), Some("manual_order_graph:v1"))),
        1 => Just((Some("trial"), Some("order_graph:v1"))),
        2 => Just((Some("shadow"), Some("order_graph:v1"))),
        1 => Just((Some("sideways"), Some("order_graph:v1"))),
    ]
}

fn node() -> impl Strategy<Value = Option<&'static str>> {
    let nodes = ["score", "rank", "watch", "ask", "bare", "charge", "confirm", "file_order", "hold"];
    option::weighted(0.9, select(nodes.to_vec()))
}

fn error() -> impl Strategy<Value = Option<Value>> {
    let errors = [
        json!({"class": "pydantic.ValidationError"}),
        json!({"class": "E", "code": 7, "message": "no order 17"}),
        json!({"class": "E"}),
        json!({"class": "GraphRecursionError"}),
        json!({"class": "GraphInterrupt"}),
        json!({"message": "outer", "causes": [{"class": "Wrapper"}, {"class": "a.b.ValidationError", "message": "x"}]}),
    ];
    option::weighted(0.6, select(errors.to_vec()))
}

fn budget() -> impl Strategy<Value = Map<String, Value>> {
    let state = select(vec!["in_progress", "max_attempts", "non_retryable", "timeout", "cancelled", "later"]);
    (option::of(1_u32..4), option::of(0_u32..4), option::weighted(0.2, state)).prop_map(|(attempt, max, state)| {
        let mut fields = Map::new();
        put(&mut fields, "attempt", attempt);
        put(&mut fields, "max_attempts", max);
        put(&mut fields, "retry_state", state);
        fields
    })
}

/// Fields that only some types read: put on any.
fn extras() -> impl Strategy<Value = Map<String, Value>> {
    let own = option::weighted(0.3, select(vec!["$own", "ovr_another"]));
    let artifact = option::weighted(0.2, (option::of(Just("scores")), option::of(any::<bool>())));
    let reason = option::weighted(0.5, select(vec!["budget_expired", "incompatible"]));
    (own, artifact, reason, proptest::bool::weighted(0.05)).prop_map(|(own, artifact, reason, ambiguous)| {
        let mut fields = Map::new();
        put(&mut fields, "override_id", own);
        put(&mut fields, "reason", reason);
        if let Some((name, present)) = artifact {
            fields.insert(String::from("artifact"), json!({"name": name, "present": present}));
        }
        if ambiguous {
            fields.insert(String::from("failure"), json!({"class": "ambiguous"}));
            fields.insert(String::from("side_effect"), Value::Bool(true));
        }
        fields
    })
}

/// Adds a field where there is a value.
pub fn put(fields: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Any event of a session.
pub fn event() -> impl Strategy<Value = Map<String, Value>> {
    let graph = prop_oneof![5 => Just("order_graph"), 1 => Just("other_graph"), 1 => Just("unknown_graph")];
    let run_id = option::weighted(0.6, select(vec!["r1", "r2"]));
    let place = (whose(), graph, run_id, route(), node());
    (place, event_type(), error(), budget(), extras()).prop_map(|(place, event_type, error, budget, extras)| {
        let ((tenant, session_id), graph, run_id, (route, schema_ref), node) = place;
        let mut event = Map::new();
        event.extend(budget);
        event.extend(extras);
        event.insert(String::from("type"), event_type.into());
        event.insert(String::from("session_id"), session_id.into());
        event.insert(String::from("graph"), graph.into());
        event.insert(String::from("graph_version"), "v1".into());
        put(&mut event, "tenant", tenant);
        put(&mut event, "run_id", run_id);
        put(&mut event, "route", route);
        put(&mut event, "schema_ref", schema_ref);
        put(&mut event, "node", node);
        put(&mut event, "error", error);
        event
    })
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        24 => event().prop_map(Act::Event),
        1 => whose().prop_map(Act::Lift),
        2 => (whose(), proptest::bool::weighted(0.8)).prop_map(|(whose, right)| Act::Approve(whose, right)),
        1 => whose().prop_map(Act::Reject),
    ]
}

fn act_of_task() -> impl Strategy<Value = Act> {
    prop_oneof![30 => act(), 1 => Just(Act::Freeze), 1 => Just(Act::Unfreeze), 1 => Just(Act::Tick)]
}

fn numbered(acts: Vec<(i64, Act)>) -> Vec<Step> {
    let mut at_ms = 0;
    (0..)
        .zip(acts)
        .map(|(number, (after_ms, act))| {
            at_ms += after_ms;
            Step { number, at_ms, act }
        })
        .collect()
}

/// What may happen to a task, its clock jumping on, and back at times.
pub fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let after_ms = prop_oneof![
        12 => 0_i64..2_000,
        2 => 60_000_i64..1_200_000,
        1 => Just(3_600_000_i64),
        1 => Just(90_000_000_i64),
        2 => -600_000_i64..0,
    ];
    vec((after_ms, act_of_task()), 1..most).prop_map(numbered)
}

/// What may happen to the sessions of a task within one second: no deadline comes.
pub fn steps_of_sessions(most: usize) -> impl Strategy<Value = Vec<Step>> {
    vec((Just(0_i64), act()), 1..most).prop_map(numbered)
}

/// Events that report no failure.
pub fn healthy(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let types = prop_oneof![4 => select(HEALTHY.to_vec()), 1 => select(INERT.to_vec())];
    let event = (event(), types).prop_map(|(mut event, healthy)| {
        event.insert(String::from("type"), healthy.into());
        Act::Event(event)
    });
    vec((0_i64..2_000, event), 1..most).prop_map(numbered)
}
