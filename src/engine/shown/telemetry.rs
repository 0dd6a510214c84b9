//! What the log says of what was published: derived from committed transactions, at most once a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::config::TopicNames;
use crate::engine::task::batch::Transaction;
use crate::record::topic::DEAD_LETTER_SUFFIX;

const EVERY: Duration = Duration::from_secs(1);

/// Gathers what was published until it is told.
#[derive(Debug)]
pub struct Telemetry {
    counts: BTreeMap<Arc<str>, u64>,
    stale_told: u64,
    told_at: Option<Instant>,
}

impl Telemetry {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { counts: BTreeMap::new(), stale_told: 0, told_at: None }
    }

    /// A committed transaction; records of a person's interest only.
    pub fn committed(&mut self, transaction: &Transaction, names: &TopicNames) {
        let [state, fleet_state] = names.states();
        let [tape, fleet_tape] = names.tapes();
        let silent = [&names.audit, &names.fleet, state, fleet_state, tape, fleet_tape];
        for publication in transaction.publications.iter().filter(|record| !silent.contains(&&*record.topic)) {
            match self.counts.get_mut(&publication.topic) {
                Some(count) => *count += 1,
                None => drop(self.counts.insert(Arc::clone(&publication.topic), 1)),
            }
        }
    }

    /// Tells what there is, unless something was told a moment ago. `stale`: signatures too old to act on, so far.
    pub fn tell(&mut self, stale: u64, now: Instant) {
        let nothing = self.counts.is_empty() && stale == self.stale_told;
        if nothing || self.told_at.is_some_and(|told_at| now.duration_since(told_at) < EVERY) {
            return;
        }
        self.told_at = Some(now);
        for (topic, records) in std::mem::take(&mut self.counts) {
            if topic.ends_with(DEAD_LETTER_SUFFIX) {
                tracing::warn!(topic = &*topic, records, "inputs that could not be used");
            } else {
                tracing::info!(topic = &*topic, records, "published");
            }
        }
        if stale > self.stale_told {
            let signatures = stale - self.stale_told;
            tracing::warn!(
                signatures,
                "read too long after they were appended (limits.reaction_age_ms_max): no action"
            );
            self.stale_told = stale;
        }
    }
}
