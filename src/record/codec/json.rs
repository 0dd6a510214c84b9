//! JSON text to an event, with a code and words for what is wrong.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::record::dead_letter::{Code, Rejection};
use crate::record::event::{Event, Route};
use crate::record::time::Timestamp;

/// Parses one event.
///
/// # Errors
/// A [`Rejection`] with the code of contract section 9: `not_json`, `not_object`, `missing_field`, `bad_field`,
/// `bad_time`.
pub fn event(text: &str, field_bytes_max: usize) -> Result<Event<'_>, Rejection> {
    match serde_json::from_str::<Event<'_>>(text) {
        Ok(event) => check(event, field_bytes_max),
        Err(error) => Err(diagnose(text, &error)),
    }
}

/// Parses one event from bytes that may not be UTF-8.
///
/// # Errors
/// As [`event`].
pub fn event_from_bytes(bytes: &[u8], field_bytes_max: usize) -> Result<Event<'_>, Rejection> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Rejection::new(Code::NotJson, format_args!("not UTF-8 at byte {}", error.valid_up_to())))?;
    event(text, field_bytes_max)
}

const REQUIRED: [&str; 4] = ["event_id", "type", "session_id", "graph"];

fn check(event: Event<'_>, field_bytes_max: usize) -> Result<Event<'_>, Rejection> {
    let required = [
        ("event_id", event.event_id.as_str()),
        ("type", event.event_type.as_str()),
        ("session_id", event.session_id.as_str()),
        ("graph", event.graph.as_str()),
    ];
    if let Some((name, _)) = required.iter().find(|(_, text)| text.is_empty()) {
        return Err(Rejection::new(Code::BadField, format_args!("{name}: empty")));
    }
    let optional = [
        ("run_id", &event.run_id),
        ("graph_version", &event.graph_version),
        ("schema_ref", &event.schema_ref),
        ("override_id", &event.override_id),
        ("node", &event.node),
        ("app_version", &event.app_version),
        ("region", &event.region),
        ("tenant", &event.tenant),
    ];
    let optional = optional.iter().filter_map(|(name, text)| text.as_ref().map(|text| (*name, text.as_str())));
    let route = std::iter::once(("route", event.route().as_str()));
    if let Some((name, _)) =
        required.into_iter().chain(optional).chain(route).find(|(_, text)| text.len() > field_bytes_max)
    {
        return Err(Rejection::new(Code::BadField, format_args!("{name}: longer than {field_bytes_max} bytes")));
    }
    let needs_schema = matches!(event.route(), Route::Degraded | Route::Shadow | Route::Trial);
    if needs_schema && event.schema_ref.is_none() {
        return Err(Rejection::new(Code::MissingField, "schema_ref: required unless the route is primary"));
    }
    if event.attributes.is_some_and(|raw| !raw.get().starts_with('{')) {
        return Err(Rejection::new(Code::BadField, "attributes: not an object"));
    }
    Ok(event)
}

/// Says what is wrong with text that is no event; off the hot path.
fn diagnose(text: &str, error: &serde_json::Error) -> Rejection {
    if let Err(syntax) = serde_json::from_str::<IgnoredAny>(text) {
        let (line, column) = (syntax.line(), syntax.column());
        return Rejection::new(Code::NotJson, format_args!("no JSON at line {line} column {column}"));
    }
    if !text.trim_start().starts_with('{') {
        return Rejection::new(Code::NotObject, "not a JSON object");
    }
    let Ok(fields) = serde_json::from_str::<BTreeMap<Cow<'_, str>, &RawValue>>(text) else {
        return Rejection::new(Code::NotJson, "no JSON object");
    };
    if let Some(name) = REQUIRED.iter().find(|name| fields.get(**name).is_none_or(|raw| raw.get() == "null")) {
        return Rejection::new(Code::MissingField, format_args!("{name}: missing"));
    }
    if let Some(raw) = fields.get("occurred_at")
        && serde_json::from_str::<Option<Timestamp>>(raw.get()).is_err()
    {
        return Rejection::new(Code::BadTime, "occurred_at: not an RFC 3339 time");
    }
    Rejection::new(Code::BadField, bad_field(text, error))
}

/// Path and kind of a bad field, without its value.
fn bad_field(text: &str, error: &serde_json::Error) -> String {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let path = match serde_path_to_error::deserialize::<_, Event<'_>>(&mut deserializer) {
        Err(tracked) => tracked.path().to_string(),
        Ok(_) => String::from("."),
    };
    let kind = if error.to_string().starts_with("duplicate field") { "stands twice" } else { "of the wrong type" };
    format!("{path}: {kind}")
}
