//! What a session task counts: the source of metrics and of the replay report.

use serde::Serialize;

/// Counters of one task since it began; they only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Events taken.
    pub events: u64,
    /// Events of a type this version does not know.
    pub unknown_types: u64,
    /// Events of a whole runtime.
    pub runtime_events: u64,
    /// Events on the shadow route.
    pub shadow_events: u64,
    /// Failure events (late ones too; duplicates and those of a shadow not).
    pub failures: u64,
    /// Interrupts, approvals and deferrals that came as failure events.
    pub interrupts: u64,
    /// Events too far behind their append time.
    pub late: u64,
    /// Signatures of events too old to act on.
    pub stale: u64,
    /// Failure events seen before.
    pub duplicates: u64,
    /// Exhausted signatures.
    pub signatures: u64,
    /// Exhausted signatures that no signal names.
    pub unmatched: u64,
    /// Exhausted signatures attached to a live override or a waiting proposal.
    pub attached: u64,
    /// Interventions recorded.
    pub interventions: u64,
    /// Interventions that reached `applied`.
    pub applied: u64,
    /// Interventions that ended `observed`.
    pub observed: u64,
    /// Interventions that waited for a person.
    pub proposed: u64,
    /// Interventions that ended `rejected`.
    pub rejected: u64,
    /// Interventions that ended `expired`.
    pub expired: u64,
    /// Interventions that ended `failed`.
    pub refused: u64,
    /// Of these: because of a limit.
    pub limited: u64,
    /// Overrides published, chained replacements included.
    pub overrides_published: u64,
    /// Overrides removed.
    pub overrides_removed: u64,
    /// Escalations raised.
    pub escalations: u64,
    /// Commands carried out.
    pub commands: u64,
    /// Commands refused.
    pub commands_refused: u64,
    /// Sessions forgotten because a limit was reached.
    pub sessions_evicted: u64,
    /// Failures not tracked because a limit was reached.
    pub untracked: u64,
    /// Rows of counts folded into others because a limit was reached.
    pub rows_folded: u64,
}

impl Counts {
    /// Adds what another task counted.
    pub fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        for (sum, count) in self.each().into_iter().zip(other.each()) {
            *sum += *count;
        }
    }

    fn each(&mut self) -> [&mut u64; 28] {
        let Self {
            events,
            unknown_types,
            runtime_events,
            shadow_events,
            failures,
            interrupts,
            late,
            stale,
            duplicates,
            signatures,
            unmatched,
            attached,
            interventions,
            applied,
            observed,
            proposed,
            rejected,
            expired,
            refused,
            limited,
            overrides_published,
            overrides_removed,
            escalations,
            commands,
            commands_refused,
            sessions_evicted,
            untracked,
            rows_folded,
        } = self;
        [
            events,
            unknown_types,
            runtime_events,
            shadow_events,
            failures,
            interrupts,
            late,
            stale,
            duplicates,
            signatures,
            unmatched,
            attached,
            interventions,
            applied,
            observed,
            proposed,
            rejected,
            expired,
            refused,
            limited,
            overrides_published,
            overrides_removed,
            escalations,
            commands,
            commands_refused,
            sessions_evicted,
            untracked,
            rows_folded,
        ]
    }
}
