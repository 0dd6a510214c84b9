//! Entries of the state of a task: keys are text, values `MessagePack` with field names. Fields may be added with a
//! default; what a reader does not know it ignores.

use serde::Serialize;
use serde::de::DeserializeOwned;
use twox_hash::XxHash3_128;

/// One changed entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its key.
    pub key: String,
    /// Its value; `None`: it is gone (a tombstone).
    pub value: Option<Vec<u8>>,
}

/// The bytes of a value.
///
/// The types of this module and those they hold have string keys and known lengths, so that this cannot fail.
#[must_use]
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).unwrap_or_default()
}

/// The value of some bytes.
///
/// # Errors
/// Bytes that are not such a value.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    rmp_serde::from_slice(bytes)
}

/// Hash of an entry. The hash of a state is the wrapping sum over its entries: their order does not matter.
#[must_use]
pub fn hash(key: &[u8], value: &[u8]) -> u128 {
    let mut hasher = XxHash3_128::new();
    hasher.write(key);
    hasher.write(&[0]);
    hasher.write(value);
    hasher.finish_128()
}

/// Why a task cannot be restored. None of these heals by trying again.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Written by a version of another form of entries.
    #[error("state of format {found}, this version reads format {reads}: restore with the version that wrote it")]
    Format {
        /// The format found.
        found: u32,
        /// The format this version reads.
        reads: u32,
    },
    /// A key that is none of a task of this stage.
    #[error("`{key}` is no key of a {stage} task")]
    Key {
        /// The key, as far as it is text.
        key: String,
        /// The stage.
        stage: &'static str,
    },
    /// A value that is not what its key says.
    #[error("entry `{key}`: {why}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// Entries that do not belong together.
    #[error("entries do not fit together: {0}")]
    Torn(&'static str),
}

/// The value of the entry of a key.
///
/// # Errors
/// Bytes that are not such a value.
pub fn read<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, RestoreError> {
    decode(value).map_err(|error| RestoreError::Value { key: key.to_owned(), why: error.to_string() })
}

/// The value of the entry `task`, of which only the format is sure before it is known.
///
/// # Errors
/// Another format, or bytes that are not such a value.
pub fn read_task<T: DeserializeOwned>(value: &[u8], reads: u32) -> Result<T, RestoreError> {
    /// All that is sure of an entry of whatever format.
    #[derive(serde::Deserialize)]
    struct Format {
        format: u32,
    }
    match read::<Format>("task", value)?.format {
        found if found == reads => read("task", value),
        found => Err(RestoreError::Format { found, reads }),
    }
}

/// A number of exactly 16 small hex digits.
#[must_use]
pub fn number(digits: &[u8]) -> Option<u64> {
    let are_digits = digits.len() == 16 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let text = std::str::from_utf8(digits).ok().filter(|_| are_digits)?;
    u64::from_str_radix(text, 16).ok()
}

/// Whether a field need not be written.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Instants as whole microseconds: shorter, and faster to read, than text.
pub mod micros {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::record::time::Timestamp;

    /// Writes an instant.
    ///
    /// # Errors
    /// Those of the serializer.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(at.as_micros())
    }

    /// Reads an instant.
    ///
    /// # Errors
    /// Anything but a whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(deserializer).map(Timestamp::from_micros)
    }
}
