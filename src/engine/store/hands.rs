//! A worker's side of local stores: where there are none, every call does nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::producer::Ends;
use crate::engine::store::follow::Brokers;
use crate::engine::store::keeper::{Keeper, Mark};
use crate::engine::store::{Settings, Task};

/// How long stores may take to catch up when tasks are given up: the group waits.
const REVOKED_PATIENCE: Duration = Duration::from_secs(2);
/// And at the end.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// Stages, as their changelogs are numbered.
const STAGES: [&str; 2] = ["session", "fleet"];

/// The local stores of a process.
#[derive(Clone)]
pub struct Stores {
    topics: Vec<String>,
    /// None: there are no local stores.
    keeper: Option<Arc<Keeper>>,
}

impl Stores {
    /// Starts the keeper, where the configuration has local stores.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(config: &Config) -> Result<Self, EngineError> {
        let start = |settings: &Settings| Keeper::start(settings.clone(), Box::new(Brokers::new(config)));
        let keeper = config.store.as_ref().map(start).transpose()?.map(Arc::new);
        Ok(Self { topics: config.topics.changelogs(), keeper })
    }

    /// The keeper, where there is one.
    pub fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.keeper.as_ref()
    }

    /// The task of a stage, by the number of its changelog.
    pub fn task(&self, stage: usize, partition: i32) -> Option<Task> {
        let (name, topic) = STAGES.get(stage).zip(self.topics.get(stage))?;
        Some(Task { stage: name, topic: topic.clone(), topic_id: String::new(), partition })
    }

    /// Tells how far changelogs came by a commit; `state_hash` gives the hash of a task's state.
    pub fn committed(&self, ends: &Ends, state_hash: impl Fn(usize, i32) -> Option<u128>) {
        let Some(keeper) = &self.keeper else { return };
        for (&(stage, partition), &changelog_next) in ends {
            if let Some((task, state_hash)) = self.task(stage, partition).zip(state_hash(stage, partition)) {
                keeper.committed(&task, Mark { changelog_next, state_hash });
            }
        }
    }

    /// Tasks are given up: their stores get what is committed, and close.
    pub fn revoked(&self) {
        self.close(REVOKED_PATIENCE);
    }

    /// The same at the end, with more patience: the next start finds everything.
    pub fn stopped(&self) {
        self.close(STOP_PATIENCE);
    }

    fn close(&self, within: Duration) {
        if let Some(keeper) = &self.keeper
            && !keeper.close(None, within)
        {
            tracing::warn!("local stores were not written in time: the next start reads more of the changelog");
        }
    }
}
