//! Dead letters: inputs that could not be used, kept whole with their reason.

use std::fmt;

use crate::record::open_enum;
use crate::record::time::Timestamp;

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
        /// A `CloudEvent` that lacks what the specification requires, or carries data of another kind.
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

/// Names of the headers after [`HEADER_PREFIX`], in the order [`headers`] gives them.
pub const HEADER_NAMES: [&str; 7] = ["stage", "code", "message", "topic", "partition", "offset", "timestamp"];

/// The headers a dead letter carries beside its original ones: why, and where the refused record stands.
///
/// `timestamp` is the append time of the refused record, as RFC 3339 text; all other values are plain text too, so that
/// every console can show them.
#[must_use]
pub fn headers(
    rejection: &Rejection,
    stage: &str,
    topic: &str,
    partition: i32,
    offset: i64,
    timestamp: Timestamp,
) -> [(String, String); 7] {
    let mut values = [
        stage.to_owned(),
        rejection.code.to_string(),
        rejection.message.clone(),
        topic.to_owned(),
        partition.to_string(),
        offset.to_string(),
        timestamp.to_string(),
    ];
    std::array::from_fn(|at| (format!("{HEADER_PREFIX}{}", HEADER_NAMES[at]), std::mem::take(&mut values[at])))
}
