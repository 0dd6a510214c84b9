//! What the fleet stage counts. Sums over the tasks of the process.

use std::sync::Arc;

use crate::engine::shown::watch::Snapshot;
use crate::fleet::Counts;
use crate::serve::metrics::family::{Family, Labels};

/// Counters of all tasks together, those that went elsewhere included.
pub fn families(snapshots: &[Arc<Snapshot>]) -> Vec<Family> {
    let mut c = Counts::default();
    for snapshot in snapshots {
        c.add(&snapshot.fleet);
    }
    let one = |name, help, count| Family::counter(name, help).count(Labels::new(), count);
    vec![
        one("reflex_fleet_records", "Records of session tasks taken.", c.records),
        Family::counter("reflex_fleet_items", "What those records held, by kind.")
            .counts("kind", &[("row", c.rows), ("signature", c.signatures)]),
        one("reflex_fleet_too_old", "Records whose bucket was older than the longest window.", c.too_old),
        Family::counter("reflex_fleet_commands", "Commands of the fleet stage by outcome.").counts(
            "outcome",
            &[("carried_out", c.commands), ("refused", c.commands_refused), ("duplicate", c.duplicates)],
        ),
        Family::counter("reflex_fleet_overrides", "Overrides of cohorts that people ordered, by what became of them.")
            .counts("change", &[("published", c.overrides_published), ("removed", c.overrides_removed)]),
        Family::counter("reflex_fleet_limit_reached", "How often a limit of the fleet stage was reached.").counts(
            "limit",
            &[
                ("fleet_series_max", c.series_evicted),
                ("fleet_signatures_max", c.signatures_evicted),
                ("fleet_sessions_max", c.sessions_evicted),
                ("fleet_sources_max", c.sources_evicted),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_is_somewhere() {
        // A field that is added breaks this until it is listed here.
        let fleet = Counts {
            records: 2000,
            rows: 2001,
            signatures: 2002,
            too_old: 2003,
            series_evicted: 2004,
            signatures_evicted: 2005,
            sessions_evicted: 2006,
            sources_evicted: 2007,
            commands: 2008,
            commands_refused: 2009,
            duplicates: 2010,
            overrides_published: 2011,
            overrides_removed: 2012,
        };
        let snapshot = Snapshot { fleet, ..Snapshot::default() };
        let shown = format!("{:?}", families(&[Arc::new(snapshot)]));
        for number in 2000..2013 {
            assert!(shown.contains(&number.to_string()), "{number}");
        }
    }
}
