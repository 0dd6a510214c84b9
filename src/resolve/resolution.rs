//! The answer: which schema, on which route, and why.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::record::event::Route;
use crate::record::overrides::OverrideKind;
use crate::resolve::context::Context;

/// Name of a schema, borrowed; the global one is not put together until it is printed.
#[derive(Clone, Copy, Debug)]
pub enum SchemaRef<'a> {
    /// `GRAPH:VERSION`, the schema of the graph as released.
    Global {
        /// The graph as given to `resolve`.
        graph: &'a str,
        /// The context's `graph_version`; empty where it has none.
        version: &'a str,
    },
    /// As an override or the context names it; it may be the global one too.
    Named(&'a str),
}

impl<'a> SchemaRef<'a> {
    /// The global schema of a context.
    #[must_use]
    pub fn global(graph: &'a str, context: &'a Context) -> Self {
        Self::Global { graph, version: context.graph_version.as_deref().unwrap_or("") }
    }

    /// Whether it has this name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        match *self {
            Self::Global { graph, version } => {
                name.strip_prefix(graph).and_then(|rest| rest.strip_prefix(':')) == Some(version)
            }
            Self::Named(own) => own == name,
        }
    }
}

impl PartialEq for SchemaRef<'_> {
    /// By name, however it is put together.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (any, Self::Named(name)) | (Self::Named(name), any) => any.is(name),
            (Self::Global { graph, version }, Self::Global { graph: graph2, version: version2 }) => {
                (graph, version) == (graph2, version2) || self.to_string() == other.to_string()
            }
        }
    }
}

impl Eq for SchemaRef<'_> {}

impl fmt::Display for SchemaRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global { graph, version } => write!(f, "{graph}:{version}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl Serialize for SchemaRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No record matched.
    Default,
    /// An operator's deny.
    Deny,
    /// An operator's force.
    Force,
    /// A record of the session.
    Session,
    /// A record of a cohort the session belongs to.
    Cohort,
    /// A trial that selected the session.
    Trial,
    /// The run keeps the schema it has.
    Current,
}

/// One answer; absent values are null in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resolution<'a> {
    /// The schema to run.
    pub schema_ref: SchemaRef<'a>,
    /// The node where a failed run goes on.
    pub entry_point: Option<&'a str>,
    /// Primary, degraded or trial: the word to put on events.
    pub route: Route,
    /// The side-effect-free copy to run beside it.
    pub shadow_schema_ref: Option<&'a str>,
    /// The override that decided: the id to put on events.
    pub override_id: Option<&'a str>,
    /// Its attempt.
    pub override_attempt: Option<u32>,
    /// Replace, or pause: wait and do not run the graph.
    pub kind: OverrideKind,
    /// What decided.
    pub reason: Reason,
    /// Ids of the matching records that lost, best first; filled by `explain` only.
    pub losers: Vec<&'a str>,
}

impl<'a> Resolution<'a> {
    pub(super) fn without_override(schema_ref: SchemaRef<'a>, route: Route, reason: Reason) -> Self {
        Self {
            schema_ref,
            entry_point: None,
            route,
            shadow_schema_ref: None,
            override_id: None,
            override_attempt: None,
            kind: OverrideKind::Replace,
            reason,
            losers: Vec::new(),
        }
    }
}
