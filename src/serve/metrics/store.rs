//! What the keepers of local stores count. Sums over the workers of the process.

use crate::engine::state::store::keeper::StoreCounts;
use crate::serve::metrics::family::{Family, Labels};

/// Counts of all keepers together; all 0 where there are no local stores.
pub fn families(counts: &[StoreCounts]) -> Vec<Family> {
    let sum = |value: fn(&StoreCounts) -> u64| counts.iter().map(value).sum::<u64>();
    let one = |name, help, count| Family::counter(name, help).count(Labels::new(), count);
    vec![
        one(
            "reflex_store_entries_written",
            "Entries of state written to local stores, tombstones included.",
            sum(|c| c.written),
        ),
        one(
            "reflex_store_caught_up",
            "Times a local store held all that its task had committed.",
            sum(|c| c.caught_up),
        ),
        Family::counter(
            "reflex_stores",
            "Local stores by what became of them: set aside is made anew, given up is gone on without.",
        )
        .counts(
            "outcome",
            &[
                ("loaded", sum(|c| c.loaded)),
                ("set_aside", sum(|c| c.set_aside)),
                ("given_up", sum(|c| c.given_up)),
                ("removed", sum(|c| c.removed)),
            ],
        ),
        Family::counter("reflex_store_limit_reached", "How often a limit of local stores was reached.").counts(
            "limit",
            // The first: entries were written early. The second: a store nobody used was removed.
            &[("round_bytes_max", sum(|c| c.parts)), ("store_age_ms_max", sum(|c| c.removed))],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_is_somewhere() {
        // A field that is added breaks this until it is listed here.
        let counts = StoreCounts {
            written: 1000,
            loaded: 1001,
            set_aside: 1002,
            given_up: 1003,
            parts: 1004,
            caught_up: 1005,
            removed: 1006,
        };
        let shown = format!("{:?}", families(&[counts, StoreCounts::default()]));
        for number in 1000..1007 {
            assert!(shown.contains(&number.to_string()), "{number}");
        }
    }
}
