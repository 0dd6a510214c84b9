//! One task on its way from its local store and its changelog.

use crate::engine::error::{EngineError, capped};
use crate::engine::state::restore::TaskRestore;
use crate::engine::state::store::Task;
use crate::engine::state::store::check::State;
use crate::engine::state::store::keeper::{Keeper, Loaded};
use crate::engine::task::catalogue::Registries;
use crate::engine::task::core::Core;
use crate::engine::task::place::TaskId;
use crate::engine::task::tape::Progress;

impl State for TaskRestore {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.apply(key, Some(value))
    }

    fn hash(&self) -> u128 {
        self.state_hash()
    }
}

/// A task that was restored.
pub struct Settled {
    /// What decides.
    pub core: Core,
    /// How far it was; none: nothing was written yet.
    pub progress: Option<Progress>,
    /// Hash of all its entries.
    pub entries_hash: u128,
}

/// A task that is being restored.
pub struct Part {
    /// Which.
    pub id: TaskId,
    /// The same as its store knows it.
    pub task: Task,
    registries: Registries,
    restore: TaskRestore,
    settled: Option<Settled>,
    /// Behind what the local store gave; none: it gave nothing.
    stored_next: Option<i64>,
    /// First and last offset of the changelog, when asked; asking the library for the beginning would cost half a second
    /// where the leader is not known yet.
    pub bounds: Option<(i64, i64)>,
    /// How many entries came, from either.
    pub entries: u64,
    /// Whether its reader was at the end.
    pub done: bool,
}

impl Part {
    /// Nothing read yet.
    pub fn new(id: TaskId, task: Task, registries: &Registries) -> Self {
        let restore = TaskRestore::new(id, &task.topic, registries);
        let registries = registries.clone();
        Self { id, task, registries, restore, settled: None, stored_next: None, bounds: None, entries: 0, done: false }
    }

    /// Takes what a local store gave.
    pub fn loaded(&mut self, loaded: Loaded<TaskRestore>) {
        tracing::debug!(
            entries = loaded.entries,
            next = loaded.changelog_next,
            "loaded {} from its local store",
            self.task
        );
        self.restore = loaded.state;
        self.stored_next = Some(loaded.changelog_next);
        self.entries = loaded.entries;
    }

    /// Notes the bounds of the changelog; whether a local store fits to them. It does not where records it has not seen
    /// are gone, tombstones perhaps, or where it knows of more than there is.
    pub fn bounded(&mut self, first: i64, end: i64) -> bool {
        self.bounds = Some((first, end));
        let fits = self.stored_next.is_none_or(|next| (first..=end).contains(&next));
        self.done = fits && self.from() >= end;
        fits
    }

    /// Where the changelog is to be read from.
    pub fn from(&self) -> i64 {
        self.stored_next.or(self.bounds.map(|(first, _)| first)).unwrap_or(0)
    }

    /// Behind the last record to read.
    pub fn end(&self) -> Option<i64> {
        self.bounds.map(|(_, end)| end)
    }

    /// Whether something came from a local store.
    pub fn is_stored(&self) -> bool {
        self.stored_next.is_some()
    }

    /// Forgets everything read: the changelog is to be read whole.
    pub fn forget(&mut self) {
        self.restore = TaskRestore::new(self.id, &self.task.topic, &self.registries);
        (self.settled, self.stored_next, self.entries) = (None, None, 0);
        self.done = self.end().is_some_and(|end| self.from() >= end);
    }

    /// What a local store gave does not fit to the changelog: it is set aside, and the changelog is read whole.
    pub fn doubt(&mut self, keeper: Option<&Keeper>, why: &str) {
        tracing::warn!(task = %self.id, why, "the local store is set aside; the state comes from the changelog");
        self.forget();
        if let Some(keeper) = keeper {
            keeper.doubt(&self.task);
        }
    }

    /// Takes a record of the changelog.
    pub fn apply(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        self.entries += 1;
        self.restore.apply(key, value)
    }

    /// Makes the task of what was read.
    pub fn settle(&mut self) -> Result<(), EngineError> {
        if self.settled.is_none() {
            let empty = TaskRestore::new(self.id, &self.task.topic, &self.registries);
            let restore = std::mem::replace(&mut self.restore, empty);
            let entries_hash = restore.state_hash();
            let (core, progress) = restore.finish()?;
            self.settled = Some(Settled { core, progress, entries_hash });
        }
        Ok(())
    }

