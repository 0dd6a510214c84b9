//! Scenario files: given events at t, expect records.
//!
//! ```text
//! # What it is about.
//! registry ../../config/registry
//! defaults {"graph":"refund_graph","graph_version":"v1"}
//! set limits.interventions_per_session_max 1
//!
//! at 0s event {"type":"node_failed","session_id":"s","node":"n","attempt":3,"max_attempts":3}
//! expect reflex.interventions {"status":"pending"}
//! expect reflex.overrides {"schema_ref":"degraded_refund_graph:v1"}
//! expect reflex.interventions {"status":"applied"}
//!
//! at 24h tick
//! expect reflex.overrides tombstone
//!
//! at 25h command {"verb":"lift","target":"$override_id"}
//! expect nothing
//! ```
//!
//! An expected object is a subset of the record. Every record published since the last `at` must be expected, in order;
//! `reflex.audit` only where a line names it. `$override_id`, `$intervention_id` and `$content_hash` stand for those last
//! published. Missing `event_id` and `command_id` are numbered, missing `reason` and `author` filled.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

/// One step of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An event at a time since the start.
    Event(Duration, Map<String, Value>),
    /// A command at a time since the start.
    Command(Duration, Map<String, Value>),
    /// Time passes.
    Tick(Duration),
    /// A record is expected.
    Expect(String, Expected),
    /// No record is expected.
    Nothing,
}

/// What a line expects.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// A record that holds at least these values.
    Record(Value),
    /// A tombstone.
    Tombstone,
}

/// A parsed scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// Steps with their line, from 1.
    pub steps: Vec<(usize, Step)>,
    /// `set KEY VALUE` lines.
    pub settings: BTreeMap<String, String>,
    /// `registry DIR`, relative to the scenario's file; absent: the registry given to the program.
    pub registry: Option<String>,
}

/// Parses a scenario.
///
/// # Errors
/// `LINE: what is wrong`.
pub fn parse(text: &str) -> Result<Scenario, String> {
    let mut scenario = Scenario::default();
    let mut defaults = Map::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let number = index + 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let step = match word {
            "defaults" => {
                defaults = object(rest).map_err(|error| format!("{number}: {error}"))?;
                continue;
            }
            "registry" => {
                scenario.registry = Some(rest.trim().to_owned());
                continue;
            }
            "set" => {
                let (key, value) = rest.split_once(' ').ok_or_else(|| format!("{number}: set KEY VALUE"))?;
                scenario.settings.insert(key.to_owned(), value.trim().to_owned());
                continue;
            }
            "at" => given(rest, &defaults),
            "expect" => expected(rest),
            _ => Err(format!("`{word}`: not one of at, expect, defaults, registry, set")),
        };
        scenario.steps.push((number, step.map_err(|error| format!("{number}: {error}"))?));
    }
    Ok(scenario)
}

fn given(rest: &str, defaults: &Map<String, Value>) -> Result<Step, String> {
    let (time, rest) = rest.split_once(' ').ok_or("at TIME event|command|tick …")?;
    let at = if time == "0" { Duration::ZERO } else { humantime::parse_duration(time).map_err(|e| e.to_string())? };
    let (kind, json) = rest.split_once(' ').unwrap_or((rest, ""));
    match kind {
        "event" => {
            let mut event = defaults.clone();
            event.extend(object(json)?);
            Ok(Step::Event(at, event))
        }
        "command" => Ok(Step::Command(at, object(json)?)),
        "tick" => Ok(Step::Tick(at)),
        _ => Err(format!("`{kind}`: not one of event, command, tick")),
    }
}

fn expected(rest: &str) -> Result<Step, String> {
    if rest.trim() == "nothing" {
        return Ok(Step::Nothing);
    }
    let (topic, rest) = rest.split_once(' ').ok_or("expect TOPIC {…}|tombstone, or expect nothing")?;
    let expected = match rest.trim() {
        "tombstone" => Expected::Tombstone,
        json => Expected::Record(serde_json::from_str(json).map_err(|error| error.to_string())?),
    };
    Ok(Step::Expect(topic.to_owned(), expected))
}

fn object(json: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(json).map_err(|error| format!("not a JSON object: {error}"))
}

/// Whether `actual` holds at least the values of `expected`; lists must be equal in length.
#[must_use]
pub fn holds(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            expected.iter().all(|(key, wanted)| holds(actual.get(key).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(actual), Value::Array(expected)) => {
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(a, b)| holds(a, b))
        }
        (actual, expected) => actual == expected,
    }
}
