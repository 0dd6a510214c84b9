//! Bytes of an input topic to an event or a command, or the reason why not. The one place that decodes.

use std::borrow::Cow;

use rdkafka::message::BorrowedHeaders;

use crate::engine::native;
use crate::record::codec::{self, DecodeLimits, Headers, Schemas, decode, json};
use crate::record::command::Command;
use crate::record::dead_letter::{Code, Rejection};
use crate::record::event::Event;
use crate::record::fleet::FleetRecord;
use crate::registry::Limits;

/// Largest record between the stages, as it comes and as JSON text; a session task splits what is larger than a quarter.
const FLEET_BYTES_MAX: usize = 1_048_576;

/// One record as it came.
#[derive(Clone, Copy)]
pub struct Raw<'a> {
    /// Key.
    pub key: Option<&'a [u8]>,
    /// Value.
    pub value: Option<&'a [u8]>,
    /// Headers.
    pub headers: Option<&'a BorrowedHeaders>,
}

/// What inputs are held against.
#[derive(Clone, Debug)]
pub struct Intake {
    tenant: Option<String>,
    schemas: Schemas,
}

impl Intake {
    /// A tenant makes events of any other, or of none, dead letters.
    pub fn new(tenant: Option<String>, schemas: Schemas) -> Self {
        Self { tenant, schemas }
    }

    /// The JSON text of an event, whatever its encoding.
    pub fn text<'a>(&self, raw: Raw<'a>, limits: DecodeLimits) -> Result<Cow<'a, str>, Rejection> {
        let Some(headers) = raw.headers else { return decode(&Headers::NONE, raw.value, &self.schemas, limits) };
        let headers = native::headers(headers);
        // A name that is not UTF-8 says nothing about the encoding.
        let named = headers.iter().filter_map(|(name, value)| Some((std::str::from_utf8(name).ok()?, *value)));
        let named: Vec<(&str, Option<&[u8]>)> = named.collect();
        decode(&Headers(&named), raw.value, &self.schemas, limits)
    }

    /// Reads an event from its text.
    pub fn event<'t>(&self, text: &'t str, key: Option<&[u8]>, limits: DecodeLimits) -> Result<Event<'t>, Rejection> {
        let event = json::event(text, limits.field_bytes_max)?;
        if key != Some(event.session_id.as_bytes()) {
            let what = if key.is_none_or(<[u8]>::is_empty) { "no key" } else { "the key is not the session_id" };
            return Err(Rejection::new(Code::BadKey, what));
        }
        if let Some(tenant) = &self.tenant
            && event.tenant.as_deref() != Some(tenant)
        {
            return Err(Rejection::new(Code::WrongTenant, "tenant: not the one this topic belongs to"));
        }
        Ok(event)
    }

    /// Reads what a session task tells the fleet stage.
    pub fn observation(&self, raw: Raw<'_>, limits: DecodeLimits) -> Result<FleetRecord, Rejection> {
        let text = self.text(raw, DecodeLimits { event_bytes_max: FLEET_BYTES_MAX, ..limits })?;
        let record = codec::fleet::record(&text, limits.field_bytes_max)?;
        if raw.key != Some(record.key().as_bytes()) {
            return Err(Rejection::new(Code::BadKey, "the key is not graph/NAME of its graph"));
        }
        Ok(record)
    }

    /// Reads a command: strictly, a command that is not understood is refused.
    #[allow(clippy::unused_self, reason = "inputs have one door")]
    pub fn command(&self, raw: Raw<'_>, limits: DecodeLimits) -> Result<Command, Rejection> {
        let bytes = bytes(raw, limits)?;
        if raw.key.is_none_or(<[u8]>::is_empty) {
            return Err(Rejection::new(Code::BadKey, "no key; a command has its owner's key"));
        }
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let command = serde_path_to_error::deserialize::<_, Command>(&mut json).map_err(|error| {
            let (path, cause) = (error.path().to_string(), error.inner());
            let place = format!("line {} column {}", cause.line(), cause.column());
            // The library's own words may quote the value.
            if !cause.is_data() {
                Rejection::new(Code::NotJson, format_args!("no JSON at {place}"))
            } else if cause.to_string().starts_with("missing field") {
                Rejection::new(Code::MissingField, format_args!("{path}: a required field is missing"))
            } else {
                Rejection::new(Code::BadField, format_args!("{path}: not accepted, at {place}"))
            }
        })?;
        json.end().map_err(|_| Rejection::new(Code::NotJson, "more than one value"))?;
        Ok(command)
    }
}

