//! Life of an intervention: pending, then refused, observed, proposed, or provisioned and applied. Each transition is a
//! record of its own, all in one transaction, so that no crash leaves a state nobody can explain.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::record::canonical_json;
use crate::record::intervention::{Action, Intervention, InterventionKind, InterventionStatus as Status, Proposal};
use crate::record::output::{Output, Record};
use crate::record::position::Evidence;
use crate::record::scope::Scope;
use crate::record::task::Effects;
use crate::record::task::chain::Transition;
use crate::record::topic::Topic;
use crate::registry::{Mode, Response, Signal};
use crate::session::deadlines::Due;
use crate::session::guards::Limit;
use crate::session::response::{Case, Plan};
use crate::session::table::Serial;
use crate::session::{Session, ids};

/// An intervention that waits for a person, with what approval would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The record as last published.
    pub intervention: Intervention,
    /// What approval would do.
    pub plan: Plan,
    /// The override it would replace, on the degraded route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ids::Key>,
}

/// Why a transition happened.
#[derive(Clone, Default)]
pub struct Why<'a> {
    /// The reason recorded.
    pub reason: Option<&'a str>,
    /// Who, where a person decided.
    pub author: Option<&'a str>,
    /// The input that caused it; none for deadlines.
    pub cause: Option<Evidence>,
}

/// Why an intervention is refused, in the order in which it is looked for.
enum Refusal {
    NoResponse,
    Irreversible,
    Limit(Limit),
    Frozen,
}

impl Refusal {
    fn reason(&self) -> String {
        match self {
            Self::NoResponse => String::from("no_response"),
            Self::Irreversible => String::from("irreversible"),
            Self::Limit(name) => format!("limit:{name}"),
            Self::Frozen => String::from("frozen"),
        }
    }

    /// Whether a person must take over.
    fn escalates(&self) -> bool {
        match self {
            Self::Irreversible => true,
            Self::Limit(name) => *name == PER_SESSION,
            Self::NoResponse | Self::Frozen => false,
        }
    }
}

const PER_SESSION: Limit = "interventions_per_session_max";
const PER_MINUTE: Limit = "interventions_per_minute_max";
const OVERRIDES_LIVE: Limit = "session_overrides_live_max";

impl Session {
    /// Records an intervention and takes it as far as its signal's mode and the guards allow. `replaces` is the live
    /// override of a session that failed on its degraded route.
    pub(crate) fn intervene(
        &mut self,
        case: &Case<'_>,
        signal: &Signal,
        response: Option<&Response>,
        evidence: Vec<Evidence>,
        replaces: Option<ids::Key>,
        effects: &mut Effects,
    ) {
        let mut intervention = self.pending(case, signal, evidence, effects);
        let plan = match self.refusal(case, signal.mode, response, replaces.is_some()) {
            Ok(response) => Plan::of(response),
            Err(refusal) => {
                self.refuse(case, signal, intervention, &refusal, effects);
                return;
            }
        };
        self.guards.interventions.add(self.now, case.arrival.event.tenant.as_deref());
        if let Some(tracked) = self.table.get_mut(case.serial) {
            tracked.interventions += 1;
        }
        intervention.response = Some(plan.action.clone());
        let why = Why { cause: Some(case.cause()), ..Why::default() };
        match signal.mode {
            Mode::Observe => {
                self.counts.observed += 1;
                self.advance_intervention(&mut intervention, Status::Observed, why, effects);
            }
            Mode::Propose => self.propose(case.serial, Waiting { intervention, plan, replaces }, why, effects),
            Mode::Act => self.apply(case.serial, intervention, &plan, replaces, &why, effects),
        }
    }

