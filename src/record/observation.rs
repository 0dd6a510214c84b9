//! Observations: what a session task saw, for the fleet and for the replay report.

use std::collections::BTreeMap;

use crate::record::event::Route;
use crate::record::position::Evidence;
use crate::record::signature::Signature;

/// One signature of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct SignatureRow {
    /// The graph as given to `resolve`.
    pub graph: String,
    /// The signature.
    pub signature: Signature,
    /// Its fingerprint.
    pub fingerprint: String,
    /// Code of the matching signal.
    pub signal: Option<String>,
    /// The session.
    pub session_id: String,
    /// Its tenant.
    pub tenant: Option<String>,
    /// The run.
    pub run_id: Option<String>,
    /// Cohort dimensions of the event that have a value.
    pub dimensions: BTreeMap<String, String>,
    /// The schema that was running.
    pub schema_ref: Option<String>,
    /// The route it was running on.
    pub route: Route,
    /// The override it was running under.
    pub override_id: Option<String>,
    /// That override's attempt.
    pub override_attempt: Option<u32>,
    /// The event that made it.
    pub position: Evidence,
}

/// One failure event, before any trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureRow {
    /// The graph as given to `resolve`.
    pub graph: String,
    /// The failing node.
    pub node: Option<String>,
    /// Its shape.
    pub failure_shape: String,
    /// The session.
    pub session_id: String,
    /// The route it was running on.
    pub route: Route,
}

/// What a task saw in one step.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// A failure.
    Failure(Box<FailureRow>),
    /// A signature; `retry_budget_exhausted` tells the first failure of a run from an exhausted one.
    Signature(Box<SignatureRow>),
}
