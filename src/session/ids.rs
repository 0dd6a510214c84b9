//! Ids of what one session leads to.

use serde::Serialize;
use uuid::Uuid;

use crate::record::canonical_json_of_sorted;

/// What an intervention, its override and its escalation follow from. In the order of RFC 8785.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Name<'a> {
    /// Id of the triggering event.
    pub event_id: &'a str,
    /// Fingerprint of the signature.
    pub fingerprint: &'a str,
    /// The graph.
    pub graph: &'a str,
    /// The session.
    pub session_id: &'a str,
    /// Tenant of the session.
    pub tenant: Option<&'a str>,
}

fn id(prefix: &str, name: &Name<'_>) -> String {
    format!("{prefix}{}", crate::record::id::of(&canonical_json_of_sorted(name)))
}

/// `int_…`
#[must_use]
pub fn intervention(name: &Name<'_>) -> String {
    id("int_", name)
}

/// `esc_…`
#[must_use]
pub fn escalation(name: &Name<'_>) -> String {
    id("esc_", name)
}

/// What is left of an id without its prefix.
pub type Key = Uuid;

/// The key of an `ovr_…`; `None` where it is none, written exactly so.
#[must_use]
pub fn override_key(id: &str) -> Option<Key> {
    key("ovr_", id)
}

/// The key of an `int_…`; `None` where it is none, written exactly so.
#[must_use]
pub fn intervention_key(id: &str) -> Option<Key> {
    key("int_", id)
}

fn key(prefix: &str, id: &str) -> Option<Key> {
    let text = id.strip_prefix(prefix)?;
    let key = Uuid::try_parse(text).ok()?;
    (*key.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *text).then_some(key)
}

/// `int_…` of a key.
#[must_use]
pub fn of_intervention(key: Key) -> String {
    format!("int_{key}")
}

/// `ovr_…` of a key.
#[must_use]
pub fn of_override(key: Key) -> String {
    format!("ovr_{key}")
}

/// `ovr_…` of the override that an intervention makes.
#[must_use]
pub fn override_of(intervention_id: &str) -> String {
    format!("ovr_{}", intervention_id.trim_start_matches("int_"))
}
