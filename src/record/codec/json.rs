//! JSON text to an event, with a code and words for what is wrong.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::record::dead_letter::{Code, Rejection};
use crate::record::event::{Cause, Event, Route};
use crate::record::text::Text;
use crate::record::time::Timestamp;

/// Parses one event. `field_bytes_max`: the longest identity field in bytes.
///
/// # Errors
/// A [`Rejection`] with one of the codes `not_json`, `not_object`, `missing_field`, `bad_field`,
/// `bad_time`.
pub fn event(text: &str, field_bytes_max: usize) -> Result<Event<'_>, Rejection> {
    // A derived struct would take an array too, field by field.
    if !starts_object(text) {
        return Err(diagnose(text, None));
    }
    match serde_json::from_str::<Event<'_>>(text) {
        Ok(event) => match fault(&event, text.len(), field_bytes_max) {
            None => Ok(event),
            Some(rejection) => Err(rejection),
        },
        Err(error) => Err(diagnose(text, duplicate_field(&error.to_string()))),
    }
}

/// Parses one event from bytes that may not be UTF-8.
///
/// # Errors
/// As [`event`].
pub fn event_from_bytes(bytes: &[u8], field_bytes_max: usize) -> Result<Event<'_>, Rejection> {
    event(utf8(bytes)?, field_bytes_max)
}

/// The text of bytes.
///
/// # Errors
/// `not_json` where they are not UTF-8.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Rejection> {
    std::str::from_utf8(bytes)
        .map_err(|error| Rejection::new(Code::NotJson, format_args!("not UTF-8 at byte {}", error.valid_up_to())))
}

/// Whether the first character that is no JSON white space opens an object.
pub(super) fn starts_object(text: &str) -> bool {
    text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{')
}

/// What types alone do not say. By reference: an event is large to move.
fn fault(event: &Event<'_>, text_bytes: usize, field_bytes_max: usize) -> Option<Rejection> {
    let required: [(&str, &str); 4] = [
        ("event_id", &event.event_id),
        ("type", event.event_type.as_str()),
        ("session_id", &event.session_id),
        ("graph", &event.graph),
    ];
    if let Some((name, _)) = required.iter().find(|(_, text)| text.is_empty()) {
        return Some(Rejection::new(Code::BadField, format_args!("{name}: empty")));
    }
    // No field is longer than the whole text: most events need no look at each.
    if text_bytes > field_bytes_max
        && let Some(name) = too_long(event, field_bytes_max)
    {
        return Some(Rejection::new(Code::BadField, format_args!("{name}: longer than {field_bytes_max} bytes")));
    }
    if *event.route() != Route::Primary && event.schema_ref.is_none() {
        return Some(Rejection::new(Code::MissingField, "schema_ref: required unless the route is primary"));
    }
    if event.attributes.is_some_and(|raw| !raw.get().starts_with('{')) {
        return Some(Rejection::new(Code::BadField, "attributes: not an object"));
    }
    None
}

/// The first field over the limit among those that become keys, parts of signatures or words of records. Messages and
/// reasons are free text, and bounded by the size of the event alone.
fn too_long(event: &Event<'_>, field_bytes_max: usize) -> Option<&'static str> {
    let is_long = |text: &str| text.len() > field_bytes_max;
    let longer = |text: &Option<Text<'_>>| text.as_ref().is_some_and(|text| is_long(text));
    let cause_is_long =
        |cause: &Cause<'_>| cause.code.as_ref().is_some_and(|code| is_long(code)) || longer(&cause.class);
    let error = event.error.as_ref();
    let causes = error.and_then(|error| error.causes.as_deref()).unwrap_or_default();
    let failure_class = event.failure.as_ref().and_then(|failure| failure.class.as_ref());
    let fields = [
        ("event_id", is_long(&event.event_id)),
        ("type", is_long(event.event_type.as_str())),
        ("session_id", is_long(&event.session_id)),
        ("graph", is_long(&event.graph)),
        ("run_id", longer(&event.run_id)),
        ("graph_version", longer(&event.graph_version)),
        ("schema_ref", longer(&event.schema_ref)),
        ("route", is_long(event.route().as_str())),
        ("override_id", longer(&event.override_id)),
        ("node", longer(&event.node)),
        ("retry_state", event.retry_state.as_ref().is_some_and(|word| is_long(word.as_str()))),
        ("error", error.is_some_and(|error| cause_is_long(&error.top))),
        ("error.causes", causes.iter().any(cause_is_long)),
        ("artifact.name", event.artifact.as_ref().is_some_and(|artifact| longer(&artifact.name))),
        ("app_version", longer(&event.app_version)),
        ("region", longer(&event.region)),
        ("tenant", longer(&event.tenant)),
        ("failure.class", failure_class.is_some_and(|word| is_long(word.as_str()))),
    ];
    fields.into_iter().find(|(_, is_long)| *is_long).map(|(name, _)| name)
}

/// The members whose absence or form has a code of its own, as they are written.
#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(borrow, default)]
    event_id: Option<&'a RawValue>,
    #[serde(rename = "type", borrow, default)]
    event_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    graph: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "time")]
    occurred_at: TimeForm,
}

#[derive(Default)]
struct TimeForm {
    is_bad: bool,
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TimeForm, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(TimeForm { is_bad: serde_json::from_str::<Option<Timestamp>>(raw.get()).is_err() })
}

/// Says what is wrong with text that is no event; off the hot path. Messages never hold a value.
fn diagnose(text: &str, duplicate: Option<&str>) -> Rejection {
    if let Err(syntax) = serde_json::from_str::<IgnoredAny>(text) {
        // A recorded event is one line of a file that has lines of its own: no second line number.
        let line = if syntax.line() > 1 { format!("line {} ", syntax.line()) } else { String::new() };
        return Rejection::new(Code::NotJson, format_args!("no JSON at {line}column {}", syntax.column()));
    }
    if !starts_object(text) {
        return Rejection::new(Code::NotObject, "not a JSON object");
    }
    // It fails only on names that are no text and on these members standing twice.
    if let Ok(outline) = serde_json::from_str::<Outline<'_>>(text) {
        let required = [
            ("event_id", outline.event_id),
            ("type", outline.event_type),
            ("session_id", outline.session_id),
            ("graph", outline.graph),
        ];
        if let Some((name, _)) = required.iter().find(|(_, raw)| raw.is_none()) {
            return Rejection::new(Code::MissingField, format_args!("{name}: missing"));
        }
        if outline.occurred_at.is_bad {
            return Rejection::new(Code::BadTime, "occurred_at: not an RFC 3339 time");
        }
    }
    if let Some(name) = duplicate {
        return Rejection::new(Code::BadField, format_args!("{name}: stands twice"));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let path = match serde_path_to_error::deserialize::<_, Event<'_>>(&mut deserializer) {
        Err(tracked) => tracked.path().to_string(),
        Ok(_) => String::from("."),
    };
    Rejection::new(Code::BadField, format_args!("{path}: of the wrong type"))
}

/// The field that serde says stands twice; always one of the names of this crate.
pub(super) fn duplicate_field(message: &str) -> Option<&str> {
    message.strip_prefix("duplicate field `")?.split('`').next()
}
