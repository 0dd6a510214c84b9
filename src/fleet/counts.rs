//! What a fleet task counts: the source of metrics.

use serde::Serialize;

/// Counters of one task since it began; they only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Records of session tasks.
    pub records: u64,
    /// Rows of counts.
    pub rows: u64,
    /// Signatures.
    pub signatures: u64,
    /// Records whose bucket was older than the longest window.
    pub too_old: u64,
    /// Graphs and rows forgotten because a limit was reached.
    pub series_evicted: u64,
    /// Signatures forgotten because a limit was reached.
    pub signatures_evicted: u64,
    /// Failing sessions forgotten because a limit was reached.
    pub sessions_evicted: u64,
    /// Sources forgotten because a limit was reached.
    pub sources_evicted: u64,
    /// Ordered overrides published, replacements included.
    pub overrides_published: u64,
    /// Ordered overrides lifted or expired.
    pub overrides_removed: u64,
    /// Commands carried out.
    pub commands: u64,
    /// Commands refused.
    pub commands_refused: u64,
    /// Commands seen before.
    pub duplicates: u64,
}

impl Counts {
    /// Adds what another task counted.
    pub fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        for (sum, count) in self.each().into_iter().zip(other.each()) {
            *sum += *count;
        }
    }

    fn each(&mut self) -> [&mut u64; 13] {
        let Self {
            records,
            rows,
            signatures,
            too_old,
            series_evicted,
            signatures_evicted,
            sessions_evicted,
            sources_evicted,
            overrides_published,
            overrides_removed,
            commands,
            commands_refused,
            duplicates,
        } = self;
        [
            records,
            rows,
            signatures,
            too_old,
            series_evicted,
            signatures_evicted,
            sessions_evicted,
            sources_evicted,
            overrides_published,
            overrides_removed,
            commands,
            commands_refused,
            duplicates,
        ]
    }
}