    /// How far it was, once settled.
    pub fn progress(&self) -> Option<&Progress> {
        self.settled.as_ref()?.progress.as_ref()
    }

    /// The task, once settled.
    pub fn settled(&mut self) -> Option<Settled> {
        self.settled.take()
    }

    /// Why its state cannot be used.
    pub fn unusable(&self, words: &str) -> EngineError {
        EngineError::State { task: self.task.to_string(), topic: self.task.topic.clone(), words: capped(words) }
    }
}

/// How a task begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With its state, at its offsets.
    GoOn,
    /// At the earliest offset.
    Anew,
    /// At its offsets, empty.
    Stateless,
    /// Not at all: a person has to say where.
    Refused,
}

/// How a task begins that has so many entries of state.
pub fn start(entries: u64, has_offsets: bool, start_at_earliest: bool) -> Start {
    match (entries > 0, has_offsets) {
        (true, true) => Start::GoOn,
        (false, false) => Start::Anew,
        (false, true) => Start::Stateless,
        (true, false) if start_at_earliest => Start::Anew,
        (true, false) => Start::Refused,
    }
}

/// Why a task is refused, and the ways out.
pub fn refusal(group: &str, task: TaskId, topic: &str) -> String {
    format!(
        "{task} has state on {topic}, but group {group} has no offsets: they expired or were deleted, and where to go \
         on is not known. Either reset the group's offsets to where it is to go on (kafka-consumer-groups.sh \
         --group {group} --reset-offsets), or begin anew without state: delete group {group} and topic {topic}. \
         With start_at_earliest=true everything the inputs still hold is read once more, with the state"
    )
}

/// Where a task goes on whose state and offsets are of different transactions: where its state says, which is of one with
/// it. None: they are of the same, or it cannot be told. `sent`: the transactions that its offsets are of.
pub fn torn(progress: &Progress, sent: [Option<u64>; 2]) -> Option<[Option<i64>; 2]> {
    let differs = sent.into_iter().flatten().any(|number| number != progress.seq);
    progress.next.filter(|_| differs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::config::Config;
    use crate::engine::task::place::StageName;

    #[test]
    fn state_without_offsets_refuses_unless_told_otherwise() {
        assert_eq!(start(1, true, false), Start::GoOn);
        assert_eq!(start(0, false, false), Start::Anew);
        assert_eq!(start(0, true, false), Start::Stateless);
        assert_eq!(start(1, false, false), Start::Refused);
        assert_eq!(start(1, false, true), Start::Anew);
    }

    #[test]
    fn a_task_goes_on_where_its_state_says_once_its_offsets_are_of_another_transaction() {
        let next = Some([Some(9), None]);
        let progress = Progress { seq: 5, next, ..Progress::default() };
        assert_eq!(torn(&progress, [Some(5), Some(5)]), None);
        assert_eq!(torn(&progress, [Some(4), Some(5)]), next);
        assert_eq!(torn(&progress, [Some(6), None]), next);
        // Somebody set them: that counts.
        assert_eq!(torn(&progress, [None, None]), None);
        assert_eq!(torn(&Progress { next: None, ..progress }, [Some(4), None]), None);
    }

    #[test]
    fn a_local_store_that_does_not_fit_to_its_changelog_is_forgotten() {
        let registries = Registries::in_band(&Config::default());
        let id = TaskId { stage: StageName::Fleet, partition: 0 };
        let task = Task { stage: "fleet", topic: "t".into(), topic_id: String::new(), partition: 0 };
        let stored = |next| {
            let mut part = Part::new(id, task.clone(), &registries);
            let state = TaskRestore::new(id, "t", &registries);
            part.loaded(Loaded { state, changelog_next: next, entries: 1 });
            part
        };
        for (first, end, fits, done) in
            [(0, 9, true, false), (5, 9, true, false), (0, 5, true, true), (6, 9, false, false), (0, 4, false, false)]
        {
            let mut part = stored(5);
            assert_eq!((part.bounded(first, end), part.done), (fits, done), "{first}..{end}");
            part.forget();
            assert_eq!((part.from(), part.entries, part.done), (first, 0, false));
        }
    }
}
