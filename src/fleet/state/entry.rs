//! Entries of the state of a fleet task.
//!
//! | key | value | one per |
//! |---|---|---|
//! | `r/SERIAL` | [`SeriesEntry`](crate::fleet::window::SeriesEntry) | graph or row with counts |
//! | `b/BUCKET/SERIAL` | [`Cell`](crate::fleet::window::Cell) | series and bucket |
//! | `f/SERIAL` | [`SignatureEntry`](crate::fleet::signatures::SignatureEntry) | signature |
//! | `x/SERIAL/SESSION` | [`SessionEntry`](crate::fleet::signatures::SessionEntry) | signature and session that failed with it |
//! | `o/KEY` | [`Override`](crate::record::overrides::Override) | live override that a person ordered, by its key on the topic |
//! | `w/SOURCE` | [`SourceEntry`](crate::fleet::watermark::SourceEntry) | session task |
//! | `c/SEQUENCE` | [`IdEntry`](crate::record::task::seen::IdEntry) | command id remembered |
//! | `task` | [`TaskEntry`] | task |
//!
//! Numbers in keys have 16 hex digits.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::record::task::entry::{is_default, number};

/// Version of the form of entries.
pub const FORMAT: u32 = 1;

/// Key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A series, by serial.
    Series(u64),
    /// Counts, by bucket and serial.
    Cell(i64, u64),
    /// A signature, by serial.
    Signature(u64),
    /// A session that failed with a signature, by its serial and the hash of the session.
    Session(u64, u64),
    /// An ordered override, by its key on the topic.
    Ordered(String),
    /// A source, by name.
    Source(String),
    /// A command id, by the number of the command.
    Command(u64),
    /// What the task has one of.
    Task,
}

impl Key {
    /// The key as text.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Series(serial) => format!("r/{serial:016x}"),
            Self::Cell(bucket, serial) => format!("b/{bucket:016x}/{serial:016x}"),
            Self::Signature(serial) => format!("f/{serial:016x}"),
            Self::Session(serial, session) => format!("x/{serial:016x}/{session:016x}"),
            Self::Ordered(key) => format!("o/{key}"),
            Self::Source(source) => format!("w/{source}"),
            Self::Command(sequence) => format!("c/{sequence:016x}"),
            Self::Task => String::from("task"),
        }
    }

    /// The key of a text; `None` where it is none of these, written exactly so.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"task" => Some(Self::Task),
            [b'r', b'/', digits @ ..] => number(digits).map(Self::Series),
            [b'b', b'/', digits @ ..] => pair(digits).map(|(bucket, serial)| Self::Cell(bucket.cast_signed(), serial)),
            [b'f', b'/', digits @ ..] => number(digits).map(Self::Signature),
            [b'x', b'/', digits @ ..] => pair(digits).map(|(serial, session)| Self::Session(serial, session)),
            [b'o', b'/', key @ ..] => Some(Self::Ordered(std::str::from_utf8(key).ok()?.to_owned())),
            [b'w', b'/', source @ ..] => Some(Self::Source(std::str::from_utf8(source).ok()?.to_owned())),
            [b'c', b'/', digits @ ..] => number(digits).map(Self::Command),
            _ => None,
        }
    }
}

fn pair(digits: &[u8]) -> Option<(u64, u64)> {
    let (first, second) = digits.split_at_checked(16)?;
    Some((number(first)?, number(second.strip_prefix(b"/")?)?))
}

/// What a task has one of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEntry<'a> {
    /// [`FORMAT`] of all entries.
    pub format: u32,
    /// Clock, in microseconds since the epoch.
    pub now: i64,
    /// Watermark, in microseconds since the epoch.
    pub watermark: i64,
    /// Whether automation is stopped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub frozen: bool,
    /// Number of the next audit record.
    #[serde(default)]
    pub audit_seq: u64,
    /// Hash of the last audit record.
    #[serde(default)]
    pub audit_hash: Cow<'a, str>,
    /// Number of the next series or signature.
    #[serde(default)]
    pub next_serial: u64,
    /// Number of the next command.
    #[serde(default)]
    pub next_command: u64,
    /// Version of the registry that was active.
    #[serde(default)]
    pub registry: Cow<'a, str>,
}
