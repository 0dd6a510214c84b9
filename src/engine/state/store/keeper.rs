//! The keeper: one thread a process that writes the local stores, after what the changelogs hold.
//!
//! Workers only tell how far a task is committed, and the hash of its state there: one small mark a task, the last one
//! counts, so that nothing piles up and no worker ever waits. Once a second the keeper reads the changelogs of the tasks
//! that went on, up to their marks, and writes what changed with a checkpoint. So a store is filled, catches up after
//! anything, and stays up to date by one and the same way.
//!
//! Limits: [`ROUND_BYTES_MAX`] of entries are held; over: they are written at once, and the store is not whole until the
//! round ends. A store that fails to write is given up, told once and counted; its task goes on without.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::engine::error::{EngineError, capped};
use crate::engine::state::store::check::{Found, LOCK_PATIENCE, State, find};
use crate::engine::state::store::follow::Source;
use crate::engine::state::store::writer::Writer;
use crate::engine::state::store::{Checkpoint, Settings, Store, Task};

/// Most bytes of entries held for one task before they are written.
pub const ROUND_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How far a task is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The first offset of its changelog behind the commit.
    pub changelog_next: i64,
    /// Hash of its state there.
    pub state_hash: u128,
}

/// A state that came from a local store.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The state.
    pub state: T,
    /// Where the changelog goes on.
    pub changelog_next: i64,
    /// How many entries.
    pub entries: u64,
}

/// What keepers count; it only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Entries written, tombstones included.
    pub written: u64,
    /// Stores that were loaded.
    pub loaded: u64,
    /// Stores that were doubtful, set aside and begun anew.
    pub set_aside: u64,
    /// Stores given up because they could not be opened or written.
    pub given_up: u64,
    /// Parts of rounds written early, because [`ROUND_BYTES_MAX`] was reached.
    pub parts: u64,
    /// Rounds after which a store held all that its task had committed.
    pub caught_up: u64,
    /// Stores removed because nobody used them for longer than they may be old.
    pub removed: u64,
}

/// The same, while it is counted.
#[derive(Debug, Default)]
pub struct Tally {
    /// See [`StoreCounts`].
    pub written: AtomicU64,
    /// See [`StoreCounts`].
    pub loaded: AtomicU64,
    /// See [`StoreCounts`].
    pub set_aside: AtomicU64,
    /// See [`StoreCounts`].
    pub given_up: AtomicU64,
    /// See [`StoreCounts`].
    pub parts: AtomicU64,
    /// See [`StoreCounts`].
    pub caught_up: AtomicU64,
    /// See [`StoreCounts`].
    pub removed: AtomicU64,
}

impl Tally {
    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Self { written, loaded, set_aside, given_up, parts, caught_up, removed } = self;
        StoreCounts {
            written: read(written),
            loaded: read(loaded),
            set_aside: read(set_aside),
            given_up: read(given_up),
            parts: read(parts),
            caught_up: read(caught_up),
            removed: read(removed),
        }
    }
}

/// A store in the hands of the keeper.
pub struct Kept {
    /// The store.
    pub store: Box<dyn Store>,
    /// The first offset that is not in it; none: nothing is.
    pub next: Option<i64>,
    /// Its last checkpoint; none: it is not whole.
    pub whole: Option<Checkpoint>,
}

/// What workers tell the thread.
#[derive(Default)]
pub struct Desk {
    /// How far tasks are committed.
    pub marks: BTreeMap<Task, Mark>,
    /// Stores to take over.
    pub adopted: Vec<(Task, Kept)>,
    /// With the keeper, `adopted` ones included.
    pub open: BTreeSet<Task>,
    /// To be brought up to date and closed.
    pub closing: BTreeSet<Task>,
    /// To be set aside.
    pub dropping: BTreeSet<Task>,
    /// A store waits to be filled.
    pub is_hungry: bool,
    /// The end.
    pub is_stopping: bool,
}

/// What both sides hold.
pub struct Shared {
    /// Where stores are.
    pub settings: Settings,
    desk: Mutex<Desk>,
    /// Told of new tasks to close, and of tasks that are closed.
    pub changed: Condvar,
    /// What is counted.
    pub tally: Arc<Tally>,
}

