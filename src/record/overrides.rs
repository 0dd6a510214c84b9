//! Overrides: what runtimes resolve against. The topic holds live records only; a tombstone removes one.

use serde::{Deserialize, Serialize};

use crate::record::scope::Scope;
use crate::record::time::Timestamp;
use crate::record::{canonical_json, canonical_json_of_sorted, open_enum};

open_enum! {
    /// Who made the override.
    pub enum OverrideSource {
        /// The engine, by a registered response.
        Auto = "auto",
        /// A person, by a command.
        Operator = "operator",
    }
}

open_enum! {
    /// What the runtime does with it.
    pub enum OverrideKind {
        /// Run `schema_ref` instead.
        Replace = "replace",
        /// Wait; do not run the graph.
        Pause = "pause",
    }
}

open_enum! {
    /// Status on the topic: live records only.
    pub enum OverrideStatus {
        /// In force until `expires_at`.
        Active = "active",
    }
}

open_enum! {
    /// How sessions in scope are routed.
    pub enum OverrideMode {
        /// Everybody on the degraded route.
        Degraded = "degraded",
        /// A stable subset back on the original path.
        Trial = "trial",
        /// Operator: this `schema_ref`, whatever else says.
        Force = "force",
        /// Operator: the global schema, whatever else says.
        Deny = "deny",
    }
}

/// Conditions under which a run may continue on the degraded graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// The node whose completion the degraded graph builds on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Channels that must hold collected state.
    #[serde(default)]
    pub requires_channels: Vec<String>,
    /// Channels to clear first.
    #[serde(default)]
    pub reset_channels: Vec<String>,
    /// Schemas a run may come from.
    #[serde(default)]
    pub compatible_from: Vec<String>,
}

/// The shadow of a cohort override.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shadow {
    /// The side-effect-free copy of the original path.
    pub schema_ref: String,
    /// `pending`, `active` or `stopped`.
    pub status: String,
    /// Share of sessions that also run it, in percent.
    pub probe_percentage: f64,
    /// Always `deterministic`.
    pub selection: String,
    /// Always `disabled`.
    pub side_effects: String,
}

/// One live override; the topic's key is [`Override::key`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Override {
    /// `ovr_` and a uuid v5; kept over chained replacements.
    pub override_id: String,
    /// The graph as given to `resolve`.
    pub graph: String,
    /// Whom it covers.
    pub scope: Scope,
    /// Tenant of the session; null: every tenant.
    pub tenant: Option<String>,
    /// The run that failed.
    #[serde(default)]
    pub run_id: Option<String>,
    /// Engine or operator.
    pub source: OverrideSource,
    /// Replace or pause; missing means replace.
    #[serde(default = "replace")]
    pub kind: OverrideKind,
    /// The degraded route: the only schema readers use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_ref: Option<String>,
    /// Where a failed run re-enters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_point: Option<String>,
    /// When a failed run may re-enter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// Cohort: the original path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_schema_ref: Option<String>,
    /// Cohort: the shadow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Shadow>,
    /// Cohort: copy of the shadow's schema beside `schema_ref`; unequal copies are invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow_schema_ref: Option<String>,
    /// Trial: equal to `schema_ref`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_schema_ref: Option<String>,
    /// Trial: the original path, for the selected sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_schema_ref: Option<String>,
    /// Trial: share of sessions on the candidate, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_percentage: Option<f64>,
    /// Trial: always `deterministic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<String>,
    /// Salt of the selection; a new attempt uses a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_salt: Option<String>,
    /// Always active on the topic.
    pub status: OverrideStatus,
    /// Degraded, trial, force or deny.
    pub mode: OverrideMode,
    /// One more on revert, supersession or chained replacement.
    pub attempt: u32,
    /// One more with each publication, from 1.
    pub revision: u32,
    /// The intervention that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervention_id: Option<String>,
    /// Signal code, or the operator's words.
    pub reason: String,
    /// The operator, where one made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// When it was first published.
    pub created_at: Timestamp,
    /// Hard end, enforced by the runtime's own clock.
    pub expires_at: Timestamp,
}

fn replace() -> OverrideKind {
    OverrideKind::Replace
}

impl Override {
    /// The topic's key.
    #[must_use]
    pub fn key(&self) -> String {
        key(&self.graph, &self.scope, &self.source, self.tenant.as_deref())
    }
}

/// Key of an override on its topic: RFC 8785 JSON of graph, scope, source and tenant (or null).
#[must_use]
pub fn key(graph: &str, scope: &Scope, source: &OverrideSource, tenant: Option<&str>) -> String {
    #[derive(Serialize)]
    struct Key<'a> {
        graph: &'a str,
        scope: &'a Scope,
        source: &'a OverrideSource,
        tenant: Option<&'a str>,
    }
    let key = Key { graph, scope, source, tenant };
    let bytes = match scope {
        Scope::Session { .. } => canonical_json_of_sorted(&key),
        Scope::Cohort(_) | Scope::Unknown { .. } => canonical_json(&key),
    };
    String::from_utf8(bytes).unwrap_or_default()
}
