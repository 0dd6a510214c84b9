//! A worker's side of local stores: where there are none, every call does nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::state::store::follow::Brokers;
use crate::engine::state::store::keeper::{Keeper, Mark};
use crate::engine::state::store::{Settings, Task};
use crate::engine::task::place::TaskId;

/// How long stores may take to catch up when tasks are given up: the group waits.
const REVOKED_PATIENCE: Duration = Duration::from_secs(2);
/// And at the end.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The local stores of a process.
#[derive(Clone)]
pub struct Stores {
    topics: [String; 2],
    /// Ids of these topics as of the last assignment; empty: not known.
    topic_ids: Arc<Mutex<[String; 2]>>,
    /// None: there are no local stores.
    keeper: Option<Arc<Keeper>>,
}

impl Stores {
    /// Starts the keeper, where the configuration has local stores.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(config: &Config) -> Result<Self, EngineError> {
        let tally = &config.watch.stores;
        let start =
            |settings: &Settings| Keeper::counting(settings.clone(), Box::new(Brokers::new(config)), Arc::clone(tally));
        let keeper = config.store.as_ref().map(start).transpose()?.map(Arc::new);
        Ok(Self { topics: config.topics.states().map(str::to_owned), topic_ids: Arc::default(), keeper })
    }

    /// The keeper, where there is one.
    pub fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.keeper.as_ref()
    }

    /// Notes which topics the changelogs are now. A store of another topic of the same name is not used; where the ids
    /// are not known, none is that knows its own.
    pub fn identify(&self, topic_ids: &BTreeMap<String, String>) {
        let ids = self.topics.each_ref().map(|topic| topic_ids.get(topic).cloned().unwrap_or_default());
        *self.topic_ids.lock().unwrap_or_else(PoisonError::into_inner) = ids;
    }

    /// A task as its store knows it.
    pub fn task(&self, id: TaskId) -> Task {
        let topic = self.topics[id.stage as usize].clone();
        let topic_id = self.topic_ids.lock().unwrap_or_else(PoisonError::into_inner)[id.stage as usize].clone();
        Task { stage: id.stage.as_str(), topic, topic_id, partition: id.partition }
    }

    /// Tells how far a task is committed; `state_hash`: of all entries of its changelog there.
    pub fn committed(&self, id: TaskId, changelog_next: i64, state_hash: impl FnOnce() -> u128) {
        if let Some(keeper) = &self.keeper {
            keeper.committed(&self.task(id), Mark { changelog_next, state_hash: state_hash() });
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
