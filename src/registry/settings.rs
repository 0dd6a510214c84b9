//! Tables as written: field names of the files, unknown fields refused, defaults filled in; nothing checked across
//! tables.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use crate::record::overrides::Resume;
use crate::registry::model::{FailureRate, Mode, ResponseScope};

/// `[[shape]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The failure shape it gives.
    pub name: String,
    /// Any of.
    #[serde(rename = "match")]
    pub matches: Option<Patterns>,
    /// All of.
    pub when: Option<Patterns>,
}

/// Lists of glob patterns.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Patterns {
    /// Event type.
    #[serde(rename = "type")]
    pub event_type: Vec<String>,
    /// Class of the error or of a cause.
    pub class: Vec<String>,
    /// Code of the error or of a cause.
    pub code: Vec<String>,
    /// HTTP status: `429`, `5xx`.
    pub http: Vec<String>,
}

/// `trip = { identical_failures = 3 }`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trip {
    /// Identical failures of one node and shape in a run; 0 = never.
    pub identical_failures: u32,
}

/// `[defaults]`; a key that is not written keeps its default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    /// Default trip.
    pub trip: Option<Trip>,
    /// Classes that say nothing.
    pub generic_classes: Option<Vec<String>>,
    /// Classes of interrupts.
    pub interrupt_classes: Option<Vec<String>>,
}

/// `[[signal]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// Short code of the condition.
    pub code: String,
    /// Who answers for it.
    #[serde(default)]
    pub owner: String,
    /// Glob of graph names.
    pub graph: Option<String>,
    /// How bad it is.
    pub severity: Option<String>,
    /// Observe, propose or act.
    #[serde(default = "act")]
    pub mode: Mode,
    /// Conditions on the signature.
    #[serde(rename = "match", default)]
    pub matches: SignalMatch,
    /// Its own trip.
    pub trip: Option<Trip>,
    /// When it counts as a recurrence.
    pub recurrence: Option<Recurrence>,
}

fn act() -> Mode {
    Mode::Act
}

/// `match` of a signal.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SignalMatch {
    /// Glob of node names.
    pub node: Option<String>,
    /// Glob of shapes.
    pub failure_shape: Option<String>,
    /// Exhausted or not.
    pub retry_budget_exhausted: Option<bool>,
    /// Produced or not.
    pub required_artifact_present: Option<bool>,
    /// The fifth field of a signature has one value only.
    pub scope: Option<SignatureScope>,
}

/// The scope a signature is computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureScope {
    /// One session.
    Session,
}

/// `recurrence` of a signal.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recurrence {
    /// Distinct failing sessions.
    pub sessions: u32,
    /// Distinct tenants.
    pub tenants: u32,
    /// Dimensions to look along.
    pub dimensions: Vec<String>,
}

impl Default for Recurrence {
    fn default() -> Self {
        Self {
            sessions: 5,
            tenants: 2,
            dimensions: ["graph_version", "app_version", "region", "tenant"].map(String::from).to_vec(),
        }
    }
}

/// `kind` of a response; closed here, where a record's is open: a typing error must not pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Run `schema_ref` instead.
    #[default]
    Replace,
    /// Wait.
    Pause,
}

/// `on_route` of a response. A failure on the shadow never makes an intervention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRoute {
    /// The original path.
    Primary,
    /// A chained response.
    Degraded,
    /// The original path for sessions selected by a trial.
    Trial,
}

/// `[[response]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
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
    #[serde(default)]
    pub kind: Kind,
    /// The route it answers on.
    pub on_route: Option<OnRoute>,
    /// The degraded graph schema, `NAME:VERSION`.
    pub schema_ref: Option<String>,
    /// Where a failed run re-enters.
    pub entry_point: Option<String>,
    /// Nodes it stands in for.
    #[serde(default)]
    pub replaces: Vec<String>,
    /// When a failed run may re-enter.
    pub resume: Option<Resume>,
    /// Life of the override.
    #[serde(default = "a_day", deserialize_with = "duration")]
    pub ttl: Duration,
    /// The shadow, `NAME:VERSION`.
    pub shadow_schema_ref: Option<String>,
    /// Name of the recovery policy.
    pub recovery_policy: Option<String>,
    /// Shares up to which it is automatic, or needs one approval.
    pub blast_radius: Option<BlastRadius>,
}

