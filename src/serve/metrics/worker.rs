//! What workers count: inputs, transactions, membership. Sums over the workers of the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::Counters;
use crate::engine::shown::counters::Durations;
use crate::engine::shown::watch::Snapshot;
use crate::serve::metrics::family::{Family, Labels};

/// Counters of all workers together.
pub fn families(snapshots: &[Arc<Snapshot>]) -> Vec<Family> {
    let sum = |value: fn(&Counters) -> u64| snapshots.iter().map(|snapshot| value(&snapshot.counters)).sum::<u64>();
    let one = |name, help, value: fn(&Counters) -> u64| Family::counter(name, help).count(Labels::new(), sum(value));
    let merged = |value: fn(&Counters) -> &Durations| {
        let mut all = Durations::default();
        for snapshot in snapshots {
            all.merge(value(&snapshot.counters));
        }
        all
    };
    vec![
        one("reflex_inputs", "Records taken, dead letters included.", |c| c.inputs),
        dead_letters(snapshots),
        one(
            "reflex_inputs_dropped",
            "Records whose effects were dropped with their partitions, before a commit; another process takes them.",
            |c| c.dropped,
        ),
        one("reflex_published", "Records published by committed transactions, state not counted.", |c| c.published),
        one("reflex_state_entries_written", "Entries of state written by committed transactions.", |c| c.state_entries),
        Family::counter("reflex_transactions", "Transactions by outcome; an aborted one is sent again.")
            .counts("outcome", &[("committed", sum(|c| c.transactions)), ("aborted", sum(|c| c.aborted))]),
        one("reflex_producers_rebuilt", "Producers made anew after an unknown outcome or a fencing.", |c| c.rebuilt),
        one(
            "reflex_transactions_torn",
            "Transactions that were not whole though a broker had acknowledged them; the log says what was done.",
            |c| c.torn,
        ),
        one("reflex_fencings", "Memberships lost to another process of the same instance.", |c| c.fenced),
        Family::counter("reflex_rebalances", "Assignments by the group, and those it took away.")
            .counts("change", &[("assigned", sum(|c| c.assignments)), ("revoked", sum(|c| c.revocations))]),
        Family::histogram("reflex_commit", "Whole commits, repetitions included.", &merged(|c| &c.commits)),
        Family::histogram(
            "reflex_transaction",
            "Transactions that succeeded, from begin to the broker's answer.",
            &merged(|c| &c.attempts),
        ),
        Family::histogram("reflex_restore", "Restores of the tasks of an assignment.", &merged(|c| &c.restores)),
        one("reflex_restored_entries", "Entries of state read to restore tasks.", |c| c.restored_entries),
    ]
}

fn dead_letters(snapshots: &[Arc<Snapshot>]) -> Family {
    let mut by_code: BTreeMap<&str, u64> = BTreeMap::new();
    for (code, count) in snapshots.iter().flat_map(|snapshot| &snapshot.counters.dead_letters) {
        *by_code.entry(code.as_str()).or_default() += count;
    }
    let counts: Vec<(&str, u64)> = by_code.into_iter().collect();
    Family::counter("reflex_dead_letters", "Inputs that could not be used, by code; absent: none.")
        .counts("code", &counts)
}
