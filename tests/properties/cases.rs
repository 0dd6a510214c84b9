//! Single cases that the generators rarely meet, each the reason for a line of the core.

use std::collections::BTreeSet;
use std::sync::Arc;

use reflex::record::intervention::InterventionStatus as Status;
use reflex::record::output::Record;
use reflex::record::time::Timestamp;
use reflex::registry::Registry;
use reflex::session::intervention::{EDGES, is_legal};
use serde_json::{Map, Value, json};

use crate::ledger::{self, Ledger};
use crate::world::{Act, Done, Step, Whose, bytes, play, registry};

const DEFAULTS: &str = r#"{"session_id":"s","run_id":"r","graph":"order_graph","graph_version":"v1"}"#;

/// An event of session `s`, run `r`, unless `fields` say otherwise.
pub fn event(fields: &Value) -> Act {
    let mut event: Map<String, Value> = serde_json::from_str(DEFAULTS).expect("an object");
    event.extend(fields.as_object().expect("an object").clone());
    Act::Event(event)
}

/// A node of a session gives up.
pub fn gives_up(session_id: &str, node: &str) -> Act {
    event(&json!({"session_id": session_id, "type": "retries_exhausted", "node": node}))
}

fn of(session_id: &str) -> Whose {
    (None, session_id.to_owned())
}

/// Plays acts, one each second unless a time is given, and checks the ledger.
pub fn told(registry: &Arc<Registry>, acts: Vec<Act>) -> (Vec<Done>, Ledger) {
    timed(registry, (0..).map(|second| second * 1_000).zip(acts).collect())
}

/// Plays acts at times in milliseconds, and checks the ledger.
pub fn timed(registry: &Arc<Registry>, acts: Vec<(i64, Act)>) -> (Vec<Done>, Ledger) {
    let steps: Vec<Step> = (0..).zip(acts).map(|(number, (at_ms, act))| Step { number, at_ms, act }).collect();
    let done = play(registry, &steps);
    let ledger = ledger::read(&done);
    (done, ledger)
}

/// The interventions' last states in a step: (signal, status, reason).
pub fn ends(done: &Done) -> Vec<(String, String, Option<String>)> {
    let interventions = done.outputs.iter().filter_map(|output| match &output.value {
        Some(Record::Intervention(record)) => Some(record),
        _ => None,
    });
    let ended = interventions.filter(|record| !matches!(record.status, Status::Pending | Status::Provisioning));
    ended.map(|record| (record.signal.clone(), record.status.to_string(), record.reason.clone())).collect()
}

/// Reason and new state of the last audit line of a step.
pub fn last_line(done: &Done) -> (String, String) {
    let line = done.outputs.iter().rev().find_map(|output| match &output.value {
        Some(Record::Audit(audit)) => Some((audit.to.clone(), audit.reason.clone().unwrap_or_default())),
        _ => None,
    });
    line.unwrap_or_default()
}

/// The same on one line each.
pub fn text(ends: &[(String, String, Option<String>)]) -> Vec<String> {
    ends.iter()
        .map(|(signal, status, reason)| format!("{signal} {status} {}", reason.as_deref().unwrap_or("-")))
        .collect()
}

/// A failure on the degraded route that exhausts its node.
fn degraded(node: &str, error: &str) -> Act {
    event(&json!({
        "type": "node_failed", "node": node, "route": "degraded", "schema_ref": "degraded_order_graph:v1",
        "override_id": "$own", "retry_state": "max_attempts", "error": {"class": error},
    }))
}

#[test]
fn legal_edges_are_those_of_the_contract() {
    let word = |status: &Status| status.to_string();
    let of_contract: BTreeSet<(Option<&str>, &str)> = [
        (None, "pending"),
        (Some("pending"), "awaiting_approval"),
        (Some("pending"), "provisioning"),
        (Some("awaiting_approval"), "provisioning"),
        (Some("provisioning"), "applied"),
        (Some("pending"), "observed"),
        (Some("pending"), "failed"),
        (Some("awaiting_approval"), "rejected"),
        (Some("awaiting_approval"), "expired"),
        (Some("awaiting_approval"), "failed"),
    ]
    .into();
    let statuses: Vec<Status> = Status::WORDS.iter().map(|word| Status::from(*word)).collect();
    let from = std::iter::once(None).chain(statuses.iter().map(Some));
    for from in from {
        for to in statuses.iter().chain([&Status::from("a_later_state")]) {
            let named = from.map(word);
            let expected = of_contract.contains(&(named.as_deref(), to.as_str()));
            assert_eq!(is_legal(from, to), expected, "{from:?} -> {to}");
        }
    }
    assert_eq!(EDGES.len(), of_contract.len());
}

