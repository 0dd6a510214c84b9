//! Where a record stands in the log: the evidence of every decision.

use serde::{Deserialize, Serialize};

/// One input record as evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The topic it was read from.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset in the partition.
    pub offset: i64,
    /// The id the runtime gave the event.
    pub event_id: String,
    /// On the triggering event, the last of the list: what spent the retry budget (`retries_exhausted`,
    /// `max_attempts`, `non_retryable`, `timeout`, `no_policy`, `graph_failed`, `identical_failures`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exhausted_by: Option<String>,
}

/// Position of an input record, before it becomes evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position<'a> {
    /// The topic it was read from.
    pub topic: &'a str,
    /// Its partition.
    pub partition: i32,
    /// Its offset in the partition.
    pub offset: i64,
}

impl Position<'_> {
    /// The evidence entry of the event at this position.
    #[must_use]
    pub fn evidence(&self, event_id: &str) -> Evidence {
        Evidence {
            topic: self.topic.to_owned(),
            partition: self.partition,
            offset: self.offset,
            event_id: event_id.to_owned(),
            exhausted_by: None,
        }
    }
}

/// A position as it stands in records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The topic it was read from.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset in the partition.
    pub offset: i64,
}
