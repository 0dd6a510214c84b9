//! Runtime events: one fact from a runtime, borrowed from the bytes it came in.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::record::object::{Innermost, Member, Object};
use crate::record::open_enum;
use crate::record::text::{Code, Text};
use crate::record::time::Timestamp;

open_enum! {
    /// What happened. Types this version does not know are counted and ignored, never rejected.
    pub enum EventType {
        GraphStarted = "graph_started", GraphCompleted = "graph_completed", GraphFailed = "graph_failed",
        NodeStarted = "node_started", NodeCompleted = "node_completed", NodeFailed = "node_failed",
        ModelOutputValidationFailed = "model_output_validation_failed", ModelCallFailed = "model_call_failed",
        ToolCallStarted = "tool_call_started", ToolCallCompleted = "tool_call_completed",
        ToolCallFailed = "tool_call_failed", ToolCallCancelled = "tool_call_cancelled",
        Retry = "retry", RetriesExhausted = "retries_exhausted",
        ArtifactProduced = "artifact_produced", Progress = "progress", Stuck = "stuck", Panic = "panic",
        SessionStarted = "session_started", SessionResumed = "session_resumed", SessionEnded = "session_ended",
        LeaseLost = "lease_lost", LeaseRecovered = "lease_recovered",
        OverrideApplied = "override_applied", OverrideIgnored = "override_ignored",
        ActionIntended = "action_intended", ActionConfirmed = "action_confirmed",
        ActionAmbiguous = "action_ambiguous", ActionFailed = "action_failed",
        CompensationStarted = "compensation_started", CompensationCompleted = "compensation_completed",
        CompensationFailed = "compensation_failed",
        DependencyStatus = "dependency_status", SloStatus = "slo_status", RuntimeStarted = "runtime_started",
    }
}

impl EventType {
    /// Failures: node, model output, model call and tool call failed, tool cancelled, stuck, panic, lease lost.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::NodeFailed
                | Self::ModelOutputValidationFailed
                | Self::ModelCallFailed
                | Self::ToolCallFailed
                | Self::ToolCallCancelled
                | Self::Stuck
                | Self::Panic
                | Self::LeaseLost
        )
    }

    /// Whether this version knows the type. `compensation_*` and `slo_*` are families: every member is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        match self {
            Self::Unknown(word) => word.starts_with("compensation_") || word.starts_with("slo_"),
            _ => true,
        }
    }
}

open_enum! {
    /// Which copy of the graph was running.
    pub enum Route {
        /// The original path.
        Primary = "primary",
        /// The override's schema.
        Degraded = "degraded",
        /// Side-effect-free copy of the original path.
        Shadow = "shadow",
        /// The original path for sessions selected by a trial.
        Trial = "trial",
    }
}

open_enum! {
    /// Temporal's words for what became of the retries.
    pub enum RetryState {
        InProgress = "in_progress", MaxAttempts = "max_attempts", NonRetryable = "non_retryable",
        Timeout = "timeout", NoPolicy = "no_policy", Cancelled = "cancelled",
    }
}

impl RetryState {
    /// Whether the runtime will not try again by itself.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        matches!(self, Self::MaxAttempts | Self::NonRetryable | Self::Timeout | Self::NoPolicy)
    }
}

open_enum! {
    /// One vocabulary of failure classes for all systems.
    pub enum FailureClass {
        Transient = "transient", Permanent = "permanent", Semantic = "semantic", Partial = "partial",
        Ambiguous = "ambiguous",
    }
}

/// One error, or one cause of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause<'a> {
    /// Stable code, as text or whole number.
    #[serde(borrow, default)]
    pub code: Option<Code<'a>>,
    /// Class, usually with its path.
    #[serde(borrow, default)]
    pub class: Option<Text<'a>>,
    /// Free text; takes part in a shape only where nothing else is there, masked.
    #[serde(borrow, default)]
    pub message: Option<Text<'a>>,
}

/// The error of a failure event. In records the fields of `top` and `causes` stand side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ErrorInfo<'a> {
    /// The error itself.
    #[serde(flatten)]
    pub top: Cause<'a>,
    /// What caused it, outermost first; of more than [`CAUSES_MAX`] the first ones and the innermost.
    pub causes: Option<Vec<Cause<'a>>>,
}

/// Most causes of one error that are kept: a chain of exceptions this long is a loop.
pub const CAUSES_MAX: usize = 32;

impl<'de: 'a, 'a> Deserialize<'de> for ErrorInfo<'a> {
    // By hand: a flattened field would buffer whatever else stands in the object.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(borrow, default)]
            code: Option<Code<'a>>,
            #[serde(borrow, default)]
            class: Option<Text<'a>>,
            #[serde(borrow, default)]
            message: Option<Text<'a>>,
            #[serde(borrow, default)]
            causes: Option<Innermost<Cause<'a>, CAUSES_MAX>>,
        }
        let Fields { code, class, message, causes } = Fields::deserialize(deserializer)?;
        Ok(Self { top: Cause { code, class, message }, causes: causes.map(|causes| causes.0) })
    }
}

/// An artifact as an event speaks of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact<'a> {
    /// Its name; missing means the node's own.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// Whether it exists.
    #[serde(default)]
    pub present: Option<bool>,
}

/// The runtime's own judgement of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureInfo<'a> {
    /// Its class.
    #[serde(default)]
    pub class: Option<FailureClass>,
    /// Whether the call may be made again without harm.
    #[serde(default)]
    pub safe_to_retry: Option<bool>,
    /// Whether doing it twice equals doing it once.
    #[serde(default)]
    pub idempotent: Option<bool>,
    /// Words.
    #[serde(borrow, default)]
    pub reason: Option<Text<'a>>,
}

