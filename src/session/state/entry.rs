//! Entries of the state of a task, as they stand in the changelog and in local stores: keys, and values in `MessagePack`
//! with field names. Fields may be added with a default; what a reader does not know it ignores. Anything else is a new
//! [`FORMAT`].
//!
//! | key | value | one per |
//! |---|---|---|
//! | `s/SERIAL` | [`Tracked`](crate::session::table::Tracked) | tracked session |
//! | `c/SEQUENCE` | [`CommandEntry`] | command id remembered |
//! | `r/SECOND` | [`RateEntry`] | second of the last minute with interventions |
//! | `task` | [`TaskEntry`] | task |
//!
//! Numbers in keys have 16 hex digits, so that the order of keys is that of numbers.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

/// Version of the form of entries.
pub const FORMAT: u32 = 1;

/// Key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A tracked session, by serial.
    Session(u64),
    /// A command id, by the number of the command.
    Command(u64),
    /// Interventions of a second, as seconds since the epoch.
    Second(i64),
    /// What the task has one of.
    Task,
}

impl Key {
    /// The key as text.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Session(serial) => format!("s/{serial:016x}"),
            Self::Command(sequence) => format!("c/{sequence:016x}"),
            Self::Second(second) => format!("r/{second:016x}"),
            Self::Task => String::from("task"),
        }
    }

    /// The key of a text; `None` where it is none of these, written exactly so.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"task" => Some(Self::Task),
            [b's', b'/', digits @ ..] => number(digits).map(Self::Session),
            [b'c', b'/', digits @ ..] => number(digits).map(Self::Command),
            [b'r', b'/', digits @ ..] => number(digits).map(|number| Self::Second(number.cast_signed())),
            _ => None,
        }
    }
}

/// A number of exactly 16 small hex digits.
fn number(digits: &[u8]) -> Option<u64> {
    let are_digits = digits.len() == 16 && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let text = std::str::from_utf8(digits).ok().filter(|_| are_digits)?;
    u64::from_str_radix(text, 16).ok()
}

/// What a task has one of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEntry<'a> {
    /// [`FORMAT`] of all entries.
    pub format: u32,
    /// Clock, in microseconds since the epoch.
    pub now: i64,
    /// Whether automation is stopped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub frozen: bool,
    /// Number of the next audit record.
    #[serde(default)]
    pub audit_seq: u64,
    /// Hash of the last audit record.
    #[serde(default)]
    pub audit_hash: Cow<'a, str>,
    /// Serial of the next tracked session.
    #[serde(default)]
    pub next_serial: u64,
    /// Number of the next command.
    #[serde(default)]
    pub next_command: u64,
    /// Until when runs past an irreversible node may be unknown, in microseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irreversible_unknown_until: Option<i64>,
    /// Version of the registry that was active.
    #[serde(default)]
    pub registry: Cow<'a, str>,
}

/// A command id that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandEntry<'a> {
    /// The id.
    pub id: Cow<'a, str>,
}

/// Interventions of one second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateEntry {
    /// How many, by tenant, in order of tenants.
    pub by_tenant: Vec<(Option<Box<str>>, u32)>,
}

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
