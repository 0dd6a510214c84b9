//! Stage 1: from runtime event to session override, in order: normalise, track, signature, signal, intervention,
//! response, override.
//!
//! One door: [`Session::step`] takes one input and appends to [`Effects`] everything that must be published;
//! [`Session::next_deadline`] says when a tick is due.

pub mod counts;
pub mod effects;

pub use counts::Counts;
pub use effects::Effects;

use std::sync::Arc;

use crate::record::command::Command;
use crate::record::event::Event;
use crate::record::position::Position;
use crate::record::time::Timestamp;
use crate::registry::Registry;

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
    /// Time has passed.
    Tick,
}

/// The state of one session task (one partition).
pub struct Session {
    #[allow(dead_code)]
    registry: Arc<Registry>,
    counts: Counts,
}

impl Session {
    /// An empty task; `task` names it in the audit chain (`session/PARTITION`).
    #[must_use]
    pub fn new(_task: &str, registry: Arc<Registry>) -> Self {
        Self { registry, counts: Counts::default() }
    }

    /// Takes one input at `now`, the append time of the record (or of the tick), and appends what must be published.
    /// The clock of the task never goes back; deadlines up to `now` fire first, each at its own time.
    pub fn step(&mut self, _now: Timestamp, _input: Input<'_>, _effects: &mut Effects) {}

    /// When the next deadline is due; a tick at or after it fires it.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        None
    }

    /// What was counted since the task began.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}
