//! JSON text to a record of `reflex.fleet`, with a code and words for what is wrong.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::record::codec::json::{duplicate_field, starts_object};
use crate::record::dead_letter::{Code, Rejection};
use crate::record::fleet::{FleetRecord, SignatureRow};
use crate::record::object::{Member, Object};
use crate::record::rows::Rows;
use crate::record::text::Text;
use crate::record::time::Timestamp;

/// Most cohort dimensions of one row.
pub const DIMENSIONS_MAX: usize = 64;

/// Parses one record. `field_bytes_max`: the longest name, id or value in bytes.
///
/// # Errors
/// A [`Rejection`] with one of the codes `not_json`, `not_object`, `missing_field`, `bad_field`, `bad_time`.
pub fn record(text: &str, field_bytes_max: usize) -> Result<FleetRecord, Rejection> {
    let record = match kind(text)?.as_str() {
        "rows" => {
            let required = ["graph", "source", "bucket", "source_watermark", "dimension_names", "texts", "rows"];
            parse::<Rows>(text, &required).map(FleetRecord::Rows)
        }
        "signature" => {
            let required = [
                "graph",
                "source",
                "source_watermark",
                "fingerprint",
                "signature",
                "session_id",
                "route",
                "event_id",
                "position",
            ];
            parse::<SignatureRow>(text, &required).map(FleetRecord::Signature)
        }
        _ => Err(Rejection::new(Code::BadField, "kind: neither rows nor signature")),
    }?;
    match fault(&record, field_bytes_max) {
        None => Ok(record),
        Some((name, what)) => Err(Rejection::new(Code::BadField, format_args!("{name}: {what}"))),
    }
}

fn kind(text: &str) -> Result<String, Rejection> {
    if let Err(syntax) = serde_json::from_str::<IgnoredAny>(text) {
        return Err(Rejection::new(Code::NotJson, format_args!("no JSON at column {}", syntax.column())));
    }
    if !starts_object(text) {
        return Err(Rejection::new(Code::NotObject, "not a JSON object"));
    }
    let raw = member(text, "kind").ok_or_else(|| Rejection::new(Code::MissingField, "kind: missing"))?;
    let text = serde_json::from_str::<Text<'_>>(raw.get());
    text.map(|text| text.to_string()).map_err(|_| Rejection::new(Code::BadField, "kind: of the wrong type"))
}

fn member<'a>(text: &'a str, name: &str) -> Option<&'a RawValue> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Member(name).find(&mut deserializer).ok().flatten().filter(|raw| raw.get() != "null")
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str, required: &[&str]) -> Result<T, Rejection> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let error = match serde_path_to_error::deserialize::<_, Object<T>>(&mut deserializer) {
        Ok(record) => return Ok(record.0),
        Err(error) => error,
    };
    if let Some(name) = required.iter().find(|name| member(text, name).is_none()) {
        return Err(Rejection::new(Code::MissingField, format_args!("{name}: missing")));
    }
    let is_bad_time =
        |name: &str| member(text, name).is_some_and(|raw| serde_json::from_str::<Timestamp>(raw.get()).is_err());
    if let Some(name) = ["bucket", "source_watermark"].into_iter().find(|name| is_bad_time(name)) {
        return Err(Rejection::new(Code::BadTime, format_args!("{name}: not an RFC 3339 time")));
    }
    let words = error.inner().to_string();
    if let Some(name) = duplicate_field(&words) {
        return Err(Rejection::new(Code::BadField, format_args!("{name}: stands twice")));
    }
    if words.starts_with("missing field `") {
        return Err(Rejection::new(Code::MissingField, format_args!("{}: a field is missing", error.path())));
    }
    Err(Rejection::new(Code::BadField, format_args!("{}: of the wrong type", error.path())))
}

type Fault = (&'static str, &'static str);

/// What types alone do not say.
fn fault(record: &FleetRecord, field_bytes_max: usize) -> Option<Fault> {
    match record {
        FleetRecord::Rows(rows) => {
            let names = [("graph", Some(&rows.graph)), ("source", Some(&rows.source))];
            bad_name(&names, field_bytes_max).or_else(|| bad_table(rows, field_bytes_max))
        }
        FleetRecord::Signature(row) => {
            let names = [
                ("graph", Some(&row.graph)),
                ("source", Some(&row.source)),
                ("fingerprint", Some(&row.fingerprint)),
                ("session_id", Some(&row.session_id)),
                ("event_id", Some(&row.event_id)),
                ("signal", row.signal.as_ref()),
                ("tenant", row.tenant.as_ref()),
                ("run_id", row.run_id.as_ref()),
                ("schema_ref", row.schema_ref.as_ref()),
                ("override_id", row.override_id.as_ref()),
                ("exhausted_by", row.exhausted_by.as_ref()),
            ];
            bad_name(&names, field_bytes_max)
                .or_else(|| bad_route(row.route.as_str(), field_bytes_max))
                .or_else(|| bad_dimensions(&row.dimensions, field_bytes_max))
        }
    }
}

fn bad_table(rows: &Rows, field_bytes_max: usize) -> Option<Fault> {
    if rows.dimension_names.len() > DIMENSIONS_MAX {
        return Some(("dimension_names", "too many"));
    }
    let is_long = |text: &String| text.len() > field_bytes_max;
    if rows.dimension_names.iter().any(is_long) {
        return Some(("dimension_names", "longer than field_bytes_max"));
    }
    if rows.texts.iter().any(is_long) {
        return Some(("texts", "longer than field_bytes_max"));
    }
    rows.fault().map(|what| ("rows", what))
}

fn bad_name(names: &[(&'static str, Option<&String>)], field_bytes_max: usize) -> Option<Fault> {
    let long = names.iter().find(|(_, text)| text.is_some_and(|text| text.len() > field_bytes_max));
    let empty = || names.iter().find(|(_, text)| text.is_some_and(String::is_empty));
    let long = long.map(|(name, _)| (*name, "longer than field_bytes_max"));
    long.or_else(|| empty().map(|(name, _)| (*name, "empty")))
}

fn bad_route(route: &str, field_bytes_max: usize) -> Option<Fault> {
    (route.len() > field_bytes_max).then_some(("route", "longer than field_bytes_max"))
}

fn bad_dimensions(dimensions: &BTreeMap<String, String>, field_bytes_max: usize) -> Option<Fault> {
    if dimensions.len() > DIMENSIONS_MAX {
        return Some(("dimensions", "too many"));
    }
    let long = dimensions.iter().any(|(name, value)| name.len().max(value.len()) > field_bytes_max);
    long.then_some(("dimensions", "a value longer than field_bytes_max"))
}
