//! What a session task counts: the source of metrics and of the replay report.

use serde::{Serialize, Serializer};

use crate::record::event::EventType;

/// Known types of events, and one place for all others.
const TYPES: usize = EventType::WORDS.len() + 1;
/// What types that this version does not know are counted under.
pub const OTHER: &str = "other";

/// Events by type; of types this version does not know there may be any number, they share a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByType([u64; TYPES]);

impl Default for ByType {
    fn default() -> Self {
        Self([0; TYPES])
    }
}

impl ByType {
    /// Counts one event.
    pub fn note(&mut self, event_type: &EventType) {
        self.0[event_type.index()] += 1;
    }

    /// Adds what another task counted.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// Types with their counts, those of which none came left out.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let words = EventType::WORDS.iter().copied().chain([OTHER]);
        words.zip(self.0).filter(|(_, count)| *count > 0)
    }
}

impl Serialize for ByType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Counters of one task since it began; they only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Events taken.
    pub events: u64,
    /// The same by type.
    pub by_type: ByType,
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
        self.by_type.add(&other.by_type);
        let mut other = other.clone();
        for (sum, count) in self.each().into_iter().zip(other.each()) {
            *sum += *count;
        }
    }

    /// All but those by type.
    fn each(&mut self) -> [&mut u64; 28] {
        [
            &mut self.events,
            &mut self.unknown_types,
            &mut self.runtime_events,
            &mut self.shadow_events,
            &mut self.failures,
            &mut self.interrupts,
            &mut self.late,
            &mut self.stale,
            &mut self.duplicates,
            &mut self.signatures,
            &mut self.unmatched,
            &mut self.attached,
            &mut self.interventions,
            &mut self.applied,
            &mut self.observed,
            &mut self.proposed,
            &mut self.rejected,
            &mut self.expired,
            &mut self.refused,
            &mut self.limited,
            &mut self.overrides_published,
            &mut self.overrides_removed,
            &mut self.escalations,
            &mut self.commands,
            &mut self.commands_refused,
            &mut self.sessions_evicted,
            &mut self.untracked,
            &mut self.rows_folded,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_place_and_unknown_ones_share_one() {
        let mut counts = Counts::default();
        for (index, word) in EventType::WORDS.iter().enumerate() {
            (0..=index).for_each(|_| counts.by_type.note(&EventType::from(*word)));
        }
        for word in ["coffee_break", "slo_burning"] {
            counts.by_type.note(&EventType::from(word));
        }
        counts.add(&counts.clone());
        let expected = EventType::WORDS.iter().copied().zip((1..).map(|count| 2 * count)).chain([(OTHER, 4)]);
        assert_eq!(counts.by_type.iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let json = serde_json::to_value(&counts).expect("JSON");
        assert_eq!((&json["by_type"]["graph_started"], &json["by_type"]["other"]), (&2.into(), &4.into()));
        assert_eq!(ByType::default().iter().count(), 0);
    }

    #[test]
    fn every_count_is_added() {
        let mut counts = Counts::default();
        counts.each().into_iter().for_each(|count| *count = 1);
        counts.add(&counts.clone());
        let json = serde_json::to_value(&counts).expect("JSON");
        let fields = json.as_object().expect("fields").iter().filter(|(name, _)| *name != "by_type");
        let other: Vec<_> = fields.filter(|(_, count)| **count != 2).collect();
        assert!(other.is_empty(), "{other:?}");
    }
}
