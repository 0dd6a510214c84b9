//! The backtest: what a second registry would have done otherwise, per session.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;

use crate::cli::replay::report::plain;
use crate::record::output::{Output, Record};

/// Whom a decision concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Whom {
    /// The session.
    pub session_id: String,
    /// Its tenant.
    pub tenant: Option<String>,
    /// The graph.
    pub graph: String,
}

/// What was decided about one intervention, ids and versions left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Decision {
    /// The signal.
    pub signal: String,
    /// The failing node.
    pub node: Option<String>,
    /// The shape.
    pub failure_shape: String,
    /// Where the intervention ended.
    pub status: String,
    /// Why, where it did not go well.
    pub reason: Option<String>,
    /// The response.
    pub response: Option<String>,
    /// The degraded graph schema.
    pub schema_ref: Option<String>,
    /// Where the run re-enters.
    pub entry_point: Option<String>,
}

/// Decisions of one replay, by whom they concern, in order of their interventions.
#[derive(Default)]
pub struct Decisions {
    order: BTreeMap<Whom, Vec<String>>,
    by_id: BTreeMap<String, Decision>,
}

impl Decisions {
    /// Notes the last state of each intervention.
    pub fn output(&mut self, output: &Output) {
        let Some(Record::Intervention(record)) = &output.value else { return };
        let crate::record::scope::Scope::Session { session_id } = &record.scope else { return };
        let decision = Decision {
            signal: record.signal.clone(),
            node: record.signature.node.clone(),
            failure_shape: record.signature.failure_shape.clone(),
            status: record.status.to_string(),
            reason: record.reason.clone(),
            response: record.response.as_ref().map(|response| response.action.clone()),
            schema_ref: record.response.as_ref().and_then(|response| response.schema_ref.clone()),
            entry_point: record.response.as_ref().and_then(|response| response.entry_point.clone()),
        };
        let id = record.intervention_id.clone();
        if self.by_id.insert(id.clone(), decision).is_none() {
            let whom =
                Whom { session_id: session_id.clone(), tenant: record.tenant.clone(), graph: record.graph.clone() };
            self.order.entry(whom).or_default().push(id);
        }
    }

    fn of(&self, whom: &Whom) -> Vec<&Decision> {
        self.order.get(whom).into_iter().flatten().filter_map(|id| self.by_id.get(id)).collect()
    }
}

/// One session that would have fared otherwise.
#[derive(Debug, Serialize)]
pub struct Change {
    /// The session.
    #[serde(flatten)]
    pub whom: Whom,
    /// Under the first registry.
    pub before: Vec<Decision>,
    /// Under the second.
    pub after: Vec<Decision>,
}

/// What changes between two replays.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Sessions, in order.
    pub sessions: Vec<Change>,
    /// Cohorts: empty until the fleet stage is there.
    pub cohorts: Vec<serde_json::Value>,
}

/// Compares two replays of the same log.
#[must_use]
pub fn compare(before: &Decisions, after: &Decisions) -> Difference {
    let everybody: BTreeSet<&Whom> = before.order.keys().chain(after.order.keys()).collect();
    let changed = everybody.into_iter().filter_map(|whom| {
        let (old, new) = (before.of(whom), after.of(whom));
        let owned = |decisions: Vec<&Decision>| decisions.into_iter().cloned().collect();
        (old != new).then(|| Change { whom: whom.clone(), before: owned(old), after: owned(new) })
    });
    Difference { sessions: changed.collect(), cohorts: Vec::new() }
}

impl Difference {
    /// For a person.
    #[must_use]
    pub fn table(&self) -> String {
        if self.sessions.is_empty() {
            return String::from("no session fares otherwise\n");
        }
        let mut out = String::new();
        for change in &self.sessions {
            let tenant = change.whom.tenant.as_deref().unwrap_or("-");
            let (session, graph) = (plain(&change.whom.session_id), plain(&change.whom.graph));
            let _ = writeln!(out, "{session} (tenant {}, graph {graph})", plain(tenant));
            for (sign, decisions) in [('-', &change.before), ('+', &change.after)] {
                for decision in decisions {
                    let _ = writeln!(out, "  {sign} {}", words(decision));
                }
            }
        }
        let _ = writeln!(out, "{} sessions fare otherwise", self.sessions.len());
        out
    }
}

fn words(decision: &Decision) -> String {
    let node = plain(decision.node.as_deref().unwrap_or("-"));
    let reason = decision.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let schema = decision.schema_ref.as_ref().map(|schema| format!(" -> {schema}")).unwrap_or_default();
    format!("{} at {node}, {}: {}{reason}{schema}", decision.signal, plain(&decision.failure_shape), decision.status)
}
