//! The Intervention Log: durable record that something is being done about a failure.

use serde::{Deserialize, Serialize};

use crate::record::open_enum;
use crate::record::overrides::OverrideKind;
use crate::record::position::Evidence;
use crate::record::scope::Scope;
use crate::record::signature::Signature;
use crate::record::time::Timestamp;

open_enum! {
    /// What an intervention is about.
    pub enum InterventionKind {
        /// One failing session.
        Session = "session",
        /// A cohort of sessions.
        Cohort = "cohort",
    }
}

open_enum! {
    /// Life of an intervention: pending, then (awaiting approval,) provisioning, applied; or one of the other ends.
    pub enum InterventionStatus {
        /// Recorded, before anything else is done.
        Pending = "pending",
        /// Waits for a person's decision.
        AwaitingApproval = "awaiting_approval",
        /// A response is attached; its override is being published.
        Provisioning = "provisioning",
        /// The override is published. The record never changes again.
        Applied = "applied",
        /// The signal's mode is `observe`: what would have been done, without doing it.
        Observed = "observed",
        /// A person said no.
        Rejected = "rejected",
        /// Nobody decided in time, or the session ended first.
        Expired = "expired",
        /// Refused, with a reason.
        Failed = "failed",
    }
}

/// The approved action attached to an intervention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Name of the registered response.
    pub action: String,
    /// Replace the graph, or pause the session.
    pub kind: OverrideKind,
    /// The degraded graph schema; absent where the kind needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_ref: Option<String>,
    /// The node to resume from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_point: Option<String>,
}

/// What a person is asked to approve; its `content_hash` binds the approval to exactly this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// blake3 (hex) of the canonical JSON of graph, scope, schema refs, policy and ttl; evidence never changes it.
    pub content_hash: String,
    /// When the proposal lapses.
    pub expires_at: Timestamp,
}

/// One state of an intervention; the topic's key is `intervention_id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intervention {
    /// `int_` and a uuid v5 over (tenant, session, graph, fingerprint, triggering event).
    pub intervention_id: String,
    /// Session or cohort.
    pub kind: InterventionKind,
    /// Code of the signal that matched.
    pub signal: String,
    /// The failure.
    pub signature: Signature,
    /// Its fingerprint.
    pub fingerprint: String,
    /// Whom it concerns.
    pub scope: Scope,
    /// Tenant of the session.
    pub tenant: Option<String>,
    /// The failing run.
    pub run_id: Option<String>,
    /// The graph as given to `resolve`.
    pub graph: String,
    /// Where it stands.
    pub status: InterventionStatus,
    /// Why it ended as it did; absent while it goes well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The response, once one is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Action>,
    /// What a person is asked to decide, while awaiting approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Proposal>,
    /// Who decided, where a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The override, once one is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_id: Option<String>,
    /// The failure's events, oldest first, the triggering event last.
    pub evidence: Vec<Evidence>,
    /// One more with each published state, from 1.
    pub revision: u32,
    /// When it was recorded as pending.
    pub created_at: Timestamp,
    /// When this state was reached.
    pub updated_at: Timestamp,
    /// Version of the registry that decided.
    pub registry_version: String,
}
