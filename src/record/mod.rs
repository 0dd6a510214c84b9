//! What travels on topics: one file per record, its types and its key; `codec` turns bytes into records and back.
//!
//! Invariant: every record round-trips through JSON and Avro, and its Avro schema has the same field names
//! (`tests/schemas.rs`).

pub mod audit;
pub mod codec;
pub mod command;
pub mod dead_letter;
pub mod escalation;
pub mod event;
pub mod fleet;
pub mod id;
pub mod intervention;
pub(crate) mod object;
pub mod observation;
mod open_enum;
pub mod output;
pub mod overrides;
pub mod position;
pub mod rows;
pub mod scope;
pub mod signature;
pub mod sketch;
pub mod task;
pub mod text;
pub mod time;
pub mod topic;

pub(crate) use open_enum::open_enum;

/// Serialises to RFC 8785 JSON: the one byte form used for keys, fingerprints and hashes.
///
/// The records of this crate hold no floats that are not finite and no maps with keys other than strings, the only
/// two things canonicalisation can refuse; so it cannot fail for them.
#[must_use]
pub fn canonical_json<T: serde::Serialize>(value: &T) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).unwrap_or_default()
}

/// The same bytes, many times cheaper, of what is declared in the order of RFC 8785 already (keys by UTF-16 code unit) and
/// holds no other numbers than whole ones that a double holds exactly. Debug builds check.
#[must_use]
pub(crate) fn canonical_json_of_sorted<T: serde::Serialize>(value: &T) -> Vec<u8> {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    debug_assert_eq!(bytes, canonical_json(value), "not in canonical order");
    bytes
}

/// Whether a double holds a whole number exactly.
pub(crate) fn is_exact(number: i64) -> bool {
    number.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS
}
