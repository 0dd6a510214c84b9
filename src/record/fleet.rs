//! The topic between the stages: rows of counts that a session task gathered since its last commit, and signatures.
//!
//! Keyed `graph/NAME`, so that all that is known of a graph meets in one task of the fleet stage.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::event::Route;
use crate::record::position::Place;
use crate::record::rows::Rows;
use crate::record::signature::Signature;
use crate::record::sketch::Sketch;
use crate::record::time::Timestamp;

/// Length of the buckets that counts are kept in.
pub const BUCKET_MS: i64 = 10_000;
/// Most bytes of JSON of one record of rows, unless a single row is larger; what is over goes into the next record.
pub const ROWS_BYTES_MAX: usize = 256 * 1024;
/// Stands for values that were too many to be told apart: counted, never widened on.
pub const OTHER: &str = "~other";

/// Start of the bucket that holds an instant.
#[must_use]
pub fn bucket_of(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis().div_euclid(BUCKET_MS) * BUCKET_MS)
}

/// One record of the topic.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "outputs are boxed, inputs are read one at a time")]
pub enum FleetRecord {
    /// Counts of runs.
    Rows(Rows),
    /// One signature of one run.
    Signature(SignatureRow),
}

impl FleetRecord {
    /// The graph it speaks of.
    #[must_use]
    pub fn graph(&self) -> &str {
        match self {
            Self::Rows(rows) => &rows.graph,
            Self::Signature(row) => &row.graph,
        }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> String {
        key(self.graph())
    }

    /// The task that wrote it, and how far that task had read.
    #[must_use]
    pub fn source(&self) -> (&str, Timestamp) {
        match self {
            Self::Rows(rows) => (&rows.source, rows.source_watermark),
            Self::Signature(row) => (&row.source, row.source_watermark),
        }
    }
}

/// The key of what concerns a graph.
#[must_use]
pub fn key(graph: &str) -> String {
    format!("graph/{graph}")
}

/// What the runs of a row have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RowKey {
    /// The schema that was running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_ref: Option<String>,
    /// The route it was running on. Shadow rows are evidence of a recovery, never exposure.
    pub route: Route,
    /// The override it was running under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_id: Option<String>,
    /// That override's attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_attempt: Option<u32>,
    /// Whether the events came late: no exposure, and too many of them make a window inconclusive.
    #[serde(default, skip_serializing_if = "is_false")]
    pub late: bool,
    /// Cohort dimensions that have a value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dimensions: BTreeMap<String, String>,
}

/// What is counted of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Runs: those that started; of a graph that its task has seen no start of yet, those that ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub runs_started: u64,
    /// Runs that completed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub runs_completed: u64,
    /// Runs that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub runs_failed: u64,
    /// Completed runs that are known to have a required artifact.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub artifacts_present: u64,
    /// Completed runs that are known to lack one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub artifacts_missing: u64,
    /// `latency_ms` of `graph_completed`.
    #[serde(default, skip_serializing_if = "Sketch::is_empty")]
    pub latency: Sketch,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.runs_started, other.runs_started),
            (&mut self.runs_completed, other.runs_completed),
            (&mut self.runs_failed, other.runs_failed),
            (&mut self.artifacts_present, other.artifacts_present),
            (&mut self.artifacts_missing, other.artifacts_missing),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        self.latency.merge(&other.latency);
    }
}

/// One signature of one run. `retry_budget_exhausted` tells the first failure of a run from an exhausted one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignatureRow {
    /// The graph as given to `resolve`.
    pub graph: String,
    /// The task that made it, `session/PARTITION`.
    pub source: String,
    /// Clock of that task when it made this.
    pub source_watermark: Timestamp,
    /// Fingerprint of the signature.
    pub fingerprint: String,
    /// The signature.
    pub signature: Signature,
    /// Code of the matching signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The session.
    pub session_id: String,
    /// Its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Cohort dimensions of the event that have a value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dimensions: BTreeMap<String, String>,
    /// The schema that was running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_ref: Option<String>,
    /// The route it was running on.
    pub route: Route,
    /// The override it was running under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_id: Option<String>,
    /// That override's attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_attempt: Option<u32>,
    /// Id of the event that made it.
    pub event_id: String,
    /// Where that event stands.
    pub position: Place,
    /// What spent the retry budget, as in evidence; absent on a run's first failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exhausted_by: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