impl Shared {
    /// The desk, for a moment.
    pub fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes local stores; ends with the value.
pub struct Keeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts its thread.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(settings: Settings, source: Box<dyn Source>) -> Result<Self, EngineError> {
        Self::counting(settings, source, Arc::default())
    }

    /// The same, and counts where others can see it.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn counting(settings: Settings, source: Box<dyn Source>, tally: Arc<Tally>) -> Result<Self, EngineError> {
        let folder = settings.folder.clone();
        let shared = Arc::new(Shared { settings, desk: Mutex::default(), changed: Condvar::new(), tally });
        let writer = Writer::new(Arc::clone(&shared), source);
        let thread = thread::Builder::new().name("keeper".into()).spawn(move || writer.work());
        let thread = thread.map_err(|error| EngineError::File { path: folder, words: capped(&error.to_string()) })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Opens and checks the store of a task, and keeps it from then on. None: the changelog has to be read whole.
    ///
    /// It takes as long as reading the store does: not for the thread of a worker.
    pub fn load<T: State>(&self, task: &Task, state: impl FnOnce() -> T) -> Option<Loaded<T>> {
        // Left open by an assignment before this one.
        self.close(Some(std::slice::from_ref(task)), LOCK_PATIENCE);
        let (found, set_aside) = find(&self.shared.settings, task, state);
        self.shared.tally.set_aside.fetch_add(u64::from(set_aside), Ordering::Relaxed);
        let (kept, loaded) = match found {
            Found::Nothing => {
                self.shared.tally.given_up.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            Found::Unfilled { store, next } => (Kept { store, next, whole: None }, None),
            Found::Whole { store, state, checkpoint, entries } => {
                self.shared.tally.loaded.fetch_add(1, Ordering::Relaxed);
                let changelog_next = checkpoint.changelog_next;
                let kept = Kept { store, next: Some(changelog_next), whole: Some(checkpoint) };
                (kept, Some(Loaded { state, changelog_next, entries }))
            }
        };
        let mut desk = self.shared.desk();
        desk.marks.remove(task);
        desk.open.insert(task.clone());
        desk.adopted.push((task.clone(), kept));
        loaded
    }

    /// A task is committed, or restored, this far. Never waits for a store.
    pub fn committed(&self, task: &Task, mark: Mark) {
        let mut desk = self.shared.desk();
        if let Some(known) = desk.marks.get_mut(task) {
            *known = mark;
        } else if desk.open.contains(task) {
            desk.marks.insert(task.clone(), mark);
            desk.is_hungry = true;
            self.shared.changed.notify_all();
        }
    }

    /// What a store gave cannot be used after all: it is set aside, and the task goes on without until it is next loaded.
    pub fn doubt(&self, task: &Task) {
        self.shared.tally.set_aside.fetch_add(1, Ordering::Relaxed);
        self.shared.desk().dropping.insert(task.clone());
        self.shared.changed.notify_all();
    }

    /// Writes what is committed and closes: the stores of these tasks, or, for none, of all. Whether it was done in time;
    /// else it goes on behind, and a store that is not closed is as far as it is.
    pub fn close(&self, tasks: Option<&[Task]>, within: Duration) -> bool {
        let until = Instant::now() + within;
        let mut desk = self.shared.desk();
        let wanted: Vec<Task> = match tasks {
            Some(tasks) => tasks.iter().filter(|task| desk.open.contains(*task)).cloned().collect(),
            None => desk.open.iter().cloned().collect(),
        };
        desk.closing.extend(wanted.iter().cloned());
        self.shared.changed.notify_all();
        while wanted.iter().any(|task| desk.closing.contains(task)) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            desk = self.shared.changed.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// What it counted.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        self.shared.tally.counts()
    }

    /// The folder of a task's stores.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}

impl Drop for Keeper {
    /// Whoever wants stores to be up to date closes them first; here nobody waits for a broker.
    fn drop(&mut self) {
        self.shared.desk().is_stopping = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It caught its panics; what it told, it told.
            let _ = thread.join();
        }
    }
}