    /// The record `pending`, before anything else.
    fn pending(
        &mut self,
        case: &Case<'_>,
        signal: &Signal,
        evidence: Vec<Evidence>,
        effects: &mut Effects,
    ) -> Intervention {
        let event = case.arrival.event;
        let mut intervention = Intervention {
            intervention_id: ids::intervention(&case.name()),
            kind: InterventionKind::Session,
            signal: signal.code.clone(),
            signature: case.signature.clone(),
            fingerprint: case.fingerprint.clone(),
            scope: Scope::session(&event.session_id),
            tenant: event.tenant.as_deref().map(str::to_owned),
            run_id: event.run_id.as_deref().map(str::to_owned),
            graph: event.graph.to_string(),
            status: Status::Pending,
            reason: None,
            response: None,
            proposal: None,
            author: None,
            override_id: None,
            evidence,
            revision: 0,
            created_at: self.now,
            updated_at: self.now,
            registry_version: self.registry.version.clone(),
        };
        self.counts.interventions += 1;
        let why = Why { cause: Some(case.cause()), ..Why::default() };
        self.advance_intervention(&mut intervention, Status::Pending, why, effects);
        intervention
    }

    /// Whether the case is refused; refusals hold in every mode and use up no limit.
    fn refusal<'r>(
        &mut self,
        case: &Case<'_>,
        mode: Mode,
        response: Option<&'r Response>,
        replaces: bool,
    ) -> Result<&'r Response, Refusal> {
        let response = response.ok_or(Refusal::NoResponse)?;
        if case.irreversible {
            return Err(Refusal::Irreversible);
        }
        let tenant = case.arrival.event.tenant.as_deref();
        let limits = &self.registry.limits;
        let of_session = self.table.get(case.serial).map_or(0, |tracked| tracked.interventions);
        if of_session >= limits.interventions_per_session_max {
            return Err(Refusal::Limit(PER_SESSION));
        }
        if !self.guards.interventions.admits(self.now, limits.interventions_per_minute_max, tenant) {
            return Err(Refusal::Limit(PER_MINUTE));
        }
        if !replaces && !self.guards.overrides_live.admits(limits.session_overrides_live_max, tenant) {
            return Err(Refusal::Limit(OVERRIDES_LIVE));
        }
        // Observing and asking are no automation: a freeze stops acting only.
        if self.frozen && mode == Mode::Act { Err(Refusal::Frozen) } else { Ok(response) }
    }

    fn refuse(
        &mut self,
        case: &Case<'_>,
        signal: &Signal,
        mut intervention: Intervention,
        refusal: &Refusal,
        effects: &mut Effects,
    ) {
        self.counts.refused += 1;
        self.counts.limited += u64::from(matches!(refusal, Refusal::Limit(_)));
        let reason = refusal.reason();
        let why = Why { reason: Some(&reason), cause: Some(case.cause()), author: None };
        self.advance_intervention(&mut intervention, Status::Failed, why, effects);
        if refusal.escalates() {
            let id = intervention.intervention_id;
            self.escalate(case, Some(signal), &reason, Some(&id), None, intervention.evidence, effects);
        }
    }

    /// Asks a person; lapses after `approval_ms_max`.
    fn propose(&mut self, serial: Serial, mut waiting: Waiting, why: Why<'_>, effects: &mut Effects) {
        let expires_at = self.now.plus(Duration::from_millis(self.registry.limits.approval_ms_max));
        let content_hash = content_hash(&waiting.intervention, &waiting.plan);
        waiting.intervention.proposal = Some(Proposal { content_hash, expires_at });
        self.counts.proposed += 1;
        self.advance_intervention(&mut waiting.intervention, Status::AwaitingApproval, why, effects);
        if let Some(key) = ids::intervention_key(&waiting.intervention.intervention_id) {
            self.table.deadlines.schedule(expires_at, serial, Due::Proposal(key));
        }
        if let Some(tracked) = self.table.get_mut(serial) {
            tracked.waiting.push(waiting);
        }
    }

    /// Takes a waiting proposal out of the session.
    pub(crate) fn take_waiting(&mut self, serial: Serial, id: &str) -> Option<Waiting> {
        let tracked = self.table.get_mut(serial)?;
        let index = tracked.waiting.iter().position(|waiting| waiting.intervention.intervention_id == id)?;
        let waiting = tracked.waiting.remove(index);
        if let (Some(proposal), Some(key)) = (&waiting.intervention.proposal, ids::intervention_key(id)) {
            self.table.deadlines.cancel(proposal.expires_at, serial, Due::Proposal(key));
        }
        Some(waiting)
    }

    /// Ends a waiting proposal without doing what it proposed.
    pub(crate) fn drop_waiting(&mut self, mut waiting: Waiting, status: Status, why: Why<'_>, effects: &mut Effects) {
        let count = match status {
            Status::Rejected => &mut self.counts.rejected,
            Status::Expired => &mut self.counts.expired,
            _ => &mut self.counts.refused,
        };
        *count += 1;
        self.advance_intervention(&mut waiting.intervention, status, why, effects);
    }

    /// Provisioning, the override, applied.
    pub(crate) fn apply(
        &mut self,
        serial: Serial,
        mut intervention: Intervention,
        plan: &Plan,
        replaces: Option<ids::Key>,
        why: &Why<'_>,
        effects: &mut Effects,
    ) {
        self.advance_intervention(&mut intervention, Status::Provisioning, why.clone(), effects);
        let id = self.publish_override(serial, &intervention, plan, replaces, why, effects);
        intervention.override_id = Some(id);
        self.counts.applied += 1;
        self.advance_intervention(&mut intervention, Status::Applied, why.clone(), effects);
    }

    /// The next state of an intervention: its record and its audit line.
    fn advance_intervention(
        &mut self,
        intervention: &mut Intervention,
        status: Status,
        why: Why<'_>,
        effects: &mut Effects,
    ) {
        let from = (intervention.revision > 0).then(|| intervention.status.clone());
        debug_assert!(is_legal(from.as_ref(), &status), "{from:?} -> {status}");
        intervention.status = status;
        intervention.reason = why.reason.map(str::to_owned);
        intervention.author = why.author.map(str::to_owned);
        intervention.revision += 1;
        intervention.updated_at = self.now;
        effects.outputs.push(Output {
            at: self.now,
            topic: Topic::Interventions,
            key: intervention.intervention_id.clone(),
            value: Some(Record::Intervention(Box::new(intervention.clone()))),
        });
        let transition = Transition {
            entity: "intervention",
            entity_id: &intervention.intervention_id,
            from: from.as_ref().map(Status::as_str),
            to: intervention.status.as_str(),
            reason: why.reason,
            author: why.author,
            cause: why.cause,
        };
        effects.outputs.push(self.chain.record(self.now, transition));
        effects.urgent = true;
    }
}