#[test]
fn every_legal_edge_is_reached() {
    let ask = |session: &str| gives_up(session, "ask");
    let acts = vec![
        (0, gives_up("a", "rank")),
        (1, gives_up("b", "watch")),
        (2, gives_up("c", "bare")),
        (3, ask("d")),
        (4, Act::Approve(of("d"), true)),
        (5, ask("e")),
        (6, Act::Reject(of("e"))),
        (7, ask("f")),
        (8, event(&json!({"session_id": "f", "type": "node_completed", "node": "charge"}))),
        (9, Act::Approve(of("f"), true)),
        (10, ask("g")),
        (90_000_000, Act::Tick),
    ];
    let (_, ledger) = timed(&registry(&[]), acts);
    let seen: BTreeSet<(Option<String>, String)> = ledger.edges().collect();
    let legal: BTreeSet<(Option<String>, String)> =
        EDGES.iter().map(|(from, to)| (from.as_ref().map(ToString::to_string), to.to_string())).collect();
    assert_eq!(seen, legal);
}

#[test]
fn a_frozen_task_approves_nothing_and_the_proposal_waits() {
    let acts = vec![
        gives_up("s", "ask"),
        Act::Freeze,
        Act::Approve(of("s"), true),
        Act::Unfreeze,
        Act::Approve(of("s"), true),
    ];
    let (done, _) = told(&registry(&[]), acts);
    assert_eq!(last_line(&done[2]), ("refused".to_owned(), "frozen".to_owned()));
    assert_eq!(text(&ends(&done[4])), ["proposes applied -"]);
}

#[test]
fn a_frozen_task_lifts_and_expires() {
    let acts = vec![
        (0, gives_up("a", "rank")),
        (0, gives_up("b", "rank")),
        (1_000, Act::Freeze),
        (2_000, Act::Lift(of("a"))),
        (3_600_000, Act::Tick),
    ];
    let (done, ledger) = timed(&registry(&[]), acts);
    assert_eq!(last_line(&done[3]).0, "done");
    assert_eq!(last_line(&done[4]), ("removed".to_owned(), "expired".to_owned()));
    assert_eq!(ledger.held(), 0);
}

#[test]
fn a_graph_failure_that_comes_twice_ends_no_later_run() {
    let failed =
        |id: &str| event(&json!({"event_id": id, "type": "node_failed", "node": "rank", "error": {"class": "E"}}));
    let graph = || event(&json!({"event_id": "graph", "type": "graph_failed", "error": {"class": "F"}}));
    let (done, _) = told(&registry(&[]), vec![graph(), failed("1"), failed("2"), graph(), failed("3")]);
    assert_eq!(text(&ends(&done[4])), ["acts_once applied -"], "three failures of one run");
}

#[test]
fn a_graph_failure_that_comes_twice_ends_no_later_override() {
    let on_degraded = || {
        event(&json!({
            "event_id": "graph", "type": "graph_failed", "route": "degraded", "schema_ref": "degraded_order_graph:v1",
            "error": {"class": "F"},
        }))
    };
    let (done, ledger) =
        told(&registry(&[]), vec![gives_up("s", "rank"), on_degraded(), gives_up("s", "score"), on_degraded()]);
    assert_eq!(done[1].in_use.0, 0, "the run on its own schema ended");
    assert_eq!(text(&ends(&done[2])).len(), 0, "score is named only with its shape");
    let (done, _) = told(
        &registry(&[]),
        vec![
            gives_up("s", "rank"),
            on_degraded(),
            event(&json!({"type": "node_failed", "node": "rank", "retry_state": "timeout", "error": {"class": "G"}})),
            on_degraded(),
        ],
    );
    assert_eq!(done[2].in_use.0, 1, "another failure, another override");
    assert_eq!(done[3].in_use.0, 1, "the same report ends nothing twice");
    drop(ledger);
}

#[test]
fn later_signatures_on_the_degraded_route_attach_to_the_waiting_proposal() {
    let acts = vec![
        gives_up("s", "rank"),
        degraded("file_order", "E"),
        degraded("file_order", "F"),
        degraded("file_order", "G"),
        Act::Approve(of("s"), true),
    ];
    let (done, _) = told(&registry(&[]), acts);
    assert_eq!(text(&ends(&done[1])), ["asks_on_degraded awaiting_approval -"]);
    for later in &done[2..4] {
        assert_eq!(text(&ends(later)), [""; 0], "one waits already");
        assert!(last_line(later).1.starts_with("attached:"), "{:?}", last_line(later));
    }
    assert_eq!(text(&ends(&done[4])), ["asks_on_degraded applied -"]);
}

