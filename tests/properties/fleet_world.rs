//! A small world for a fleet task: drafts of what session tasks and people tell it, and a player.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use reflex::fleet::{Effects, Fleet, Input};
use reflex::record::command::{Command, Order, Verb};
use reflex::record::event::Route;
use reflex::record::fleet::{FleetRecord, RowKey, SignatureRow, Tally, bucket_of};
use reflex::record::output::Output;
use reflex::record::overrides::OverrideKind;
use reflex::record::position::{Place, Position};
use reflex::record::rows::Rows;
use reflex::record::scope::Scope;
use reflex::record::signature::Signature;
use reflex::record::time::Timestamp;
use reflex::record::topic;
use reflex::registry::Registry;

/// What a fleet task is told.
#[derive(Clone, Debug)]
pub enum Told {
    /// A record of a session task.
    Record(Box<FleetRecord>),
    /// A command.
    Command(Verb),
    /// An override that a person orders, for a graph.
    Order(Verb, &'static str, Order),
    /// The lift of an override.
    Lift(String),
    /// Nothing: time passes.
    Tick,
}

/// It is told so at a time.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number: offset, and id of a command.
    pub number: i64,
    /// When.
    pub at: Timestamp,
    /// What.
    pub told: Told,
}

/// An empty task.
pub fn new(registry: &Arc<Registry>) -> Fleet {
    Fleet::new("fleet/0", Arc::clone(registry))
}

/// Carries a step out; what it published.
pub fn take(fleet: &mut Fleet, step: &Step) -> Vec<Output> {
    let mut effects = Effects::default();
    let position = |topic| Position { topic, partition: 0, offset: step.number };
    match &step.told {
        Told::Record(record) => {
            fleet.step(step.at, Input::Observation { position: position(topic::FLEET), record }, &mut effects);
        }
        Told::Command(_) | Told::Order(..) | Told::Lift(_) => {
            let command = command(step);
            let position = position(topic::COMMANDS);
            fleet.step(step.at, Input::Command { position, command: &command }, &mut effects);
        }
        Told::Tick => fleet.step(step.at, Input::Tick, &mut effects),
    }
    effects.outputs
}

/// The command of a step.
fn command(step: &Step) -> Command {
    let (verb, target, order) = match &step.told {
        Told::Command(verb) => (*verb, String::from("*"), None),
        Told::Order(verb, graph, order) => (*verb, (*graph).to_owned(), Some(order.clone())),
        Told::Lift(id) => (Verb::Lift, id.clone(), None),
        Told::Record(_) | Told::Tick => panic!("no command"),
    };
    Command {
        command_id: format!("c-{}", step.number),
        verb,
        target,
        content_hash: None,
        order,
        reason: String::from("a test says so"),
        author: String::from("ann"),
    }
}

/// An order for a region, or everybody.
pub fn order(region: Option<&str>, schema_ref: Option<&str>, ttl_ms: u64) -> Order {
    let dimensions = region.map(|region| (String::from("region"), region.to_owned())).into_iter().collect();
    let schema_ref = schema_ref.map(str::to_owned);
    Order { scope: Scope::Cohort(dimensions), kind: OverrideKind::Replace, schema_ref, ttl_ms }
}

/// An instant, in milliseconds since the start.
pub fn instant(at_ms: i64) -> Timestamp {
    Timestamp::from_millis(1_000_000_000_000 + at_ms)
}

/// Counts of one row.
pub fn rows(source: &str, graph: &str, bucket: Timestamp, mark: Timestamp, row: RowKey, runs: u64) -> Told {
    let tally = Tally { runs_started: runs, runs_completed: runs / 2, ..Tally::default() };
    let table = Rows::empty(graph, source, bucket_of(bucket), mark).of(&[(row, tally)]).remove(0);
    Told::Record(Box::new(FleetRecord::Rows(table)))
}

/// A row of a route and a region.
pub fn row(route: Route, region: Option<&str>, late: bool) -> RowKey {
    let dimensions = region.map(|region| (String::from("region"), region.to_owned())).into_iter().collect();
    RowKey {
        schema_ref: Some(String::from("g:v1")),
        route,
        override_id: None,
        override_attempt: None,
        late,
        dimensions,
    }
}

