//! The audit topic: every transition of every record, hash-chained per task.

use serde::{Deserialize, Serialize};

use crate::record::canonical_json;
use crate::record::position::Evidence;
use crate::record::time::Timestamp;

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
    /// `intervention`, `override`, `command` or `task`.
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
    /// blake3 (hex) of this record's canonical JSON.
    #[must_use]
    pub fn hash(&self) -> String {
        blake3::hash(&canonical_json(self)).to_hex().to_string()
    }
}
