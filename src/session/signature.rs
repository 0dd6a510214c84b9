//! From a failure event to a signature: files it in its run, and finds whether the retry budget is spent.

use crate::record::event::{Event, EventType, FailureClass, Route};
use crate::record::observation::{FailureRow, Observation};
use crate::record::position::Evidence;
use crate::record::signature::Signature;
use crate::record::task::Effects;
use crate::registry::{Graph, Registry};
use crate::session::lane::Lane;
use crate::session::normalise::Facts;
use crate::session::response::Case;
use crate::session::table::Serial;
use crate::session::track::{Failure, Place, Run, Sighting};
use crate::session::{Arrival, Session};

/// What spent a budget, in the words of the evidence.
mod exhausted_by {
    pub const RETRIES_EXHAUSTED: &str = "retries_exhausted";
    pub const MAX_ATTEMPTS: &str = "max_attempts";
    pub const GRAPH_FAILED: &str = "graph_failed";
    pub const IDENTICAL_FAILURES: &str = "identical_failures";
}

impl Session {
    /// A failure event: files it, and signs it where the budget is spent.
    pub(crate) fn failed(&mut self, arrival: &Arrival<'_>, effects: &mut Effects) {
        let event = arrival.event;
        let registry = self.registry.clone();
        let Some(facts) = self.facts_of(event) else {
            return;
        };
        let shape = facts.shape(&registry);
        if arrival.late {
            self.count_failure(event, shape, effects);
            return;
        }
        let Some(serial) = self.admit(arrival) else { return };
        self.count_failure(event, shape.clone(), effects);
        let Some(run) = self.open_run(serial, event) else { return };
        let failure = Failure {
            lane: Lane::of(event),
            ambiguous: self.may_have_happened(event),
            node: event.node.as_deref(),
            shape: &shape,
            attempt: event.attempt,
            may_repeat: event.event_type == EventType::NodeFailed,
            facts,
        };
        let limits = &registry.limits;
        let seen = Sighting::at(arrival.position, &event.event_id);
        let filed = self.table.get_mut(serial).and_then(|tracked| {
            let (shapes, events) = (limits.shapes_per_run_max as usize, limits.evidence_events_max as usize);
            tracked.runs[run].fail(failure, seen, shapes, events)
        });
        let Some(filed) = filed else {
            self.counts.untracked += 1;
            return;
        };
        if filed.first {
            let Some(case) = self.case(arrival, serial, run, filed.place, false) else { return };
            let signal = registry.signal_for(&event.graph, &case.signature);
            self.observe(&case, signal, case.cause(), effects);
        }
        let by = budget_spent(event).or_else(|| self.tripped(arrival, serial, run, filed.place, filed.repeated));
        if let Some(by) = by {
            self.sign(arrival, serial, run, filed.place, &by, effects);
        }
    }

    /// `retries_exhausted`: signs the shape the node already failed with, else its own.
    pub(crate) fn retries_exhausted(&mut self, arrival: &Arrival<'_>, effects: &mut Effects) {
        let event = arrival.event;
        let registry = self.registry.clone();
        let Some(facts) = self.facts_of(event) else {
            return;
        };
        if arrival.late {
            return;
        }
        let Some(serial) = self.admit(arrival) else { return };
        let Some(run) = self.open_run(serial, event) else { return };
        let shapes_max = registry.limits.shapes_per_run_max as usize;
        let place = self.table.get_mut(serial).and_then(|tracked| {
            let run = &mut tracked.runs[run];
            // An event without a node speaks of the node that failed last.
            match (&event.node, run.last_failing(Lane::of(event))) {
                (None, Some(place)) => Some(place),
                _ => {
                    run.exhaust(Lane::of(event), event.node.as_deref(), || (facts.shape(&registry), facts), shapes_max)
                }
            }
        });
        match place {
            Some(place) => self.sign(arrival, serial, run, place, exhausted_by::RETRIES_EXHAUSTED, effects),
            None => self.counts.untracked += 1,
        }
    }