#[test]
fn approval_of_a_replacement_whose_override_ended_counts_against_the_limit() {
    let limits = registry(&[("session_overrides_live_max", 1)]);
    let acts = vec![
        gives_up("s", "rank"),
        degraded("file_order", "E"),
        Act::Lift(of("s")),
        gives_up("t", "rank"),
        Act::Approve(of("s"), true),
    ];
    let (done, _) = told(&limits, acts);
    assert_eq!(done[3].in_use.0, 1);
    assert_eq!(done[4].in_use.0, 1, "no more than the limit: {:?}", last_line(&done[4]));
}

#[test]
fn a_run_past_an_irreversible_node_is_not_forgotten_by_other_runs() {
    let mut acts = vec![event(&json!({"type": "node_completed", "node": "charge"}))];
    acts.extend(
        (0..3).map(|run| event(&json!({"run_id": format!("other-{run}"), "type": "node_failed", "node": "rank"}))),
    );
    acts.push(gives_up("s", "confirm"));
    let (done, _) = told(&registry(&[("runs_per_session_max", 2)]), acts);
    assert_eq!(text(&ends(&done[4])), ["past_the_point failed irreversible"]);
}

#[test]
fn a_run_past_an_irreversible_node_is_not_forgotten_by_other_sessions() {
    let mut acts = vec![event(&json!({"type": "node_completed", "node": "charge"}))];
    acts.extend(
        (0..3).map(|other| event(&json!({"session_id": format!("o-{other}"), "type": "node_failed", "node": "rank"}))),
    );
    acts.push(gives_up("s", "confirm"));
    let (done, _) = told(&registry(&[("sessions_tracked_max", 2)]), acts);
    assert_eq!(text(&ends(&done[4])), ["past_the_point failed irreversible"]);
}

#[test]
fn a_run_past_an_irreversible_node_is_remembered_from_that_node_on() {
    let day = 86_400_000;
    let acts = vec![
        (0, event(&json!({"type": "node_failed", "node": "rank"}))),
        (day - 1_000, event(&json!({"type": "node_completed", "node": "charge"}))),
        (day + 1_000, gives_up("s", "confirm")),
    ];
    let (done, _) = timed(&registry(&[]), acts);
    assert_eq!(text(&ends(&done[2])), ["past_the_point failed irreversible"]);
}

#[test]
fn refusals_are_decided_in_order_and_use_up_nothing() {
    let limits = registry(&[("interventions_per_session_max", 1)]);
    let past = |node: &str| {
        event(&json!({"type": "node_failed", "node": node, "retry_state": "timeout", "error": {"class": "E"}}))
    };
    let acts = vec![
        event(&json!({"type": "node_completed", "node": "charge"})),
        past("bare"),
        past("confirm"),
        event(&json!({"type": "graph_completed"})),
        past("rank"),
        Act::Lift(of("s")),
        past("bare"),
        past("confirm"),
        event(&json!({"type": "node_completed", "node": "charge"})),
        event(&json!({"type": "progress", "node": "confirm"})),
        past("confirm"),
    ];
    let (done, _) = told(&limits, acts);
    let ended: Vec<String> = done.iter().flat_map(|done| text(&ends(done))).collect();
    assert_eq!(
        ended,
        [
            "unanswered failed no_response",
            "past_the_point failed irreversible",
            "acts_once applied -",
            "unanswered failed no_response",
            "past_the_point failed limit:interventions_per_session_max",
            "past_the_point failed irreversible",
        ]
    );
}

#[test]
fn the_ends_of_the_calendar_do_not_panic() {
    let first = Timestamp::MIN.as_millis();
    let last = Timestamp::MAX.as_millis();
    let acts = vec![
        (first, gives_up("s", "rank")),
        (first, gives_up("s", "ask")),
        (last, gives_up("t", "rank")),
        (last, gives_up("u", "ask")),
        (i64::MAX, Act::Tick),
        (i64::MIN, gives_up("v", "rank")),
        (0, gives_up("w", "rank")),
    ];
    let (done, _) = timed(&registry(&[]), acts);
    let printed = bytes(done.iter().flat_map(|done| &done.outputs));
    assert!(printed.contains("0001-01-01T01:00:00.000Z") && printed.contains("9999-12-3"), "{printed}");
    let Some(Record::Override(record)) = done[2].outputs.iter().find_map(|output| match &output.value {
        Some(Record::Override(_)) => output.value.clone(),
        _ => None,
    }) else {
        panic!("an override at the end of the calendar");
    };
    assert_eq!(record.expires_at, Timestamp::MAX, "its life saturates");
}
