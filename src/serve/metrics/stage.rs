//! What the session stage counts and holds. Sums over the tasks of the process.

use std::sync::Arc;

use crate::engine::shown::watch::{Snapshot, TaskView};
use crate::record::dead_letter::Code;
use crate::serve::metrics::family::{Family, Labels};
use crate::session::Counts;

/// Counters of all tasks together, those that went elsewhere included; what the tasks of now hold.
///
/// Steps are counted when they are taken: those whose transaction was lost with its partitions were counted here, and
/// are counted again where they are taken again.
pub fn families(snapshots: &[Arc<Snapshot>]) -> Vec<Family> {
    let mut counts = Counts::default();
    for snapshot in snapshots {
        counts.add(&snapshot.session);
    }
    let oversized = snapshots.iter().filter_map(|snapshot| snapshot.counters.dead_letters.get(&Code::Oversized)).sum();
    let held =
        |value: fn(&TaskView) -> u64| snapshots.iter().flat_map(|snapshot| &snapshot.tasks).map(value).sum::<u64>();
    let mut families = counted(&counts, oversized);
    families.extend([
        Family::gauge(
            "reflex_sessions_tracked",
            "Sessions that tasks keep state of (limits.sessions_tracked_max each).",
        )
        .whole(Labels::new(), held(|task| task.sessions_tracked)),
        Family::gauge("reflex_overrides_live", "Session overrides that live (limits.session_overrides_live_max each).")
            .whole(Labels::new(), held(|task| task.overrides_live)),
        Family::gauge(
            "reflex_tasks_frozen",
            "Tasks of both stages whose automation a person stopped (`reflex freeze`).",
        )
        .whole(Labels::new(), held(|task| u64::from(task.is_frozen))),
        Family::bytes("reflex_state", "What tracked sessions take in memory, packed; indexes are not counted.")
            .whole(Labels::new(), held(|task| task.state_bytes)),
    ]);
    families
}

fn by_type(c: &Counts) -> Family {
    let help = "The same by type; absent: none. `other`: types this version does not know.";
    Family::counter("reflex_events_by_type", help).counts("type", &c.by_type.iter().collect::<Vec<_>>())
}

/// Every count has its place.
fn counted(c: &Counts, oversized: u64) -> Vec<Family> {
    let one = |name, help, count| Family::counter(name, help).count(Labels::new(), count);
    vec![
        one("reflex_events", "Runtime events taken.", c.events),
        by_type(c),
        Family::counter("reflex_event_findings", "What was found of events; one event may have several or none.")
            .counts(
                "finding",
                &[
                    ("failure", c.failures),
                    ("late", c.late),
                    ("duplicate", c.duplicates),
                    ("unknown_type", c.unknown_types),
                    ("runtime_level", c.runtime_events),
                    ("shadow", c.shadow_events),
                    ("interrupt", c.interrupts),
                    ("untracked", c.untracked),
                ],
            ),
        one("reflex_signatures", "Exhausted failure signatures.", c.signatures),
        Family::counter(
            "reflex_signatures_unanswered",
            "Exhausted signatures that no new intervention answers, by reason.",
        )
        .counts("reason", &[("unmatched", c.unmatched), ("stale", c.stale), ("attached", c.attached)]),
        one("reflex_interventions", "Interventions recorded.", c.interventions),
        Family::counter("reflex_intervention_states", "Interventions that reached a state.").counts(
            "state",
            &[
                ("applied", c.applied),
                ("observed", c.observed),
                ("awaiting_approval", c.proposed),
                ("rejected", c.rejected),
                ("expired", c.expired),
                ("failed", c.refused),
            ],
        ),
        Family::counter("reflex_overrides", "Session overrides published, chained ones included, and removed.")
            .counts("change", &[("published", c.overrides_published), ("removed", c.overrides_removed)]),
        one("reflex_escalations", "Escalations raised.", c.escalations),
        Family::counter("reflex_commands", "Commands by outcome.")
            .counts("outcome", &[("carried_out", c.commands), ("refused", c.commands_refused)]),
        Family::counter(
            "reflex_limit_reached",
            "How often a limit was reached; `interventions`: one of the three that refuse an intervention.",
        )
        .counts(
            "limit",
            &[
                ("reaction_age_ms_max", c.stale),
                ("lateness_ms_max", c.late),
                ("interventions", c.limited),
                ("sessions_tracked_max", c.sessions_evicted),
                ("shapes_per_run_max", c.untracked),
                ("fleet_rows_max", c.rows_folded),
                ("event_bytes_max", oversized),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Counters;
    use crate::record::event::EventType;
    use crate::session::counts::ByType;

    #[test]
    fn every_count_is_somewhere() {
        // A field that is added breaks this until it is listed here.
        let mut by_type = ByType::default();
        (0..1028).for_each(|_| by_type.note(&EventType::Panic));
        let session = Counts {
            events: 1000,
            by_type,
            unknown_types: 1001,
            runtime_events: 1002,
            shadow_events: 1003,
            failures: 1004,
            interrupts: 1005,
            late: 1006,
            stale: 1007,
            duplicates: 1008,
            signatures: 1009,
            unmatched: 1010,
            attached: 1011,
            interventions: 1012,
            applied: 1013,
            observed: 1014,
            proposed: 1015,
            rejected: 1016,
            expired: 1017,
            refused: 1018,
            limited: 1019,
            overrides_published: 1020,
            overrides_removed: 1021,
            escalations: 1022,
            commands: 1023,
            commands_refused: 1024,
            sessions_evicted: 1025,
            untracked: 1026,
            rows_folded: 1027,
        };
        let snapshot = Snapshot { counters: Counters::default(), session, ..Snapshot::default() };
        let shown = format!("{:?}", families(&[Arc::new(snapshot)]));
        for number in 1000..1029 {
            assert!(shown.contains(&number.to_string()), "{number}");
        }
    }
}
