//! Who asks: the run and the dimensions of its session.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// What the runtime is about to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// A run begins. Also what a missing or unknown phase means.
    #[default]
    Start,
    /// A run goes on after an interruption.
    Resume,
    /// A run has failed and may go on elsewhere.
    Failed,
}

impl<'de> Deserialize<'de> for Phase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Option::<Value>::deserialize(deserializer)?.as_ref().and_then(Value::as_str) {
            Some("resume") => Self::Resume,
            Some("failed") => Self::Failed,
            _ => Self::Start,
        })
    }
}

/// One question; what is missing or null in JSON is absent here.
///
/// `{"session_id":…,"run_id":…,"phase":"start","current_schema_ref":…,"tenant":…,"region":…,"app_version":…,
/// "graph_version":…,"attributes":{NAME:…}}`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Context {
    /// The session; without one nothing is selected for a shadow or a trial.
    pub session_id: Option<String>,
    /// The run, compared with the record's in phase failed; absent equals absent.
    pub run_id: Option<String>,
    /// Start, resume or failed.
    pub phase: Phase,
    /// The schema the run has already; unused at start.
    pub current_schema_ref: Option<String>,
    /// The tenant: a record of a tenant matches this one only.
    pub tenant: Option<String>,
    /// Dimension `region`.
    pub region: Option<String>,
    /// Dimension `app_version`.
    pub app_version: Option<String>,
    /// Dimension `graph_version`; names the global schema.
    pub graph_version: Option<String>,
    /// Dimensions `attributes.NAME` as they are compared: a string as it is, anything else as its JSON text.
    #[serde(deserialize_with = "texts")]
    pub attributes: BTreeMap<String, String>,
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let attributes = Option::<BTreeMap<String, Value>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(attributes.into_iter().filter_map(|(name, value)| text(value).map(|text| (name, text))).collect())
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}