    /// `graph_failed`: signs the run's last failing node, or the graph's own error. Whether the event is new: one that
    /// comes twice ends nothing.
    pub(crate) fn graph_failed(&mut self, arrival: &Arrival<'_>, effects: &mut Effects) -> bool {
        let event = arrival.event;
        let Some(facts) = self.facts_of(event) else {
            return true;
        };
        let known = self.table.find(event.tenant.as_deref(), &event.session_id);
        if arrival.late || (known.is_none() && facts.is_empty()) {
            self.expose(arrival);
            return true;
        }
        let Some(serial) = self.admit(arrival) else { return false };
        self.expose(arrival);
        let last = self.table.get(serial).and_then(|tracked| {
            let run = tracked.run_index(&event.graph, event.run_id.as_deref(), *event.route() == Route::Shadow)?;
            let place = tracked.runs[run].last_failing(Lane::of(event))?;
            Some((run, place))
        });
        match last {
            Some((run, place)) if self.same_failure(serial, run, place, &facts) => {
                let signed = self.table.get(serial).is_some_and(|tracked| tracked.runs[run].node_signed(place));
                if !signed {
                    self.sign(arrival, serial, run, place, exhausted_by::GRAPH_FAILED, effects);
                }
            }
            _ if !facts.is_empty() => self.sign_graph(arrival, serial, facts, effects),
            _ => {}
        }
        true
    }

    /// Whether the graph failed of what the node failed of; an error that says nothing is taken for it.
    fn same_failure(&self, serial: Serial, run: usize, place: Place, facts: &Facts) -> bool {
        let Some(tracked) = self.table.get(serial) else { return false };
        let run = &tracked.runs[run];
        let of_node = &run.node(place).last_facts;
        facts.is_empty() || facts.clone().completed_by(of_node).shape(&self.registry) == *run.shape(place).shape
    }

    /// Signs a failure of the graph as a whole: node null.
    fn sign_graph(&mut self, arrival: &Arrival<'_>, serial: Serial, facts: Facts, effects: &mut Effects) {
        let event = arrival.event;
        let Some(run) = self.open_run(serial, event) else { return };
        let shape = facts.shape(&self.registry);
        let failure = Failure {
            lane: Lane::of(event),
            ambiguous: false,
            node: None,
            shape: &shape,
            attempt: None,
            may_repeat: false,
            facts,
        };
        let seen = Sighting::at(arrival.position, &event.event_id);
        let limits = &self.registry.limits;
        let (shapes, events) = (limits.shapes_per_run_max as usize, limits.evidence_events_max as usize);
        let filed = self.table.get_mut(serial).and_then(|t| t.runs[run].fail(failure, seen, shapes, events));
        match filed {
            Some(filed) => self.sign(arrival, serial, run, filed.place, exhausted_by::GRAPH_FAILED, effects),
            None => self.counts.untracked += 1,
        }
    }

    /// Whether identical failures alone count as a spent budget: the matching signal's trip, else the default.
    fn tripped(
        &self,
        arrival: &Arrival<'_>,
        serial: Serial,
        run: usize,
        place: Place,
        repeated: bool,
    ) -> Option<String> {
        if repeated {
            return None;
        }
        let tracked_run = &self.table.get(serial)?.runs[run];
        let track = tracked_run.shape(place);
        let signature = signature_of(arrival.event, self.graph_of(arrival.event), tracked_run, place, true);
        let signal = self.registry.signal_for(&arrival.event.graph, &signature);
        let trip = signal.and_then(|signal| signal.identical_failures);
        let trip = trip.unwrap_or(self.registry.defaults.identical_failures);
        (trip > 0 && track.count >= trip).then(|| exhausted_by::IDENTICAL_FAILURES.to_owned())
    }

    /// Gives the signature of a place, once until a reset, and responds to it.
    fn sign(
        &mut self,
        arrival: &Arrival<'_>,
        serial: Serial,
        run: usize,
        place: Place,
        by: &str,
        effects: &mut Effects,
    ) {
        let Some(tracked) = self.table.get_mut(serial) else { return };
        let tracked_run = &mut tracked.runs[run];
        if !tracked_run.sign(place) {
            return;
        }
        let track = tracked_run.shape(place);
        let mut evidence: Vec<Evidence> = track.evidence.iter().map(Sighting::evidence).collect();
        close_evidence(&mut evidence, arrival, by, self.registry.limits.evidence_events_max as usize);
        let Some(case) = self.case(arrival, serial, run, place, true) else { return };
        self.respond(&case, evidence, effects);
    }

