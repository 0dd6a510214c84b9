//! Every named limit of the core, with its default and what happens beyond it.

use serde::{Deserialize, Serialize};

/// Limits are part of the registry version: a decision replays with the limits it was made under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// An event appended longer ago than this never triggers (counted `stale`); 0 = off. Milliseconds.
    pub reaction_age_ms_max: u64,
    /// An event whose `occurred_at` is further behind its append time is `late`: counted, no evidence, no trigger;
    /// 0 = off. Milliseconds.
    pub lateness_ms_max: u64,
    /// Interventions of one session; over: `failed`, `limit:interventions_per_session_max`, and an escalation.
    pub interventions_per_session_max: u32,
    /// Interventions of a task in any 60 s; over: `failed`, `limit:interventions_per_minute_max`.
    pub interventions_per_minute_max: u32,
    /// Live session overrides of a task; over: `failed`, `limit:session_overrides_live_max`.
    pub session_overrides_live_max: u32,
    /// Runs of a task past an irreversible node; over: a failing node reachable from one counts as past it.
    pub irreversible_runs_max: u32,
    /// Sessions a task keeps state of; over: the one idle longest without a live override is forgotten.
    pub sessions_tracked_max: u32,
    /// A session without failures for this long is forgotten, unless an override lives. Milliseconds.
    pub session_idle_ms_max: u64,
    /// Open runs of one session; over: the oldest is forgotten.
    pub runs_per_session_max: u32,
    /// Failing (route, node, shape)s of one run; over: the failure is counted and not tracked.
    pub shapes_per_run_max: u32,
    /// Artifacts remembered of one run; over: counted as not produced.
    pub artifacts_per_run_max: u32,
    /// Events kept as evidence of one signature; over: the oldest are left out.
    pub evidence_events_max: u32,
    /// Failure event ids remembered of one session; over: the oldest is forgotten.
    pub duplicate_ids_max: u32,
    /// Command ids remembered of a task; over: the oldest is forgotten.
    pub command_ids_max: u32,
    /// Longest identity field of an event in bytes; over: dead letter `bad_field`.
    pub field_bytes_max: u32,
    /// Largest event in bytes; over: dead letter `oversized`.
    pub event_bytes_max: u32,
    /// How long a proposal waits for a person. Milliseconds.
    pub approval_ms_max: u64,
    /// Rows of counts of one bucket of a task between two commits; over: the rarest values of the widest dimension fold into
    /// `~other` (counted `rows_folded`).
    pub fleet_rows_max: u32,
    /// Graphs of a task that are remembered to report their starts; over: the oldest is forgotten, and its ends count as runs
    /// until its next start.
    pub graphs_seen_max: u32,
    /// Graphs and rows of a fleet task with counts of the last hour; over: the one counted least recently is forgotten, rows
    /// first (counted `series_evicted`).
    pub fleet_series_max: u32,
    /// Signatures of a fleet task seen within the last hour; over: the one seen least recently is forgotten.
    pub fleet_signatures_max: u32,
    /// Failing sessions of a fleet task within the last hour, once for each of their signatures; over: the one that failed least
    /// recently is forgotten.
    pub fleet_sessions_max: u32,
    /// Session tasks that a fleet task keeps the watermarks of; over: the one silent longest is forgotten.
    pub fleet_sources_max: u32,
    /// Overrides ordered by people that are live in a fleet task; over: the command is refused,
    /// `limit:operator_overrides_live_max`.
    pub operator_overrides_live_max: u32,
    /// Longest life of an override that a person orders; over: the command is refused, `limit:operator_override_ms_max`.
    /// Milliseconds.
    pub operator_override_ms_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            reaction_age_ms_max: 60_000,
            lateness_ms_max: 120_000,
            interventions_per_session_max: 3,
            interventions_per_minute_max: 10_000,
            session_overrides_live_max: 100_000,
            irreversible_runs_max: 100_000,
            sessions_tracked_max: 1_000_000,
            session_idle_ms_max: 86_400_000,
            runs_per_session_max: 64,
            shapes_per_run_max: 256,
            artifacts_per_run_max: 64,
            evidence_events_max: 16,
            duplicate_ids_max: 16,
            command_ids_max: 10_000,
            field_bytes_max: 1024,
            event_bytes_max: 1_048_576,
            approval_ms_max: 86_400_000,
            fleet_rows_max: 10_000,
            graphs_seen_max: 10_000,
            fleet_series_max: 100_000,
            fleet_signatures_max: 10_000,
            fleet_sessions_max: 100_000,
            fleet_sources_max: 10_000,
            operator_overrides_live_max: 1_000,
            operator_override_ms_max: 604_800_000,
        }
    }
}