fn a_day() -> Duration {
    Duration::from_hours(24)
}

/// `blast_radius` of a response. Percent.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlastRadius {
    /// Up to here: automatic.
    pub automatic_percentage: f64,
    /// Up to here: one approval.
    pub approval_percentage: f64,
}

impl Default for BlastRadius {
    fn default() -> Self {
        Self { automatic_percentage: 5.0, approval_percentage: 25.0 }
    }
}

/// `[[recovery_policy]]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryPolicy {
    /// Its name.
    pub name: String,
    /// Probes a window needs.
    pub minimum_probes: Option<u32>,
    /// Recurrences a healthy window may hold.
    pub maximum_signal_recurrences: Option<u32>,
    /// `"baseline"`, or a rate in percent.
    #[serde(default, deserialize_with = "failure_rate")]
    pub maximum_failure_rate: Option<FailureRate>,
    /// Raw comparison.
    pub strict: Option<bool>,
    /// Healthy windows in a row.
    pub consecutive_healthy_windows: Option<u32>,
    /// Length of a window. Minutes.
    pub window_duration_minutes: Option<u32>,
    /// Whether a run without its required artifact is bad.
    pub required_artifact_present: Option<bool>,
    /// Cap of the 95th percentile. Milliseconds.
    pub maximum_p95_latency_ms: Option<u64>,
    /// Share of sessions that run the shadow. Percent.
    pub probe_percentage: Option<f64>,
    /// Its upper end. Percent.
    pub probe_percentage_max: Option<f64>,
    /// How long the degraded route must be stable first.
    #[serde(default, deserialize_with = "some_duration")]
    pub stable_after: Option<Duration>,
    /// Or how many runs.
    pub stable_after_runs: Option<u32>,
    /// Steps of the trial. Percent.
    pub trial_percentages: Option<Vec<f64>>,
}

/// `[[graph]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether new runs use it.
    #[serde(default = "yes")]
    pub active: bool,
    /// Nodes a run may start or re-enter at.
    #[serde(default)]
    pub entry_points: Vec<String>,
    /// From node to node.
    #[serde(default)]
    pub edges: Vec<Vec<String>>,
    /// Names of the state channels.
    #[serde(default)]
    pub channels: Vec<String>,
    /// What is known of its nodes; nodes of edges and entry points need no entry.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// Stated traffic; lint reckons with it.
    pub expected_runs_per_hour: Option<f64>,
}

fn yes() -> bool {
    true
}

/// One node of a graph.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The artifact it produces.
    pub artifact: Option<String>,
    /// Whether that artifact is required.
    #[serde(default)]
    pub required: bool,
    /// Whether it changes the world.
    #[serde(default)]
    pub mutating: bool,
    /// Whether that cannot be undone.
    #[serde(default)]
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
    #[serde(default)]
    pub depends_on: Vec<String>,
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|_| D::Error::invalid_value(Unexpected::Str(&text), &"a duration such as \"5m\" or \"24h\""))
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

fn failure_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FailureRate>, D::Error> {
    struct Rate;

    impl Visitor<'_> for Rate {
        type Value = FailureRate;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("\"baseline\" or a percentage")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<FailureRate, E> {
            match text {
                "baseline" => Ok(FailureRate::Baseline),
                other => Err(E::invalid_value(Unexpected::Str(other), &self)),
            }
        }

        fn visit_f64<E: Error>(self, rate: f64) -> Result<FailureRate, E> {
            Ok(FailureRate::Percentage(rate))
        }

        fn visit_i64<E: Error>(self, rate: i64) -> Result<FailureRate, E> {
            i32::try_from(rate)
                .map(|rate| FailureRate::Percentage(f64::from(rate)))
                .map_err(|_| E::invalid_value(Unexpected::Signed(rate), &self))
        }
    }

    deserializer.deserialize_any(Rate).map(Some)
}
