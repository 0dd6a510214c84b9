//! What decides in a task, of whichever stage: one door for the engine.

use std::sync::Arc;

use crate::engine::intake::Intake;
use crate::engine::place::TaskId;
use crate::engine::task::Record;
use crate::engine::watch::TaskView;
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
        }
    }

    /// Takes a command.
    pub fn command(&mut self, at: Timestamp, position: Position<'_>, command: &Command, effects: &mut Effects) {
        match self {
            Self::Session(session) => session.step(at, session::Input::Command { position, command }, effects),
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
        }
    }

    /// Lets time pass.
    pub fn tick(&mut self, at: Timestamp, effects: &mut Effects) {
        match self {
            Self::Session(session) => session.step(at, session::Input::Tick, effects),
        }
    }

    /// When a tick is due.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        match self {
            Self::Session(session) => session.next_deadline(),
        }
    }

    /// What has added up since the last commit, as effects.
    pub fn flush(&mut self, effects: &mut Effects) {
        match self {
            Self::Session(session) => session.flush(effects),
        }
    }

    /// Entries of state that changed.
    pub fn take_changes(&mut self) -> Vec<Change> {
        match self {
            Self::Session(session) => session.take_changes(),
        }
    }

    /// What was taken is committed.
    pub fn committed(&mut self) {
        match self {
            Self::Session(session) => session.committed(),
        }
    }

    /// Back to the last commit.
    pub fn rollback(&mut self) {
        match self {
            Self::Session(session) => session.rollback(),
        }
    }

    /// Hash of the state as its changes were last taken.
    pub fn state_hash(&self) -> u128 {
        match self {
            Self::Session(session) => session.state_hash(),
        }
    }

    /// What it decides by.
    pub fn registry(&self) -> &Arc<Registry> {
        match self {
            Self::Session(session) => session.registry(),
        }
    }

    /// What it counted.
    pub fn counts(&self) -> &Counts {
        match self {
            Self::Session(session) => session.counts(),
        }
    }

    /// What it holds, for whoever looks from outside.
    pub fn view(&self, task: TaskId, topics: [Arc<str>; 2]) -> TaskView {
        match self {
            Self::Session(session) => {
                let (overrides_live, tracked) = session.in_use();
                TaskView {
                    task: task.to_string().into(),
                    partition: task.partition,
                    topics,
                    watermark: session.watermark(),
                    sessions_tracked: tracked as u64,
                    overrides_live: u64::from(overrides_live),
                    state_bytes: session.state_bytes(),
                }
            }
        }
    }

    /// Signatures that came too late to act on.
    pub fn stale(&self) -> u64 {
        match self {
            Self::Session(session) => session.counts().stale,
        }
    }
}
