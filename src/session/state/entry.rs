//! Entries of the state of a task, as they stand in the changelog and in local stores: keys, and values in `MessagePack`
//! with field names. Fields may be added with a default; what a reader does not know it ignores. Anything else is a new
//! [`FORMAT`].
//!
//! | key | value | one per |
//! |---|---|---|
//! | `s/SERIAL` | [`Tracked`](crate::session::table::Tracked) | tracked session |
//! | `c/SEQUENCE` | [`IdEntry`](crate::record::task::seen::IdEntry) | command id remembered |
//! | `g/SEQUENCE` | [`IdEntry`](crate::record::task::seen::IdEntry) | graph that reported a start |
//! | `r/SECOND` | [`RateEntry`] | second of the last minute with interventions |
//! | `task` | [`TaskEntry`] | task |
//!
//! Numbers in keys have 16 hex digits, so that the order of keys is that of numbers.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::record::task::entry::number;
pub use crate::record::task::entry::{Change, decode, encode, hash, is_default, micros};

/// Version of the form of entries.
pub const FORMAT: u32 = 1;

/// Key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A tracked session, by serial.
    Session(u64),
    /// A command id, by the number of the command.
    Command(u64),
    /// A graph that reported a start, by its number.
    Graph(u64),
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
            Self::Graph(number) => format!("g/{number:016x}"),
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
            [b'g', b'/', digits @ ..] => number(digits).map(Self::Graph),
            [b'r', b'/', digits @ ..] => number(digits).map(|number| Self::Second(number.cast_signed())),
            _ => None,
        }
    }
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
    /// Number of the next graph.
    #[serde(default, skip_serializing_if = "is_default")]
    pub next_graph: u64,
    /// Until when runs past an irreversible node may be unknown, in microseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irreversible_unknown_until: Option<i64>,
    /// Version of the registry that was active.
    #[serde(default)]
    pub registry: Cow<'a, str>,
}

/// Interventions of one second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateEntry {
    /// How many, by tenant, in order of tenants.
    pub by_tenant: Vec<(Option<Box<str>>, u32)>,
}
