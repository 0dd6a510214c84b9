//! Observations: what a session task saw and publishes nothing about, for the replay report.

use crate::record::event::Route;

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
}