/// The table of legal edges of an intervention's life.
pub const EDGES: [(Option<Status>, Status); 10] = [
    (None, Status::Pending),
    (Some(Status::Pending), Status::AwaitingApproval),
    (Some(Status::Pending), Status::Provisioning),
    (Some(Status::Pending), Status::Observed),
    (Some(Status::Pending), Status::Failed),
    (Some(Status::AwaitingApproval), Status::Provisioning),
    (Some(Status::AwaitingApproval), Status::Rejected),
    (Some(Status::AwaitingApproval), Status::Expired),
    (Some(Status::AwaitingApproval), Status::Failed),
    (Some(Status::Provisioning), Status::Applied),
];

/// Whether an edge is in [`EDGES`].
#[must_use]
pub fn is_legal(from: Option<&Status>, to: &Status) -> bool {
    EDGES.iter().any(|(legal_from, legal_to)| legal_from.as_ref() == from && legal_to == to)
}

/// Hash an approval is bound to: what would be done and to whom, never the evidence.
fn content_hash(intervention: &Intervention, plan: &Plan) -> String {
    #[derive(Serialize)]
    struct Content<'a> {
        graph: &'a str,
        scope: &'a Scope,
        tenant: Option<&'a str>,
        response: &'a Action,
        resume: &'a Option<crate::record::overrides::Resume>,
        ttl_ms: u64,
    }
    let content = Content {
        graph: &intervention.graph,
        scope: &intervention.scope,
        tenant: intervention.tenant.as_deref(),
        response: &plan.action,
        resume: &plan.resume,
        ttl_ms: u64::try_from(plan.ttl.as_millis()).unwrap_or(u64::MAX),
    };
    blake3::hash(&canonical_json(&content)).to_hex().to_string()
}
