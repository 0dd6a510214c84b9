//! Escalations: packages for people where automation must not go on.

use serde::{Deserialize, Serialize};

use crate::record::position::Evidence;
use crate::record::signature::Signature;
use crate::record::time::Timestamp;

/// One escalation; the topic's key is the session id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    /// `esc_` and a uuid v5 over (tenant, session, graph, fingerprint, triggering event).
    pub escalation_id: String,
    /// `irreversible`, `degraded_route_failed`, or `limit:NAME`.
    pub reason: String,
    /// The session that needs a person.
    pub session_id: String,
    /// Its tenant.
    pub tenant: Option<String>,
    /// The failing run.
    pub run_id: Option<String>,
    /// The graph as given to `resolve`.
    pub graph: String,
    /// Code of the signal, where one matched.
    pub signal: Option<String>,
    /// The failure.
    pub signature: Signature,
    /// Its fingerprint.
    pub fingerprint: String,
    /// The intervention that was refused, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervention_id: Option<String>,
    /// The override that lives, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_id: Option<String>,
    /// What a person is advised to do next.
    pub next_step: String,
    /// The failure's events, the triggering one last.
    pub evidence: Vec<Evidence>,
    /// When it was raised.
    pub created_at: Timestamp,
}
