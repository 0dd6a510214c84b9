//! Headers of a Kafka record, borrowed, and what they say about its encoding.

use crate::record::dead_letter::{Code, Rejection};

/// Headers of a record in their order on it, values as bytes or null.
///
/// Names are compared without regard to ASCII case. Of a name that stands more than once the last one counts, as with
/// `Headers.lastHeader` of Kafka's own client: every hop may append, and the newest word is the last. A null value means
/// that the header is not there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'h>(pub &'h [(&'h str, Option<&'h [u8]>)]);

/// How a `CloudEvent` is laid over a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudEventsMode {
    /// Attributes in headers, data in the value.
    Binary,
    /// The whole event as JSON in the value.
    Structured,
}

/// Schema id out of a `__value_schema_id` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaId {
    /// The registry's number.
    Number(u32),
    /// A GUID, or a form this version does not know: nothing is registered under it.
    Unknown,
}

const CONTENT_TYPE: &str = "content-type";
const SPEC_VERSION: &str = "ce_specversion";
const VALUE_SCHEMA_ID: &str = "__value_schema_id";
const CLOUDEVENTS: &str = "application/cloudevents";

impl<'h> Headers<'h> {
    /// No headers.
    pub const NONE: Self = Self(&[]);

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last value under this name.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<&'h [u8]> {
        self.0.iter().rev().find(|(other, _)| other.eq_ignore_ascii_case(name)).and_then(|(_, value)| *value)
    }

    /// The media type of the value, without parameters and white space around it.
    #[must_use]
    pub fn content_type(&self) -> Option<&'h str> {
        std::str::from_utf8(self.last(CONTENT_TYPE)?).ok()
    }

    /// Whether the record is a `CloudEvent`, and in which mode.
    ///
    /// # Errors
    /// `bad_cloudevent` for an event format other than JSON (`application/cloudevents+avro`, a batch ...).
    pub fn cloudevents_mode(&self) -> Result<Option<CloudEventsMode>, Rejection> {
        if let Some(suffix) = self.content_type().and_then(|name| strip_prefix_ignoring_case(name.trim(), CLOUDEVENTS))
        {
            let format = suffix.split(';').next().unwrap_or_default().trim_end();
            if format.eq_ignore_ascii_case("+json") {
                return Ok(Some(CloudEventsMode::Structured));
            }
            return Err(Rejection::new(Code::BadCloudEvent, "event format: not application/cloudevents+json"));
        }
        let is_binary = self.0.iter().any(|(name, _)| name.eq_ignore_ascii_case(SPEC_VERSION));
        Ok(is_binary.then_some(CloudEventsMode::Binary))
    }

    /// The schema id in the headers: `00` and 4 bytes of number, or `01` and 16 bytes of GUID.
    #[must_use]
    pub fn schema_id(&self) -> Option<SchemaId> {
        match self.last(VALUE_SCHEMA_ID)? {
            [0, a, b, c, d] => Some(SchemaId::Number(u32::from_be_bytes([*a, *b, *c, *d]))),
            _ => Some(SchemaId::Unknown),
        }
    }
}

fn strip_prefix_ignoring_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (head, tail) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(content_type: &str) -> Result<Option<CloudEventsMode>, Code> {
        let headers = [("Content-Type", Some(content_type.as_bytes()))];
        Headers(&headers).cloudevents_mode().map_err(|rejection| rejection.code)
    }

    #[test]
    fn structured_mode_is_known_by_the_media_type_in_any_case() {
        for name in ["application/cloudevents+json", "Application/CloudEvents+JSON ; charset=UTF-8"] {
            assert_eq!(mode(name), Ok(Some(CloudEventsMode::Structured)), "{name}");
        }
        for name in ["application/json", "", "application/cloud", "é"] {
            assert_eq!(mode(name), Ok(None), "{name}");
        }
        for name in ["application/cloudevents-batch+json", "application/cloudevents+jsonx", "application/cloudevents"] {
            assert_eq!(mode(name), Err(Code::BadCloudEvent), "{name}");
        }
    }

    #[test]
    fn of_headers_of_one_name_the_last_counts_and_null_is_absent() {
        let headers = [("a", Some(b"1" as &[u8])), ("A", Some(b"2")), ("b", Some(b"1")), ("b", None)];
        assert_eq!(Headers(&headers).last("a"), Some(b"2" as &[u8]));
        assert_eq!(Headers(&headers).last("b"), None);
    }
}
