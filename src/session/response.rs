//! From a signature to what answers it: attach, escalate, refuse, observe, propose or act.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::record::escalation::Escalation;
use crate::record::event::Route;
use crate::record::fleet::{FleetRecord, OTHER, SignatureRow};
use crate::record::intervention::Action;
use crate::record::output::{Output, Record};
use crate::record::overrides::{OverrideKind, Resume};
use crate::record::position::{Evidence, Place};
use crate::record::signature::Signature;
use crate::record::task::Effects;
use crate::record::task::chain::Transition;
use crate::record::topic::Topic;
use crate::registry::{Response, Signal};
use crate::session::ids;
use crate::session::table::Serial;
use crate::session::{Arrival, Session};

/// One signature of one run, and what a decision about it needs.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The event that made it.
    pub arrival: Arrival<'a>,
    /// Its session.
    pub serial: Serial,
    /// The signature.
    pub signature: Signature,
    /// Its fingerprint.
    pub fingerprint: String,
    /// Whether the run must not be rerouted any more.
    pub irreversible: bool,
}

/// What of a response is kept once it is decided: later registry versions affect only new interventions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The action as recorded.
    pub action: Action,
    /// When the run may re-enter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// Life of the override.
    pub ttl: Duration,
}

impl Plan {
    /// The plan of a registered response.
    #[must_use]
    pub fn of(response: &Response) -> Self {
        let action = Action {
            action: response.name.clone(),
            kind: response.kind.clone(),
            schema_ref: response.schema_ref.clone(),
            entry_point: response.entry_point.clone(),
        };
        Self { action, resume: response.resume.clone(), ttl: response.ttl }
    }
}

impl Case<'_> {
    /// The name everything that follows from this case derives its ids from.
    #[must_use]
    pub fn name(&self) -> ids::Name<'_> {
        let event = self.arrival.event;
        ids::Name {
            tenant: event.tenant.as_deref(),
            session_id: &event.session_id,
            graph: &event.graph,
            fingerprint: &self.fingerprint,
            event_id: &event.event_id,
        }
    }

    /// The triggering event as evidence.
    #[must_use]
    pub fn cause(&self) -> Evidence {
        self.arrival.position.evidence(&self.arrival.event.event_id)
    }
}

/// Where a case meets what is already being done for its session and graph.
enum Standing {
    /// Nothing yet.
    Free,
    /// An override lives, or a proposal waits: (entity, id, state).
    Attached(&'static str, String, &'static str),
    /// A failure on the degraded route of the session's own override (by index).
    OwnDegraded(usize),
    /// A failure on a degraded route without an override of its own.
    StrayDegraded,
}

impl Session {
    /// Responds to an exhausted signature; `evidence` ends with the triggering event.
    pub(crate) fn respond(&mut self, case: &Case<'_>, evidence: Vec<Evidence>, effects: &mut Effects) {
        let registry = self.registry.clone();
        let signal = registry.signal_for(&case.arrival.event.graph, &case.signature);
        if let Some(position) = evidence.last() {
            self.observe(case, signal, position.clone(), effects);
        }
        if *case.arrival.event.route() == Route::Shadow {
            return;
        }
        self.counts.signatures += 1;
        if signal.is_none() {
            self.counts.unmatched += 1;
        }
        if case.arrival.stale {
            self.counts.stale += 1;
            return;
        }
        match self.standing(case) {
            Standing::Free => {
                if let Some(signal) = signal {
                    let response = registry.session_response(&signal.code, case.arrival.event.route());
                    self.intervene(case, signal, response, evidence, None, effects);
                }
            }
            Standing::Attached(entity, id, state) => self.attach(case, entity, &id, state, effects),
            Standing::OwnDegraded(index) => self.chain_or_escalate(case, signal, index, evidence, effects),
            Standing::StrayDegraded => {
                self.counts.attached += 1;
                self.escalate(case, signal, "degraded_route_failed", None, None, evidence, effects);
            }
        }
    }

    fn standing(&self, case: &Case<'_>) -> Standing {
        let event = case.arrival.event;
        let Some(tracked) = self.table.get(case.serial) else { return Standing::Free };
        let live = tracked.overrides.iter().position(|live| *live.graph == *event.graph);
        let is_own = |index: &usize| {
            let id = tracked.overrides[*index].id;
            event.override_id.as_deref().is_none_or(|running_under| ids::override_key(running_under) == Some(id))
        };
        let waiting = tracked.waiting.iter().find(|waiting| waiting.intervention.graph == event.graph.as_str());
        let asked = waiting.map(|waiting| {
            let id = waiting.intervention.intervention_id.clone();
            Standing::Attached("intervention", id, "awaiting_approval")
        });
        match (event.route(), live) {
            (Route::Degraded, Some(index)) if is_own(&index) => asked.unwrap_or(Standing::OwnDegraded(index)),
            (Route::Degraded, _) => Standing::StrayDegraded,
            (_, Some(index)) => Standing::Attached("override", ids::of_override(tracked.overrides[index].id), "active"),
            (_, None) => asked.unwrap_or(Standing::Free),
        }
    }