    /// The case of a place in a run.
    fn case<'a>(
        &self,
        arrival: &Arrival<'a>,
        serial: Serial,
        run: usize,
        place: Place,
        exhausted: bool,
    ) -> Option<Case<'a>> {
        let event = arrival.event;
        let run = &self.table.get(serial)?.runs[run];
        let graph = self.graph_of(event);
        let node = run.node(place).name.as_deref();
        let signature = signature_of(event, graph, run, place, exhausted);
        let irreversible = run.irreversible
            || run.is_ambiguous()
            || (self.guards.irreversible_unknown(self.now)
                && node.is_some_and(|node| graph.is_some_and(|graph| graph.is_past_irreversible(node))))
            || self.may_have_happened(event);
        let fingerprint = signature.fingerprint(&event.graph);
        Some(Case { arrival: *arrival, serial, signature, fingerprint, irreversible })
    }

    /// What decides the shape of a failure; none where it is an interrupt, an approval or a deferral: counted only.
    fn facts_of(&mut self, event: &Event<'_>) -> Option<Facts> {
        let facts = Facts::of(event.event_type.as_str(), event.error.as_ref());
        let interrupt = facts.is_interrupt(&self.registry.defaults);
        self.counts.interrupts += u64::from(interrupt);
        (!interrupt).then_some(facts)
    }

    /// The registered graph that was running.
    fn graph_of(&self, event: &Event<'_>) -> Option<&Graph> {
        self.registry.graph(event.running_schema().as_deref(), &event.graph)
    }

    /// Whether a mutating step failed with an unknown outcome: it must not be run around, for it may have happened.
    fn may_have_happened(&self, event: &Event<'_>) -> bool {
        let ambiguous = event.failure.as_ref().is_some_and(|failure| failure.class == Some(FailureClass::Ambiguous));
        let mutating = || {
            let node = self.graph_of(event).zip(event.node.as_deref()).and_then(|(graph, node)| graph.nodes.get(node));
            node.is_some_and(|node| node.mutating)
        };
        ambiguous && (event.side_effect == Some(true) || mutating())
    }

    fn count_failure(&mut self, event: &Event<'_>, failure_shape: String, effects: &mut Effects) {
        self.counts.failures += u64::from(*event.route() != Route::Shadow);
        effects.observations.push(Observation::Failure(Box::new(FailureRow {
            graph: event.graph.to_string(),
            node: event.node.as_deref().map(str::to_owned),
            failure_shape,
            session_id: event.session_id.to_string(),
            route: event.route().clone(),
        })));
    }
}

/// The signature of a place in a run.
fn signature_of(event: &Event<'_>, graph: Option<&Graph>, run: &Run, place: Place, exhausted: bool) -> Signature {
    let node = run.node(place).name.as_deref();
    Signature {
        node: node.map(str::to_owned),
        failure_shape: run.shape(place).shape.as_ref().to_owned(),
        retry_budget_exhausted: exhausted,
        required_artifact_present: artifact_present(event, graph, node, |artifact| run.has_produced(artifact)),
        scope: String::from("session"),
    }
}

/// Whether the runtime itself gave up: its retry state where present, else the attempt.
fn budget_spent(event: &Event<'_>) -> Option<String> {
    match (&event.retry_state, event.attempt, event.max_attempts) {
        (Some(state), ..) => state.is_exhausted().then(|| state.as_str().to_owned()),
        // Zero means "no maximum" in more than one runtime.
        (None, Some(attempt), Some(max)) if max > 0 && attempt >= max => Some(exhausted_by::MAX_ATTEMPTS.to_owned()),
        _ => None,
    }
}

/// Evidence ends with the triggering event, which says what spent the budget.
fn close_evidence(evidence: &mut Vec<Evidence>, arrival: &Arrival<'_>, by: &str, evidence_max: usize) {
    let trigger = Evidence { exhausted_by: Some(by.to_owned()), ..arrival.position.evidence(&arrival.event.event_id) };
    match evidence.last_mut() {
        Some(last) if last.offset == trigger.offset && last.topic == trigger.topic => *last = trigger,
        _ => {
            if evidence.len() >= evidence_max.max(1) {
                evidence.remove(0);
            }
            evidence.push(trigger);
        }
    }
}

/// Null where no required artifact is registered; else the event's own word, else whether the run produced it since
/// its first failure.
fn artifact_present(
    event: &Event<'_>,
    graph: Option<&Graph>,
    node: Option<&str>,
    produced: impl Fn(&str) -> bool,
) -> Option<bool> {
    let facts = graph?.nodes.get(node?)?;
    let required = facts.artifact.as_deref().filter(|_| facts.required)?;
    let own = event.artifact.as_ref().filter(|own| own.name.as_deref().is_none_or(|name| name == required));
    own.and_then(|own| own.present).or_else(|| Some(produced(required)))
}

/// Nodes of any graph that are irreversible and have a successor: a cheap first look for healthy events.
pub(crate) fn irreversible_nodes(registry: &Registry) -> std::collections::BTreeSet<String> {
    let graphs = registry.graphs.values();
    let nodes = graphs.flat_map(|graph| graph.nodes.iter().map(move |(name, node)| (graph, name, node)));
    let followed = nodes.filter(|(graph, name, node)| node.irreversible && graph.has_successor(name));
    followed.map(|(_, name, _)| name.clone()).collect()
}
