//! Dead letters: inputs that could not be used, kept whole with their reason.

use std::fmt;

use crate::record::open_enum;

open_enum! {
    /// Why an input could not be used. Stable: alerts and scripts match on it.
    pub enum Code {
        /// The bytes are no JSON (or no UTF-8).
        NotJson = "not_json",
        /// JSON, but not an object.
        NotObject = "not_object",
        /// A required field is missing or null.
        MissingField = "missing_field",
        /// A known field has the wrong type, is empty where it must not be, too long, or stands twice.
        BadField = "bad_field",
        /// A time that is not RFC 3339.
        BadTime = "bad_time",
        /// No bytes at all.
        NullValue = "null_value",
        /// More bytes than `event_bytes_max`.
        Oversized = "oversized",
        /// No key, or a key that is not the session id.
        BadKey = "bad_key",
        /// Not the tenant this topic belongs to.
        WrongTenant = "wrong_tenant",
        /// An Avro schema id or fingerprint that is not registered here.
        UnknownSchema = "unknown_schema",
        /// Avro bytes that do not fit their schema.
        BadAvro = "bad_avro",
        /// A CloudEvent that lacks what the specification requires, or carries data of another kind.
        BadCloudEvent = "bad_cloudevent",
        /// Its outputs cannot be published.
        Unpublishable = "unpublishable",
    }
}

/// A refusal of one input. The message names fields and kinds, never values: it may be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Why, for machines.
    pub code: Code,
    /// Why, for people; at most [`MESSAGE_CHARS_MAX`] characters.
    pub message: String,
}

/// Longest message of a rejection, in characters.
pub const MESSAGE_CHARS_MAX: usize = 200;

impl Rejection {
    /// A rejection; the message is cut at [`MESSAGE_CHARS_MAX`].
    #[must_use]
    pub fn new(code: Code, message: impl fmt::Display) -> Self {
        let message = message.to_string().chars().take(MESSAGE_CHARS_MAX).collect();
        Self { code, message }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Rejection {}

/// Prefix of the headers a dead letter carries beside its original ones.
pub const HEADER_PREFIX: &str = "__reflex.errors.";
