//! Commands: what people decide. Strict on purpose: a command that is not understood is refused, never guessed.

use serde::{Deserialize, Serialize};

use crate::record::overrides::OverrideKind;
use crate::record::scope::Scope;

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Remove a live override.
    Lift,
    /// Approve a waiting proposal.
    Approve,
    /// Reject a waiting proposal.
    Reject,
    /// Stop all new automation of a task; lifting and expiring go on.
    Freeze,
    /// Let automation go on.
    Unfreeze,
    /// Decide by another version of the registry; the target is the version.
    Activate,
    /// Run one schema in a cohort, whatever else says.
    Force,
    /// Run the global schema in a cohort, whatever else says.
    Deny,
}

impl Verb {
    /// The word as it stands in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lift => "lift",
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Freeze => "freeze",
            Self::Unfreeze => "unfreeze",
            Self::Activate => "activate",
            Self::Force => "force",
            Self::Deny => "deny",
        }
    }
}

/// One decision; keyed by the owner's key (session scope: the session id).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Unique; a command id seen before changes nothing.
    pub command_id: String,
    /// What to do.
    pub verb: Verb,
    /// What to do it to: an override id (lift), an intervention id (approve, reject), `*` (freeze, unfreeze), a registry
    /// version (activate), a graph (force, deny).
    pub target: String,
    /// approve: the proposal's hash; another hash is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// force, deny: the override to publish.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Why, in the author's words.
    pub reason: String,
    /// Who decided.
    pub author: String,
}

/// What an override that a person orders says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Whom it covers: a cohort; one without dimensions is the whole graph.
    pub scope: Scope,
    /// force: run `schema_ref`, or wait.
    #[serde(default = "Order::replace")]
    pub kind: OverrideKind,
    /// force: the schema to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_ref: Option<String>,
    /// How long it is to live. Milliseconds.
    pub ttl_ms: u64,
}

impl Order {
    fn replace() -> OverrideKind {
        OverrideKind::Replace
    }
}