fn bytes(raw: Raw<'_>, limits: DecodeLimits) -> Result<&[u8], Rejection> {
    let bytes_max = limits.event_bytes_max;
    match raw.value {
        None | Some([]) => Err(Rejection::new(Code::NullValue, "no value")),
        Some(bytes) if bytes.len() > bytes_max => {
            Err(Rejection::new(Code::Oversized, format_args!("more than {bytes_max} bytes")))
        }
        Some(bytes) => Ok(bytes),
    }
}

/// What a registry allows an input to measure.
pub fn decode_limits(limits: &Limits) -> DecodeLimits {
    DecodeLimits { event_bytes_max: limits.event_bytes_max as usize, field_bytes_max: limits.field_bytes_max as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"event_id":"e1","type":"node_failed","session_id":"s1","graph":"g","tenant":"t-1"}"#;

    const LIMITS: DecodeLimits = DecodeLimits { event_bytes_max: 200, field_bytes_max: 100 };

    fn intake(tenant: Option<&str>) -> Intake {
        Intake::new(tenant.map(str::to_owned), Schemas::default())
    }

    fn code_of(intake: &Intake, raw: Raw<'_>) -> Option<Code> {
        let text = intake.text(raw, LIMITS);
        text.and_then(|text| intake.event(&text, raw.key, LIMITS).map(drop)).err().map(|rejection| rejection.code)
    }

    fn raw<'a>(key: Option<&'a str>, value: Option<&'a str>) -> Raw<'a> {
        Raw { key: key.map(str::as_bytes), value: value.map(str::as_bytes), headers: None }
    }

    #[test]
    fn events_that_cannot_be_used_have_their_codes() {
        let oversized = "x".repeat(201);
        let cases = [
            (Some("s1"), None, Code::NullValue),
            (Some("s1"), Some(""), Code::NullValue),
            (Some("s1"), Some(oversized.as_str()), Code::Oversized),
            (Some("s1"), Some("{"), Code::NotJson),
            (Some("s1"), Some("[]"), Code::NotObject),
            (None, Some(EVENT), Code::BadKey),
            (Some(""), Some(EVENT), Code::BadKey),
            (Some("s2"), Some(EVENT), Code::BadKey),
        ];
        for (key, value, code) in cases {
            assert_eq!(code_of(&intake(None), raw(key, value)), Some(code), "{key:?} {value:?}");
        }
        assert_eq!(code_of(&intake(None), raw(Some("s1"), Some(EVENT))), None);
    }

    #[test]
    fn a_topic_of_one_tenant_takes_no_other() {
        assert_eq!(code_of(&intake(Some("t-1")), raw(Some("s1"), Some(EVENT))), None);
        assert_eq!(code_of(&intake(Some("t-2")), raw(Some("s1"), Some(EVENT))), Some(Code::WrongTenant));
        let none = EVENT.replace(r#","tenant":"t-1""#, "");
        assert_eq!(code_of(&intake(Some("t-2")), raw(Some("s1"), Some(&none))), Some(Code::WrongTenant));
    }

    #[test]
    fn commands_are_strict_and_refusals_quote_no_values() {
        let good = r#"{"command_id":"c1","verb":"lift","target":"ovr_1","reason":"r","author":"a"}"#;
        assert!(intake(None).command(raw(Some("s1"), Some(good)), LIMITS).is_ok());
        let cases = [
            (None, good.to_owned(), Code::BadKey),
            (Some("s1"), good.replace("lift", "s3cret"), Code::BadField),
            (Some("s1"), good.replace("\"reason\":\"r\",", ""), Code::MissingField),
            (Some("s1"), good.replace("author", "auth0r"), Code::BadField),
            (Some("s1"), format!("{good}{good}"), Code::NotJson),
            (Some("s1"), "nonsense".to_owned(), Code::NotJson),
        ];
        for (key, value, code) in cases {
            let rejection = intake(None).command(raw(key, Some(&value)), LIMITS).expect_err("not usable");
            assert_eq!(rejection.code, code, "{value}");
            assert!(!rejection.message.contains("s3cret"), "{rejection}");
        }
    }
}
