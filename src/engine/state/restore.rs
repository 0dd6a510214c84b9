//! A task of whichever stage on its way back from its entries: those of its stage, and the engine's own.

use crate::engine::error::{EngineError, capped};
use crate::engine::task::catalogue::Registries;
use crate::engine::task::core::Core;
use crate::engine::task::place::{StageName, TaskId};
use crate::engine::task::tape::Progress;
use crate::fleet;
use crate::record::task::entry::hash;
use crate::session;

enum Stage {
    Session(Box<session::Restore>),
    Fleet(Box<fleet::Restore>),
}

/// A task that is being restored, entry by entry.
pub struct TaskRestore {
    id: TaskId,
    topic: String,
    stage: Stage,
    progress: Option<Progress>,
    /// Hash of the entry of `progress`.
    progress_hash: u128,
    registries: Registries,
}

impl TaskRestore {
    /// Nothing restored yet; `topic`: its changelog.
    pub fn new(id: TaskId, topic: &str, registries: &Registries) -> Self {
        let (name, first) = (id.to_string(), registries.first());
        let stage = match id.stage {
            StageName::Session => Stage::Session(Box::new(session::Restore::new(&name, first))),
            StageName::Fleet => Stage::Fleet(Box::new(fleet::Restore::new(&name, first))),
        };
        Self { id, topic: topic.to_owned(), stage, progress: None, progress_hash: 0, registries: registries.clone() }
    }

    /// Takes one record of the changelog, in its order.
    ///
    /// # Errors
    /// A record that no task of this stage wrote.
    pub fn apply(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        if key == Progress::KEY {
            let read = |value| serde_json::from_slice(value).map_err(|error| format!("entry `engine`: {error}"));
            self.progress = value.map(read).transpose()?;
            self.progress_hash = value.map_or(0, |value| hash(key, value));
            return Ok(());
        }
        match &mut self.stage {
            Stage::Session(restore) => restore.apply(key, value).map_err(|error| error.to_string()),
            Stage::Fleet(restore) => restore.apply(key, value).map_err(|error| error.to_string()),
        }
    }

    /// Hash of all entries taken, the engine's own included.
    #[must_use]
    pub fn state_hash(&self) -> u128 {
        let sum = match &self.stage {
            Stage::Session(restore) => restore.state_hash(),
            Stage::Fleet(restore) => restore.state_hash(),
        };
        sum.wrapping_add(self.progress_hash)
    }

    /// The task, and how far it was; of no entries at all an empty one.
    ///
    /// # Errors
    /// Entries that do not belong together, or a registry version that is nowhere.
    pub fn finish(self) -> Result<(Core, Option<Progress>), EngineError> {
        let Self { id, topic, stage, progress, registries, .. } = self;
        let unusable =
            |words: &str| EngineError::State { task: id.to_string(), topic: topic.clone(), words: capped(words) };
        let version = match &stage {
            Stage::Session(restore) => restore.registry_version().map(str::to_owned),
            Stage::Fleet(restore) => restore.registry_version().map(str::to_owned),
        };
        let registry = version.map(|version| registries.of_restored(&version)).transpose()?;
        let core = match stage {
            Stage::Session(restore) => {
                let mut session = restore.finish().map_err(|error| unusable(&error.to_string()))?;
                if let Some(registry) = registry {
                    session.activate(registry);
                }
                Core::Session(Box::new(session))
            }
            Stage::Fleet(restore) => {
                let mut fleet = restore.finish().map_err(|error| unusable(&error.to_string()))?;
                if let Some(registry) = registry {
                    fleet.activate(registry);
                }
                Core::Fleet(Box::new(fleet))
            }
        };
        Ok((core, progress))
    }
}
