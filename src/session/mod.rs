//! Stage 1: from runtime event to session override, in order: normalise, track, signature, response, intervention,
//! override.
//!
//! One door: [`Session::step`] takes one input and appends to [`Effects`] everything that must be published;
//! [`Session::next_deadline`] says when a tick is due. State is changed directly.
//!
//! Invariant: the same inputs in the same order give the same effects, byte for byte, and a healthy event of a session
//! without a failure allocates nothing (`tests/determinism.rs`, `tests/allocation.rs`).

pub mod commands;
pub mod counts;
pub mod deadlines;
pub mod exposure;
pub mod guards;
pub mod ids;
pub mod intervention;
pub mod lane;
pub mod lifecycle;
pub mod mask;
pub mod normalise;
pub mod overrides;
pub mod rate;
pub mod response;
pub mod rows;
pub mod signature;
pub mod state;
pub mod table;
pub mod track;

pub use crate::record::task::{Change, Effects, RestoreError};
pub use counts::Counts;
pub use state::restore::Restore;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::record::command::Command;
use crate::record::event::{Event, EventType, Route};
use crate::record::position::Position;
use crate::record::scope::DIMENSIONS;
use crate::record::task::chain::Chain;
use crate::record::task::seen::Seen;
use crate::record::time::Timestamp;
use crate::registry::Registry;
use crate::session::exposure::Exposure;
use crate::session::guards::Guards;
use crate::session::state::Marks;
use crate::session::table::Table;

/// One input of a session task.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A runtime event.
    Event {
        /// Where it stands in the log.
        position: Position<'a>,
        /// The event.
        event: &'a Event<'a>,
        /// Broker-corrected wall time at which it was read: serves the reaction-age gate only. Replay gives the
        /// append time.
        received_at: Timestamp,
    },
    /// A decision on one session, or a freeze.
    Command {
        /// Where it stands in the log.
        position: Position<'a>,
        /// The command.
        command: &'a Command,
    },
    /// The activation of a registry version.
    Activation {
        /// Where it stands in the log.
        position: Position<'a>,
        /// The command.
        command: &'a Command,
        /// The version it names; none: there is no such version, it is refused.
        registry: Option<&'a Arc<Registry>>,
    },
    /// Time has passed.
    Tick,
}

/// An event as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The event.
    pub event: &'a Event<'a>,
    /// Where it stands in the log.
    pub position: Position<'a>,
    /// Too far behind its append time: counted, no evidence, no trigger.
    pub late: bool,
    /// Read too long after it was appended: never triggers.
    pub stale: bool,
}

/// The state of one session task (one partition).
#[derive(Debug)]
pub struct Session {
    task: String,
    now: Timestamp,
    registry: Arc<Registry>,
    /// Node names worth a closer look when one completes.
    irreversible_nodes: BTreeSet<String>,
    /// Cohort dimensions noted with each signature.
    dimensions: Vec<String>,
    frozen: bool,
    table: Table,
    guards: Guards,
    chain: Chain,
    seen: Seen,
    /// Graphs that reported a start: their runs are counted by starts.
    graphs: Seen,
    exposure: Exposure,
    counts: Counts,
    marks: Marks,
}

impl Session {
    /// An empty task; `task` names it in the audit chain (`session/PARTITION`).
    #[must_use]
    pub fn new(task: &str, registry: Arc<Registry>) -> Self {
        let dimensions = dimensions(&registry);
        Self {
            task: task.to_owned(),
            now: Timestamp::MIN,
            irreversible_nodes: signature::irreversible_nodes(&registry),
            exposure: Exposure::new(&registry, &dimensions),
            dimensions,
            marks: Marks::new(&registry),
            registry,
            frozen: false,
            table: Table::default(),
            guards: Guards::default(),
            chain: Chain::new(task),
            seen: Seen::new('c'),
            graphs: Seen::new('g'),
            counts: Counts::default(),
        }
    }

    /// Takes one input at `now`, the append time of the record (or of the tick), and appends what must be published.
    /// The clock of the task never goes back; deadlines up to `now` fire first, each at its own time.
    pub fn step(&mut self, now: Timestamp, input: Input<'_>, effects: &mut Effects) {
        self.fire_deadlines(now, effects);
        self.now = self.now.max(now);
        match input {
            Input::Event { position, event, received_at } => {
                let limits = &self.registry.limits;
                let behind = event.occurred_at.map_or(0, |occurred_at| now.millis_since(occurred_at));
                let arrival = Arrival {
                    event,
                    position,
                    late: exceeds(behind, limits.lateness_ms_max),
                    stale: exceeds(received_at.millis_since(now), limits.reaction_age_ms_max),
                };
                self.event(&arrival, effects);
            }
            Input::Command { position, command } => self.command(position, command, None, effects),
            Input::Activation { position, command, registry } => self.command(position, command, registry, effects),
            Input::Tick => {}
        }
    }

    fn event(&mut self, arrival: &Arrival<'_>, effects: &mut Effects) {
        let event = arrival.event;
        self.counts.events += 1;
        self.counts.by_type.note(&event.event_type);
        self.counts.late += u64::from(arrival.late);
        if event.is_runtime_level() {
            self.counts.runtime_events += 1;
            return;
        }
        self.counts.shadow_events += u64::from(*event.route() == Route::Shadow);
        match &event.event_type {
            EventType::NodeStarted | EventType::NodeCompleted | EventType::Progress | EventType::ArtifactProduced => {
                self.went_on(event);
            }
            EventType::GraphStarted => {
                self.expose(arrival);
                self.graph_started(event);
            }
            EventType::GraphCompleted => {
                self.expose(arrival);
                self.run_ended(arrival, effects);
            }
            EventType::GraphFailed => {
                if self.graph_failed(arrival, effects) {
                    self.run_ended(arrival, effects);
                }
            }
            EventType::SessionEnded => self.session_ended(arrival, effects),
            EventType::OverrideIgnored => self.override_ignored(arrival, effects),
            EventType::RetriesExhausted => self.retries_exhausted(arrival, effects),
            kind if kind.is_failure() => self.failed(arrival, effects),
            kind => self.counts.unknown_types += u64::from(!kind.is_known()),
        }
    }

    /// When the next deadline is due; a tick at or after it fires it.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.table.deadlines.next()
    }

    /// What was counted since the task began.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether automation is stopped.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// What it decides by; a registry without a version: none was ever activated.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The clock of the task; none: it took nothing yet.
    #[must_use]
    pub fn watermark(&self) -> Option<Timestamp> {
        Some(self.now).filter(|now| *now > Timestamp::MIN)
    }

    /// What the tracked sessions take in memory, indexes and what changed since the last commit not counted.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        self.table.bytes
    }

    /// Use of the guards now: live overrides and tracked sessions.
    #[must_use]
    pub fn in_use(&self) -> (u32, usize) {
        (self.guards.overrides_live.total(), self.table.tracked())
    }
}

/// Cohort dimensions that signatures are noted with, in order.
fn dimensions(registry: &Registry) -> Vec<String> {
    let recurrences = registry.signals.iter().filter_map(|signal| signal.recurrence.as_ref());
    let named = recurrences.flat_map(|recurrence| recurrence.dimensions.iter().map(String::as_str));
    let dimensions: BTreeSet<&str> = DIMENSIONS.into_iter().chain(named).collect();
    dimensions.into_iter().map(str::to_owned).collect()
}

/// Whether an age is over a maximum of milliseconds; 0 = off.
fn exceeds(age_ms: i64, max_ms: u64) -> bool {
    max_ms > 0 && u64::try_from(age_ms).is_ok_and(|age_ms| age_ms > max_ms)
}
