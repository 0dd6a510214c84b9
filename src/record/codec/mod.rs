//! Bytes to records and back: JSON, `CloudEvents`, Avro, told apart by first bytes and headers.
//!
//! [`decode`] is the one door for events: whatever their encoding, it gives their JSON text, which [`json::event`] reads.
//! Plain JSON is borrowed, so that the common case costs one check for UTF-8 and no allocation.
//!
//! | first match wins | encoding |
//! |---|---|
//! | `content-type: application/cloudevents+json` | `CloudEvents`, structured |
//! | a `ce_specversion` header | `CloudEvents`, binary; its data is told apart by the rows below |
//! | bytes `C3 01` | Avro single-object: the schema's fingerprint, then the body |
//! | `__value_schema_id` header with an id | Avro body alone |
//! | byte `00` | schema-registry framing: 4 bytes of schema id, then the Avro body |
//! | else | JSON |
//!
//! Invariant: no bytes make it panic, and it allocates no more than `tests/bad_input.rs` states.

use std::borrow::Cow;

use crate::record::dead_letter::{Code, Rejection};

pub mod avro;
mod base64;
pub mod cloudevents;
pub mod fleet;
pub mod headers;
pub mod json;

pub use avro::{InvalidSchema, RecordKind, Schemas};
pub use headers::Headers;

/// What an event may measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Largest event in bytes, as it came and as JSON text; over: `oversized`.
    pub event_bytes_max: usize,
    /// Longest identity field in bytes, for [`json::event`]; over: `bad_field`.
    pub field_bytes_max: usize,
}

/// The JSON text of an event, borrowed where it came as JSON.
///
/// # Errors
/// `null_value`, `oversized`, `not_json` (not UTF-8), `bad_cloudevent`, `unknown_schema`, `bad_avro`, `bad_time` (an Avro
/// time outside the years 1 to 9999). Everything else is [`json::event`]'s to find.
pub fn decode<'a>(
    headers: &Headers<'_>,
    value: Option<&'a [u8]>,
    schemas: &Schemas,
    limits: DecodeLimits,
) -> Result<Cow<'a, str>, Rejection> {
    let bytes = value.unwrap_or_default();
    if bytes.is_empty() {
        return Err(Rejection::new(Code::NullValue, "no value"));
    }
    let text_bytes_max = limits.event_bytes_max;
    if bytes.len() > text_bytes_max {
        return Err(oversized(text_bytes_max));
    }
    let decoded = if headers.is_empty() {
        by_first_bytes(bytes, schemas, text_bytes_max)?
    } else if let Some(mode) = headers.cloudevents_mode()? {
        cloudevents::event_text(mode, headers, bytes, schemas, text_bytes_max)?
    } else {
        plain(headers, bytes, schemas, text_bytes_max)?
    };
    // Borrowed text is no longer than its bytes; made text may have grown.
    if decoded.len() > text_bytes_max { Err(oversized(text_bytes_max)) } else { Ok(decoded) }
}

/// An event that is no `CloudEvent`, or the data of one.
fn plain<'a>(
    headers: &Headers<'_>,
    bytes: &'a [u8],
    schemas: &Schemas,
    text_bytes_max: usize,
) -> Result<Cow<'a, str>, Rejection> {
    match headers.schema_id() {
        // Readable whatever its schema is: a registry's JSON schema says nothing that is needed here.
        Some(id) if !bytes.starts_with(&avro::SINGLE_OBJECT) && (schemas.has(id) || bytes[0] != b'{') => {
            schemas.body_text(id, bytes, text_bytes_max).map(Cow::Owned)
        }
        _ => by_first_bytes(bytes, schemas, text_bytes_max),
    }
}

fn by_first_bytes<'a>(bytes: &'a [u8], schemas: &Schemas, text_bytes_max: usize) -> Result<Cow<'a, str>, Rejection> {
    match bytes {
        [0xC3, 0x01, ..] => schemas.single_object_text(bytes, text_bytes_max).map(Cow::Owned),
        [0x00, ..] => schemas.framed_text(bytes, text_bytes_max).map(Cow::Owned),
        _ => json::utf8(bytes).map(Cow::Borrowed),
    }
}

fn oversized(bytes_max: usize) -> Rejection {
    Rejection::new(Code::Oversized, format_args!("more than {bytes_max} bytes"))
}
