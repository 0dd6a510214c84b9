//! What decides in a task, of whichever stage: one door for the engine.

use std::sync::Arc;

use crate::engine::task::Record;
use crate::engine::task::intake::Intake;
use crate::fleet::{self, Fleet};
use crate::record::codec::DecodeLimits;
use crate::record::command::Command;
use crate::record::dead_letter::Rejection;
use crate::record::position::Position;
use crate::record::task::{Change, Effects};
use crate::record::time::Timestamp;
use crate::registry::Registry;
use crate::session::{self, Counts, Session};

/// The state of a task, with its rules.
pub enum Core {
    /// Of the session stage.
    Session(Box<Session>),
    /// Of the fleet stage.
    Fleet(Box<Fleet>),
}

impl Core {
    /// Takes a record that is no command.
    pub fn record(
        &mut self,
        record: Record<'_>,
        position: Position<'_>,
        wall: Timestamp,
        intake: &Intake,
        limits: DecodeLimits,
        effects: &mut Effects,
    ) -> Result<(), Rejection> {
        match self {
            Self::Session(session) => {
                let text = intake.text(record.raw, limits)?;
                let event = intake.event(&text, record.raw.key, limits)?;
                let input = session::Input::Event { position, event: &event, received_at: wall };
                session.step(record.at, input, effects);
                Ok(())
            }
            Self::Fleet(fleet) => {
                let observation = intake.observation(record.raw, limits)?;
                let input = fleet::Input::Observation { position, record: &observation };
                fleet.step(record.at, input, effects);
                Ok(())
            }
        }
    }

    /// Takes a command.
    pub fn command(&mut self, at: Timestamp, position: Position<'_>, command: &Command, effects: &mut Effects) {
        match self {
            Self::Session(session) => session.step(at, session::Input::Command { position, command }, effects),
            Self::Fleet(fleet) => fleet.step(at, fleet::Input::Command { position, command }, effects),
        }
    }

    /// Takes an activation; no registry: the version it names does not exist.
    pub fn activation(
        &mut self,
        at: Timestamp,
        position: Position<'_>,
        command: &Command,
        registry: Option<&Arc<Registry>>,
        effects: &mut Effects,
    ) {
        match self {
            Self::Session(session) => {
                session.step(at, session::Input::Activation { position, command, registry }, effects);
            }
            Self::Fleet(fleet) => {
                fleet.step(at, fleet::Input::Activation { position, command, registry }, effects);
            }
        }
    }

    /// Lets time pass.
    pub fn tick(&mut self, at: Timestamp, effects: &mut Effects) {
        match self {
            Self::Session(session) => session.step(at, session::Input::Tick, effects),
            Self::Fleet(fleet) => fleet.step(at, fleet::Input::Tick, effects),
        }
    }

    /// When a tick is due.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        match self {
            Self::Session(session) => session.next_deadline(),
            Self::Fleet(fleet) => fleet.next_deadline(),
        }
    }

    /// What has added up since the last commit, as effects.
    pub fn flush(&mut self, effects: &mut Effects) {
        match self {
            Self::Session(session) => session.flush(effects),
            Self::Fleet(_) => {}
        }
    }

    /// Entries of state that changed.
    pub fn take_changes(&mut self) -> Vec<Change> {
        match self {
            Self::Session(session) => session.take_changes(),
            Self::Fleet(fleet) => fleet.take_changes(),
        }
    }

    /// What was taken is committed.
    pub fn committed(&mut self) {
        match self {
            Self::Session(session) => session.committed(),
            Self::Fleet(fleet) => fleet.committed(),
        }
    }

    /// Back to the last commit.
    pub fn rollback(&mut self) {
        match self {
            Self::Session(session) => session.rollback(),
            Self::Fleet(fleet) => fleet.rollback(),
        }
    }

    /// Hash of the state as its changes were last taken.
    pub fn state_hash(&self) -> u128 {
        match self {
            Self::Session(session) => session.state_hash(),
            Self::Fleet(fleet) => fleet.state_hash(),
        }
    }

    /// What it decides by.
    pub fn registry(&self) -> &Arc<Registry> {
        match self {
            Self::Session(session) => session.registry(),
            Self::Fleet(fleet) => fleet.registry(),
        }
    }

    /// Signatures that came too late to act on.
    pub fn stale(&self) -> u64 {
        match self {
            Self::Session(session) => session.counts().stale,
            Self::Fleet(_) => 0,
        }
    }

    /// What a session task counted.
    pub fn session_counts(&self) -> Option<&Counts> {
        match self {
            Self::Session(session) => Some(session.counts()),
            Self::Fleet(_) => None,
        }
    }

    /// What a fleet task counted.
    pub fn fleet_counts(&self) -> Option<&fleet::Counts> {
        match self {
            Self::Session(_) => None,
            Self::Fleet(fleet) => Some(fleet.counts()),
        }
    }

    /// Its clock; none: it took nothing yet.
    pub fn clock(&self) -> Option<Timestamp> {
        match self {
            Self::Session(session) => session.watermark(),
            Self::Fleet(fleet) => fleet.clock(),
        }
    }

    /// Sessions it keeps state of.
    pub fn sessions_tracked(&self) -> u64 {
        match self {
            Self::Session(session) => session.in_use().1 as u64,
            Self::Fleet(_) => 0,
        }
    }

    /// Overrides of it that live.
    pub fn overrides_live(&self) -> u64 {
        match self {
            Self::Session(session) => u64::from(session.in_use().0),
            Self::Fleet(_) => 0,
        }
    }

    /// Whether a person stopped its automation.
    pub fn is_frozen(&self) -> bool {
        match self {
            Self::Session(session) => session.is_frozen(),
            Self::Fleet(fleet) => fleet.is_frozen(),
        }
    }

    /// What its state takes in memory, indexes not counted.
    pub fn state_bytes(&self) -> u64 {
        match self {
            Self::Session(session) => session.state_bytes(),
            Self::Fleet(_) => 0,
        }
    }
}