/// One runtime event. Fields that are not read here are ignored and stay in the record's bytes.
#[derive(Clone, Debug, Deserialize)]
pub struct Event<'a> {
    /// Unique id given by the runtime.
    #[serde(borrow)]
    pub event_id: Text<'a>,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The session; `runtime/ID` for facts of a whole runtime.
    #[serde(borrow)]
    pub session_id: Text<'a>,
    /// The graph as given to `resolve`, on every route.
    #[serde(borrow)]
    pub graph: Text<'a>,
    /// The runtime's clock; information only.
    #[serde(default)]
    pub occurred_at: Option<Timestamp>,
    /// The run, where the runtime has one.
    #[serde(borrow, default, deserialize_with = "non_empty")]
    pub run_id: Option<Text<'a>>,
    /// Version of the graph.
    #[serde(borrow, default, deserialize_with = "non_empty")]
    pub graph_version: Option<Text<'a>>,
    /// The schema that is running; missing: `graph:graph_version`. Required unless the route is primary.
    #[serde(borrow, default, deserialize_with = "non_empty")]
    pub schema_ref: Option<Text<'a>>,
    /// Which copy of the graph is running; missing: primary.
    #[serde(default, deserialize_with = "non_empty_word")]
    pub route: Option<Route>,
    /// The override the session runs under.
    #[serde(borrow, default, deserialize_with = "non_empty")]
    pub override_id: Option<Text<'a>>,
    /// That override's attempt.
    #[serde(default)]
    pub override_attempt: Option<u32>,
    /// The node.
    #[serde(borrow, default, deserialize_with = "non_empty")]
    pub node: Option<Text<'a>>,
    /// Which attempt at the node this is, from 1.
    #[serde(default)]
    pub attempt: Option<u32>,
    /// How many the runtime allows.
    #[serde(default)]
    pub max_attempts: Option<u32>,
    /// What became of the retries; where present it decides over `attempt`.
    #[serde(default, deserialize_with = "non_empty_word")]
    pub retry_state: Option<RetryState>,
    /// The error.
    #[serde(borrow, default, deserialize_with = "object")]
    pub error: Option<ErrorInfo<'a>>,
    /// The artifact.
    #[serde(borrow, default, deserialize_with = "object")]
    pub artifact: Option<Artifact<'a>>,
    /// Duration of what completed, in milliseconds.
    #[serde(default)]
    pub latency_ms: Option<f64>,
    /// Cohort dimension.
    #[serde(borrow, default, deserialize_with = "non_empty")]
    pub app_version: Option<Text<'a>>,
    /// Cohort dimension.
    #[serde(borrow, default, deserialize_with = "non_empty")]
    pub region: Option<Text<'a>>,
    /// Cohort dimension, and the wall between customers.
    #[serde(borrow, default, deserialize_with = "non_empty")]
    pub tenant: Option<Text<'a>>,
    /// More cohort dimensions: an object, read only where one is needed.
    #[serde(borrow, default)]
    pub attributes: Option<&'a RawValue>,
    /// Whether the step acts on the world.
    #[serde(default)]
    pub side_effect: Option<bool>,
    /// The runtime's own judgement of the failure.
    #[serde(borrow, default, deserialize_with = "object")]
    pub failure: Option<FailureInfo<'a>>,
    /// Why (`override_ignored`, runtime-level events).
    #[serde(borrow, default, deserialize_with = "non_empty")]
    pub reason: Option<Text<'a>>,
}

fn non_empty<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Text<'a>>, D::Error> {
    Ok(Option::<Text<'a>>::deserialize(deserializer)?.filter(|text| !text.is_empty()))
}

fn non_empty_word<'de, D: Deserializer<'de>, T: for<'w> From<&'w str>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(non_empty(deserializer)?.map(|word| T::from(word.as_str())))
}

fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|object| object.0))
}

impl Event<'_> {
    /// The route, primary where the event names none.
    #[must_use]
    pub fn route(&self) -> &Route {
        self.route.as_ref().unwrap_or(&Route::Primary)
    }

    /// Whether the event is a fact of a whole runtime: it opens no session state.
    #[must_use]
    pub fn is_runtime_level(&self) -> bool {
        self.session_id.starts_with("runtime/")
    }

    /// The running schema, `graph:graph_version` where the event names none.
    #[must_use]
    pub fn running_schema(&self) -> Option<Cow<'_, str>> {
        match (&self.schema_ref, &self.graph_version) {
            (Some(schema), _) => Some(schema.as_str().into()),
            (None, Some(version)) => Some(format!("{}:{}", self.graph.as_str(), version.as_str()).into()),
            (None, None) => None,
        }
    }

    /// Value of a cohort dimension: `tenant`, `region`, `app_version`, `graph_version` or `attributes.NAME`.
    #[must_use]
    pub fn dimension(&self, name: &str) -> Option<Cow<'_, str>> {
        let field = match name {
            "tenant" => &self.tenant,
            "region" => &self.region,
            "app_version" => &self.app_version,
            "graph_version" => &self.graph_version,
            _ => return self.attribute(name.strip_prefix("attributes.")?),
        };
        field.as_ref().map(|text| text.as_str().into())
    }

    /// The value of one attribute: a string as it is, any other JSON as its text; `None` where it is missing or null.
    /// Of a name that stands twice the last value counts.
    ///
    /// Reads through the text of all attributes: for cold paths.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut deserializer = serde_json::Deserializer::from_str(self.attributes?.get());
        let raw = Member(name).find(&mut deserializer).ok().flatten()?.get();
        match raw.as_bytes().first() {
            Some(b'"') => serde_json::from_str::<Text<'_>>(raw).ok().map(|text| text.0),
            _ if raw == "null" => None,
            _ => Some(Cow::Borrowed(raw)),
        }
    }
}
