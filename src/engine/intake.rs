//! Bytes of an input topic to an event or a command, or the reason why not. The one place that decodes.

use rdkafka::message::BorrowedHeaders;

use crate::record::codec::json;
use crate::record::command::Command;
use crate::record::dead_letter::{Code, Rejection};
use crate::record::event::Event;
use crate::registry::Limits;

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
    field_bytes_max: usize,
    event_bytes_max: usize,
}

impl Intake {
    /// Limits are those of the registry; a tenant makes events of any other, or of none, dead letters.
    pub fn new(limits: &Limits, tenant: Option<String>) -> Self {
        Self {
            tenant,
            field_bytes_max: limits.field_bytes_max as usize,
            event_bytes_max: limits.event_bytes_max as usize,
        }
    }

    /// Reads an event.
    pub fn event<'a>(&self, raw: Raw<'a>) -> Result<Event<'a>, Rejection> {
        let event = decode(self.bytes(raw)?, raw.headers, self.field_bytes_max)?;
        if raw.key != Some(event.session_id.as_bytes()) {
            let what = if raw.key.is_none_or(<[u8]>::is_empty) { "no key" } else { "the key is not the session_id" };
            return Err(Rejection::new(Code::BadKey, what));
        }
        if let Some(tenant) = &self.tenant
            && event.tenant.as_ref().map(|tenant| tenant.as_str()) != Some(tenant)
        {
            return Err(Rejection::new(Code::WrongTenant, "tenant: not the one this topic belongs to"));
        }
        Ok(event)
    }

    /// Reads a command: strictly, a command that is not understood is refused.
    pub fn command(&self, raw: Raw<'_>) -> Result<Command, Rejection> {
        let bytes = self.bytes(raw)?;
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

    fn bytes<'a>(&self, raw: Raw<'a>) -> Result<&'a [u8], Rejection> {
        match raw.value {
            None => Err(Rejection::new(Code::NullValue, "null value")),
            Some([]) => Err(Rejection::new(Code::NullValue, "empty value")),
            Some(bytes) if bytes.len() > self.event_bytes_max => Err(Rejection::new(
                Code::Oversized,
                format_args!("{} bytes, more than event_bytes_max {}", bytes.len(), self.event_bytes_max),
            )),
            Some(bytes) => Ok(bytes),
        }
    }
}

/// Encodings are told apart here. JSON so far; the codec of the records adds the others.
fn decode<'a>(bytes: &'a [u8], _: Option<&BorrowedHeaders>, field_bytes_max: usize) -> Result<Event<'a>, Rejection> {
    json::event_from_bytes(bytes, field_bytes_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"event_id":"e1","type":"node_failed","session_id":"s1","graph":"g","tenant":"t-1"}"#;

    fn intake(tenant: Option<&str>) -> Intake {
        let limits = Limits { event_bytes_max: 200, ..Limits::default() };
        Intake::new(&limits, tenant.map(str::to_owned))
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
            let rejection = intake(None).event(raw(key, value)).expect_err("not usable");
            assert_eq!(rejection.code, code, "{key:?} {value:?}");
        }
        assert!(intake(None).event(raw(Some("s1"), Some(EVENT))).is_ok());
    }

    #[test]
    fn a_topic_of_one_tenant_takes_no_other() {
        assert!(intake(Some("t-1")).event(raw(Some("s1"), Some(EVENT))).is_ok());
        let other = intake(Some("t-2")).event(raw(Some("s1"), Some(EVENT))).expect_err("another tenant");
        assert_eq!(other.code, Code::WrongTenant);
        let none = EVENT.replace(r#","tenant":"t-1""#, "");
        let none = intake(Some("t-2")).event(raw(Some("s1"), Some(&none))).expect_err("no tenant");
        assert_eq!(none.code, Code::WrongTenant);
    }

    #[test]
    fn commands_are_strict_and_refusals_quote_no_values() {
        let good = r#"{"command_id":"c1","verb":"lift","target":"ovr_1","reason":"r","author":"a"}"#;
        assert!(intake(None).command(raw(Some("s1"), Some(good))).is_ok());
        let cases = [
            (None, good.to_owned(), Code::BadKey),
            (Some("s1"), good.replace("lift", "s3cret"), Code::BadField),
            (Some("s1"), good.replace("\"reason\":\"r\",", ""), Code::MissingField),
            (Some("s1"), good.replace("author", "auth0r"), Code::BadField),
            (Some("s1"), format!("{good}{good}"), Code::NotJson),
            (Some("s1"), "nonsense".to_owned(), Code::NotJson),
        ];
        for (key, value, code) in cases {
            let rejection = intake(None).command(raw(key, Some(&value))).expect_err("not usable");
            assert_eq!(rejection.code, code, "{value}");
            assert!(!rejection.message.contains("s3cret"), "{rejection}");
        }
    }
}
