//! The audit topic: every transition of every record, hash-chained per task.

use serde::{Deserialize, Serialize};

use crate::record::position::Evidence;
use crate::record::time::Timestamp;
use crate::record::{canonical_json, canonical_json_of_sorted, is_exact};

/// One transition. The chain's next record carries [`Audit::hash`] of this one as `previous_hash`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// The task that decided, `session/PARTITION` or `fleet/PARTITION`.
    pub task: String,
    /// One more with each record of the task, from 0.
    pub seq: u64,
    /// blake3 (hex) of the previous record's canonical JSON; empty on the first.
    pub previous_hash: String,
    /// Clock of the task at the decision.
    pub at: Timestamp,
    /// `intervention`, `override`, `escalation`, `command`, `task` or `registry`.
    pub entity: String,
    /// Id of the record that changed; the topic's key.
    pub entity_id: String,
    /// State before; null where it is new.
    pub from: Option<String>,
    /// State after.
    pub to: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who, where a person decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The input record that caused it; absent for deadlines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Evidence>,
}

impl Audit {
    /// What [`Self::entity`] can be.
    pub const ENTITIES: [&'static str; 6] = ["intervention", "override", "escalation", "command", "task", "registry"];

    /// blake3 (hex) of this record's canonical JSON.
    #[must_use]
    pub fn hash(&self) -> String {
        let sorted = self.is_exact().then(|| canonical_json_of_sorted(&Sorted::from(self)));
        blake3::hash(&sorted.unwrap_or_else(|| canonical_json(self))).to_hex().to_string()
    }

    fn is_exact(&self) -> bool {
        i64::try_from(self.seq).is_ok_and(is_exact) && self.cause.as_ref().is_none_or(|cause| is_exact(cause.offset))
    }
}

/// The same record with its fields in the order of RFC 8785.
#[derive(Serialize)]
struct Sorted<'a> {
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<SortedCause<'a>>,
    entity: &'a str,
    entity_id: &'a str,
    from: Option<&'a str>,
    previous_hash: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    seq: u64,
    task: &'a str,
    to: &'a str,
}

#[derive(Serialize)]
struct SortedCause<'a> {
    event_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exhausted_by: Option<&'a str>,
    offset: i64,
    partition: i32,
    topic: &'a str,
}

impl<'a> From<&'a Audit> for Sorted<'a> {
    fn from(audit: &'a Audit) -> Self {
        Self {
            at: audit.at,
            author: audit.author.as_deref(),
            cause: audit.cause.as_ref().map(|cause| SortedCause {
                event_id: &cause.event_id,
                exhausted_by: cause.exhausted_by.as_deref(),
                offset: cause.offset,
                partition: cause.partition,
                topic: &cause.topic,
            }),
            entity: &audit.entity,
            entity_id: &audit.entity_id,
            from: audit.from.as_deref(),
            previous_hash: &audit.previous_hash,
            reason: audit.reason.as_deref(),
            seq: audit.seq,
            task: &audit.task,
            to: &audit.to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_canonical_json_whatever_the_fields_hold() {
        let bare = Audit {
            task: String::from("session/0"),
            seq: 0,
            previous_hash: String::new(),
            at: Timestamp::EPOCH,
            entity: String::from("override"),
            entity_id: String::from("ovr_1"),
            from: None,
            to: String::from("active"),
            reason: None,
            author: None,
            cause: None,
        };
        let offsets = [0, -1, 1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN];
        let full = offsets.map(|offset| Audit {
            seq: offset.unsigned_abs(),
            from: Some(String::from("a \"b\" \\ / \u{0} \u{8}\t\n\u{c}\r \u{1f} \u{7f} \u{2028} é \u{10ffff}")),
            reason: Some(String::new()),
            author: Some(String::from("ann")),
            cause: Some(Evidence {
                topic: String::from("reflex.events"),
                partition: i32::MIN,
                offset,
                event_id: String::from("e"),
                exhausted_by: (offset == 0).then(|| String::from("graph_failed")),
            }),
            ..bare.clone()
        });
        for audit in full.iter().chain([&bare]) {
            assert_eq!(audit.hash(), blake3::hash(&canonical_json(audit)).to_hex().to_string(), "{audit:?}");
            let plain = canonical_json(&Sorted::from(audit)) == canonical_json(audit);
            assert!(plain, "the sorted form says the same: {audit:?}");
        }
    }
}
