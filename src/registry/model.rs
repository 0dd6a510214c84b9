//! The validated registry: what the stages read.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::record::event::Route;
use crate::record::overrides::{OverrideKind, Resume};
use crate::registry::canonical;
use crate::registry::glob::Glob;
use crate::registry::limits::Limits;

/// One version of the whole registry. The default is none: without a version, with the default limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Registry {
    /// Content hash: blake3 (hex, first 32 digits) of [`Registry::canonical_json`], limits included.
    #[serde(skip)]
    pub version: String,
    /// Ordered; the first match wins.
    pub shapes: Vec<ShapeRule>,
    /// What holds where a table says nothing else.
    pub defaults: Defaults,
    /// Every named limit.
    pub limits: Limits,
    /// In registry order.
    pub signals: Vec<Signal>,
    /// In registry order.
    pub responses: Vec<Response>,
    /// By name.
    pub recovery_policies: Vec<RecoveryPolicy>,
    /// By `NAME:VERSION`.
    pub graphs: BTreeMap<String, Graph>,
}

/// Values that hold where a table says nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Defaults {
    /// Identical failures of one node and shape in a run that count as an exhausted retry budget; 0 = never.
    pub identical_failures: u32,
    /// Classes that say nothing: left out of a shape's DETAIL.
    pub generic_classes: Vec<String>,
    /// Classes of interrupts, approvals and deferrals: an event with one of them is no failure.
    pub interrupt_classes: Vec<Glob>,
}

/// One shape rule: `any` of one list, and every list of `all`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShapeRule {
    /// The failure shape it gives; `tool_error` and `tool_soft_error` take a DETAIL.
    pub name: String,
    /// `match`: one pattern of one list suffices. Absent: only `all` decides.
    pub any: Option<ShapePatterns>,
    /// `when`: every list that is there must match.
    pub all: Option<ShapePatterns>,
}

/// Patterns by what they are held against; an empty list was not written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShapePatterns {
    /// Event type.
    pub event_type: Vec<Glob>,
    /// Class of the error or of one of its causes, whole or last path segment.
    pub class: Vec<Glob>,
    /// Code of the error or of one of its causes.
    pub code: Vec<Glob>,
    /// HTTP status in such a code: `429`, or its class: `5xx`.
    pub http: Vec<Glob>,
}

/// What is done about a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Record what would have been done.
    Observe,
    /// Ask a person.
    Propose,
    /// Act.
    Act,
}

/// A registered signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Short code of the condition.
    pub code: String,
    /// Who answers for it; empty where nobody does (lint: `missing_owner`).
    pub owner: String,
    /// Graphs it speaks of; absent: every graph.
    pub graph: Option<Glob>,
    /// `low`, `medium`, `high`, `critical`.
    pub severity: Option<String>,
    /// Observe, propose or act.
    pub mode: Mode,
    /// Which signatures it names.
    pub matches: SignalMatch,
    /// Its own trip, instead of the default.
    pub identical_failures: Option<u32>,
    /// When it counts as a recurrence across sessions (fleet stage).
    pub recurrence: Option<Recurrence>,
}

/// Conditions on a signature; absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SignalMatch {
    /// The failing node. A pattern never matches a missing node.
    pub node: Option<Glob>,
    /// The shape.
    pub failure_shape: Option<Glob>,
    /// Exhausted or not.
    pub retry_budget_exhausted: Option<bool>,
    /// Produced or not; never matches where no artifact is registered.
    pub required_artifact_present: Option<bool>,
}

/// When matching signals count as a recurrence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recurrence {
    /// Distinct failing sessions.
    pub sessions: u32,
    /// Distinct tenants.
    pub tenants: u32,
    /// Dimensions to look along.
    pub dimensions: Vec<String>,
}

/// Whom a response moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseScope {
    /// The failing session.
    Session,
    /// The cohort.
    Cohort,
}