/// A failure of a node in a session.
pub fn signature(source: &str, graph: &str, mark: Timestamp, node: &str, session: &str, route: Route) -> Told {
    let signature = Signature {
        node: Some(node.to_owned()),
        failure_shape: String::from("tool_timeout"),
        retry_budget_exhausted: true,
        required_artifact_present: None,
        scope: String::from("session"),
    };
    Told::Record(Box::new(FleetRecord::Signature(SignatureRow {
        graph: graph.to_owned(),
        source: source.to_owned(),
        source_watermark: mark,
        fingerprint: signature.fingerprint(graph),
        signature,
        signal: None,
        session_id: session.to_owned(),
        tenant: Some(String::from("t-1")),
        run_id: None,
        dimensions: BTreeMap::new(),
        schema_ref: None,
        route,
        override_id: None,
        override_attempt: None,
        event_id: String::from("e"),
        position: Place { topic: String::from("reflex.events"), partition: 0, offset: 0 },
        exhausted_by: None,
    })))
}

fn route() -> impl Strategy<Value = Route> {
    select(vec![Route::Primary, Route::Primary, Route::Primary, Route::Degraded, Route::Shadow, Route::Trial])
}

/// What is told, given when: (how far behind the source is, how far behind that the bucket is).
fn told() -> impl Strategy<Value = (i64, i64, Told)> {
    let behind = prop_oneof![8 => 0_i64..3_000, 1 => 3_000_i64..200_000, 1 => -5_000_i64..0];
    let older = prop_oneof![6 => 0_i64..2_000, 1 => 0_i64..4_000_000];
    let source = || select(vec!["session/0", "session/1", "session/2", "session/3"]);
    let graph = || select(vec!["g", "h"]);
    let region = || option::of(select(vec!["eu", "us", "ap"]));
    let record = prop_oneof![
        6 => (source(), graph(), route(), region(), proptest::bool::weighted(0.1), 1_u64..9).prop_map(
            |(source, graph, route, region, late, runs)| {
                rows(source, graph, Timestamp::EPOCH, Timestamp::EPOCH, row(route, region, late), runs)
            }
        ),
        4 => (source(), graph(), select(vec!["a", "b", "c"]), select(vec!["s-1", "s-2", "s-3", "s-4"]), route()).prop_map(
            |(source, graph, node, session, route)| signature(source, graph, Timestamp::EPOCH, node, session, route)
        ),
    ];
    let verb = select(vec![Verb::Freeze, Verb::Unfreeze, Verb::Lift, Verb::Approve]);
    let schema = option::of(select(vec!["g:v1", "g:v2"]));
    let ttl_ms = select(vec![1_u64, 4_000, 60_000, 3_000_000, u64::MAX]);
    let ordered = (select(vec![Verb::Force, Verb::Deny]), graph(), region(), schema, ttl_ms)
        .prop_map(|(verb, graph, region, schema, ttl_ms)| Told::Order(verb, graph, order(region, schema, ttl_ms)));
    let told = prop_oneof![10 => record, 1 => verb.prop_map(Told::Command), 2 => ordered, 1 => Just(Told::Tick)];
    (behind, older, told)
}

/// What a fleet task may be told, its clock jumping on, and back at times.
pub fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let after_ms = prop_oneof![
        12 => 0_i64..3_000,
        2 => 8_000_i64..15_000,
        1 => 60_000_i64..1_200_000,
        1 => Just(3_700_000_i64),
        1 => -20_000_i64..0,
    ];
    vec((after_ms, told()), 1..most).prop_map(|list| {
        let (mut at_ms, mut steps) = (0, Vec::new());
        for (number, (after_ms, (behind, older, mut told))) in (0..).zip(list) {
            at_ms += after_ms;
            if let Told::Record(record) = &mut told {
                match &mut **record {
                    FleetRecord::Rows(rows) => {
                        rows.source_watermark = instant(at_ms - behind);
                        rows.bucket = bucket_of(instant(at_ms - behind - older));
                    }
                    FleetRecord::Signature(row) => row.source_watermark = instant(at_ms - behind),
                }
            }
            steps.push(Step { number, at: instant(at_ms), told });
        }
        steps
    })
}