    /// Attached: an audit line and a counter, no intervention.
    fn attach(&mut self, case: &Case<'_>, entity: &str, id: &str, state: &str, effects: &mut Effects) {
        self.counts.attached += 1;
        let reason = format!("attached:{}", case.fingerprint);
        let transition = Transition {
            entity,
            entity_id: id,
            from: Some(state),
            to: state,
            reason: Some(&reason),
            author: None,
            cause: Some(case.cause()),
        };
        effects.outputs.push(self.chain.record(self.now, transition));
    }

    /// A failure on the degraded route never goes back to the primary: the chained response, else a person.
    fn chain_or_escalate(
        &mut self,
        case: &Case<'_>,
        signal: Option<&Signal>,
        index: usize,
        evidence: Vec<Evidence>,
        effects: &mut Effects,
    ) {
        let registry = self.registry.clone();
        let Some(live) = self.table.get(case.serial).map(|tracked| &tracked.overrides[index]) else { return };
        let chained = signal.and_then(|signal| {
            let response = registry.session_response(&signal.code, &Route::Degraded)?;
            let moves =
                response.schema_ref.as_deref() != live.schema_ref.as_deref() || response.kind == OverrideKind::Pause;
            moves.then_some((signal, response))
        });
        let key = live.id;
        if let Some((signal, response)) = chained {
            self.intervene(case, signal, Some(response), evidence, Some(key), effects);
        } else {
            let id = ids::of_override(key);
            self.attach(case, "override", &id, "active", effects);
            self.escalate(case, signal, "degraded_route_failed", None, Some(&id), evidence, effects);
        }
    }

    /// Hands the case to people.
    #[expect(clippy::too_many_arguments, reason = "each names one field of the record")]
    pub(crate) fn escalate(
        &mut self,
        case: &Case<'_>,
        signal: Option<&Signal>,
        reason: &str,
        intervention_id: Option<&str>,
        override_id: Option<&str>,
        evidence: Vec<Evidence>,
        effects: &mut Effects,
    ) {
        let event = case.arrival.event;
        let escalation = Escalation {
            escalation_id: ids::escalation(&case.name()),
            reason: reason.to_owned(),
            session_id: event.session_id.to_string(),
            tenant: event.tenant.as_deref().map(str::to_owned),
            run_id: event.run_id.as_deref().map(str::to_owned),
            graph: event.graph.to_string(),
            signal: signal.map(|signal| signal.code.clone()),
            signature: case.signature.clone(),
            fingerprint: case.fingerprint.clone(),
            intervention_id: intervention_id.map(str::to_owned),
            override_id: override_id.map(str::to_owned),
            next_step: next_step(reason).to_owned(),
            evidence,
            created_at: self.now,
        };
        let id = escalation.escalation_id.clone();
        effects.outputs.push(Output {
            at: self.now,
            topic: Topic::Escalations,
            key: escalation.session_id.clone(),
            value: Some(Record::Escalation(Box::new(escalation))),
        });
        let transition = Transition {
            entity: "escalation",
            entity_id: &id,
            from: None,
            to: "raised",
            reason: Some(reason),
            author: None,
            cause: Some(case.cause()),
        };
        effects.outputs.push(self.chain.record(self.now, transition));
        effects.urgent = true;
        self.counts.escalations += 1;
    }

    /// Notes a signature for the fleet; `position` is that of the event that made it.
    pub(crate) fn observe(&self, case: &Case<'_>, signal: Option<&Signal>, position: Evidence, effects: &mut Effects) {
        let event = case.arrival.event;
        let value_bytes_max = self.registry.limits.field_bytes_max as usize;
        let dimensions = self.dimensions.iter().filter_map(|dimension| {
            let value = event.dimension(dimension)?;
            let value = if value.len() > value_bytes_max { OTHER.to_owned() } else { value.into_owned() };
            Some((dimension.clone(), value))
        });
        let Evidence { topic, partition, offset, event_id, exhausted_by } = position;
        let row = SignatureRow {
            graph: event.graph.to_string(),
            source: self.task.clone(),
            source_watermark: self.now,
            signature: case.signature.clone(),
            fingerprint: case.fingerprint.clone(),
            signal: signal.map(|signal| signal.code.clone()),
            session_id: event.session_id.to_string(),
            tenant: event.tenant.as_deref().map(str::to_owned),
            run_id: event.run_id.as_deref().map(str::to_owned),
            dimensions: dimensions.collect(),
            schema_ref: event.running_schema().map(std::borrow::Cow::into_owned),
            route: event.route().clone(),
            override_id: event.override_id.as_deref().map(str::to_owned),
            override_attempt: event.override_attempt,
            event_id,
            position: Place { topic, partition, offset },
            exhausted_by,
        };
        effects.outputs.push(self.to_fleet(FleetRecord::Signature(row)));
    }
}

fn next_step(reason: &str) -> &'static str {
    match reason {
        "irreversible" => "the run is past an irreversible action, or one of unknown outcome: settle it by hand",
        "degraded_route_failed" => "the degraded route failed and no other is registered: take the session over",
        _ => "automation reached its limit for this session: take the session over",
    }
}