/// An approved action for (signal, scope).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Its name.
    pub name: String,
    /// Code of the signal it answers.
    pub signal: String,
    /// Who answers for it.
    pub owner: Option<String>,
    /// Who approved it.
    pub approved_by: Option<String>,
    /// Session or cohort.
    pub scope: ResponseScope,
    /// Replace or pause.
    pub kind: OverrideKind,
    /// The route it answers on; absent: every route but degraded.
    pub on_route: Option<Route>,
    /// The degraded graph schema; always there for `replace`.
    pub schema_ref: Option<String>,
    /// Where a failed run re-enters.
    pub entry_point: Option<String>,
    /// Nodes of the original path it stands in for.
    pub replaces: Vec<String>,
    /// When a failed run may re-enter.
    pub resume: Option<Resume>,
    /// Life of the override.
    #[serde(rename = "ttl_ms", with = "canonical::millis")]
    pub ttl: Duration,
    /// Cohort: the shadow.
    pub shadow_schema_ref: Option<String>,
    /// Cohort: name of the recovery policy.
    pub recovery_policy: Option<String>,
    /// Cohort, and always there: shares up to which it is automatic, or needs one approval. Percent.
    pub blast_radius: Option<BlastRadius>,
}

/// Shares of a graph's runs up to which a cohort response is automatic, or needs one approval. Percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlastRadius {
    /// Up to here: automatic.
    pub automatic_percentage: f64,
    /// Up to here: one approval; above: two.
    pub approval_percentage: f64,
}

/// The worst failure rate of a healthy window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureRate {
    /// No worse than the healthy baseline.
    Baseline,
    /// This rate. Percent.
    Percentage(f64),
}

/// How much evidence, for how long, proves that the original path is healthy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoveryPolicy {
    /// Its name.
    pub name: String,
    /// Probes a window needs.
    pub minimum_probes: u32,
    /// Recurrences of the triggering signature a healthy window may hold.
    pub maximum_signal_recurrences: u32,
    /// Worst failure rate of a healthy window.
    pub maximum_failure_rate: FailureRate,
    /// Raw comparison instead of the statistical one.
    pub strict: bool,
    /// Healthy windows in a row.
    pub consecutive_healthy_windows: u32,
    /// Length of a window.
    #[serde(rename = "window_duration_ms", with = "canonical::millis")]
    pub window_duration: Duration,
    /// Whether a run without its required artifact is a bad run.
    pub required_artifact_present: bool,
    /// Cap of the 95th percentile. Milliseconds.
    pub maximum_p95_latency_ms: u64,
    /// Share of sessions that run the shadow. Percent.
    pub probe_percentage: f64,
    /// Its upper end. Percent.
    pub probe_percentage_max: f64,
    /// How long the degraded route must be stable first.
    #[serde(rename = "stable_after_ms", with = "canonical::millis")]
    pub stable_after: Duration,
    /// Or how many runs.
    pub stable_after_runs: Option<u32>,
    /// Steps of the trial. Percent.
    pub trial_percentages: Vec<f64>,
}

/// One version of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether new runs use it.
    pub active: bool,
    /// Nodes a run may start or re-enter at, by name.
    pub entry_points: Vec<String>,
    /// Directed, from node to node; sorted.
    pub edges: Vec<(String, String)>,
    /// Names of the state channels, sorted.
    pub channels: Vec<String>,
    /// By name; every node of `edges` and `entry_points` is here.
    pub nodes: BTreeMap<String, Node>,
}

/// One node of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The artifact it produces.
    pub artifact: Option<String>,
    /// Whether that artifact is required.
    pub required: bool,
    /// Whether it changes the world.
    pub mutating: bool,
    /// Whether that cannot be undone.
    pub irreversible: bool,
    /// `blocking`, `degraded_ok`, `optional`.
    pub criticality: Option<String>,
    /// `use_cache`, `use_default`, `skip`, `delegate_to_human`, `approximate`.
    pub fallback: Option<String>,
    /// Template of its idempotency key.
    pub idempotency_key: Option<String>,
    /// What undoes it.
    pub compensation: Option<String>,
    /// Nodes it needs.
    pub depends_on: Vec<String>,
}

impl Default for Defaults {
    fn default() -> Self {
        let globs = ["GraphInterrupt", "NodeInterrupt", "GraphBubbleUp", "ParentCommand", "GraphDrained"];
        let deferrals = ["ApprovalRequired", "CallDeferred"];
        let mut interrupt_classes: Vec<_> = globs.into_iter().chain(deferrals).map(Glob::new).collect();
        interrupt_classes.sort();
        let generic = ["BaseException", "Error", "Exception", "Failure", "RuntimeError", "Throwable"];
        let generic_of_tools = ["ToolError", "ToolException", "UnknownError"];
        let mut generic_classes: Vec<_> = generic.into_iter().chain(generic_of_tools).map(String::from).collect();
        generic_classes.sort();
        Self { identical_failures: 3, generic_classes, interrupt_classes }
    }
}
