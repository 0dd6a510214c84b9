//! State of tasks, from local stores and changelogs: read in slices, so that the worker can poll its group between two.
//!
//! What a local store gives is checked already (`store`); the changelog is read from where it ends, or whole where the two
//! do not fit.
//!
//! The order is what makes it right: the transactional id is taken over, then committed offsets are read (which waits for
//! transactions that may still change them), then the end of the changelog as `read_uncommitted` has it (committed entries
//! may lie behind the open transaction of another writer), then the changelog up to there.
//!
//! Invariant: a task never begins before the position of its reader is at that end (`tests/kafka/durable.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::engine::cluster::client::{Logs, create, ends, reader};
use crate::engine::cluster::identity::{recreated, topic_ids};
use crate::engine::config::Config;
use crate::engine::error::{EngineError, words};
use crate::engine::failpoint;
use crate::engine::group::assignment::Found;
use crate::engine::group::release::release;
use crate::engine::patience::Patience;
use crate::engine::shown::watch::Restored;
use crate::engine::state::part::{Part, Settled, Start, refusal, start, torn};
use crate::engine::state::reading::{READING, judge};
use crate::engine::state::restore::TaskRestore;
use crate::engine::state::store::hands::Stores;
use crate::engine::state::store::keeper::{Keeper, Mark};
use crate::engine::state::store::loading::{Empty, Loading};
use crate::engine::task::Task;
use crate::engine::task::catalogue::Registries;
use crate::engine::task::place::{Input, Role, StageName, TaskId};
use crate::engine::task::tape::Progress;

/// Longest slice: heartbeats go on by themselves, but a rebalance is noticed this late.
const SLICE_MAX: Duration = Duration::from_millis(200);
/// Longest wait for the next entry within a slice.
const POLL_MAX: Duration = Duration::from_millis(20);
/// How long one question for an end may take.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Without progress for this long, it is told what is waited for.
const STALL: Duration = Duration::from_millis(500);
/// Progress is told this often.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Tasks on their way from the changelog.
pub struct Restoring {
    config: Config,
    /// Ids of the inputs, by name, as far as they are known.
    topic_ids: BTreeMap<String, String>,
    /// There until dropped.
    reader: Option<BaseConsumer<Logs>>,
    ends: BaseConsumer<Logs>,
    asking: Patience,
    committed: Found,
    parts: BTreeMap<TaskId, Part>,
    keeper: Option<Arc<Keeper>>,
    /// While local stores are being loaded.
    loading: Option<Loading<TaskRestore>>,
    is_reading: bool,
    /// Whether the changelog ends in an open transaction of nobody else.
    is_hidden: bool,
    begun: Instant,
    progressed: Instant,
    told: Instant,
}

impl Restoring {
    /// Begins with the tasks of these inputs; nothing is read yet.
    pub fn begin(
        config: &Config,
        registries: &Registries,
        committed: Found,
        stores: &Stores,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, EngineError> {
        let (topic_ids, changelog_ids) = topic_ids(config);
        stores.identify(&changelog_ids);
        let mut parts = BTreeMap::new();
        for input in committed.places.keys() {
            let id = input.task();
            parts.entry(id).or_insert_with(|| Part::new(id, stores.task(id), registries));
        }
        let keeper = stores.keeper().cloned();
        let loading = keeper.as_ref().map(|keeper| {
            let ids: BTreeMap<String, TaskId> = parts.keys().map(|id| (id.to_string(), *id)).collect();
            let (tasks, registries) = (parts.values().map(|part| part.task.clone()).collect(), registries.clone());
            let empty: Empty<TaskRestore> =
                Arc::new(move |task| TaskRestore::new(ids[&task.to_string()], &task.topic, &registries));
            Loading::begin(keeper, tasks, &empty)
        });
        let now = Instant::now();
        Ok(Self {
            topic_ids,
            config: config.clone(),
            reader: Some(create(&reader(config), Logs)?),
            ends: create(&ends(config), Logs)?,
            asking: Patience::new(config.outage_max, stop),
            committed,
            parts,
            keeper,
            loading,
            is_reading: false,
            is_hidden: false,
            begun: now,
            progressed: now,
            told: now,
        })
    }

    /// Tasks, entries read for them so far, and since when.
    pub fn progress(&self) -> (usize, u64, Instant) {
        (self.parts.len(), self.parts.values().map(|part| part.entries).sum(), self.begun)
    }

    /// Goes on for a moment; whether everything is there.
    pub fn slice(&mut self) -> Result<bool, EngineError> {
        if !self.load() || !self.ask()? {
            return Ok(false);
        }
        if !self.parts.values().all(|part| part.done) {
            self.read()?;
            self.look()?;
            self.tell()?;
        }
        Ok(self.parts.values().all(|part| part.done) && self.settle()?)
    }

    /// Takes what local stores give; whether all have.
    fn load(&mut self) -> bool {
        let Some(loading) = &mut self.loading else { return true };
        let until = Instant::now() + SLICE_MAX;
        while !loading.is_done() && Instant::now() < until {
            if let Some((task, Some(loaded))) = loading.next(POLL_MAX)
                && let Some(part) = self.parts.values_mut().find(|part| part.task == task)
            {
                part.loaded(loaded);
            }
        }
        let is_done = loading.is_done();
        if is_done {
            self.loading = None;
        }
        is_done
    }

    /// Makes tasks of what was read; false where a local store has to be forgotten, and its changelog read whole.
    fn settle(&mut self) -> Result<bool, EngineError> {
        let mut is_settled = true;
        for part in self.parts.values_mut() {
            if let Err(error) = part.settle() {
                if !part.is_stored() {
                    return Err(error);
                }
                part.doubt(self.keeper.as_deref(), &error.to_string());
                (is_settled, self.is_reading) = (false, false);
            }
        }
        Ok(is_settled)
    }

    /// Asks for ends; once all are known, whatever lies before them is assigned to the reader.
    fn ask(&mut self) -> Result<bool, EngineError> {
        const DOING: &str = "asking for the end of the changelog";
        if self.is_reading {
            return Ok(true);
        }
        let started = Instant::now();
        let mut wanted = TopicPartitionList::new();
        for (TaskId { partition, .. }, part) in &mut self.parts {
            if part.bounds.is_none() {
                match self.ends.fetch_watermarks(&part.task.topic, *partition, END_TIMEOUT) {
                    Ok((first, end)) => {
                        if !part.bounded(first, end) {
                            let ends = part.from();
                            let words = format!("the changelog has offsets {first} to {end}, the store ends at {ends}");
                            part.doubt(self.keeper.as_deref(), &words);
                        }
                    }
                    Err(error) => {
                        self.asking.pause(DOING, &words(&error))?;
                        return Ok(false);
                    }
                }
            }
            if !part.done {
                wanted
                    .add_partition_offset(&part.task.topic, *partition, Offset::Offset(part.from()))
                    .map_err(|error| EngineError::kafka(DOING, &error))?;
            }
            if started.elapsed() > SLICE_MAX {
                return Ok(false);
            }
        }
        if let Some(reader) = self.reader.as_ref().filter(|_| wanted.count() > 0) {
            reader.assign(&wanted).map_err(|error| EngineError::kafka(READING, &error))?;
        }
        self.is_reading = true;
        self.progressed = Instant::now();
        Ok(true)
    }

    /// Applies entries for the length of a slice.
    fn read(&mut self) -> Result<(), EngineError> {
        let until = Instant::now() + SLICE_MAX;
        let Some(reader) = &self.reader else { return Ok(()) };
        while Instant::now() < until {
            match reader.poll(POLL_MAX) {
                None => return Ok(()),
                Some(Ok(message)) => {
                    let states = self.config.topics.states();
                    let stage = StageName::ALL.into_iter().find(|stage| states[*stage as usize] == message.topic());
                    let task = stage.map(|stage| TaskId { stage, partition: message.partition() });
                    let part = task.and_then(|task| self.parts.get_mut(&task)).filter(|part| !part.done);
                    let Some(part) = part else { continue };
                    failpoint::pass("in_restore");
                    self.progressed = Instant::now();
                    if let Err(error) = part.apply(message.key().unwrap_or_default(), message.payload()) {
                        let words = format!("at offset {}: {error}", message.offset());
                        if !part.is_stored() {
                            return Err(part.unusable(&words));
                        }
                        part.doubt(self.keeper.as_deref(), &words);
                        self.is_reading = false;
                        return Ok(());
                    }
                }
                Some(Err(error)) => return judge(&error, &self.config.topics.states().join(" or ")),
            }
        }
        Ok(())
    }

    /// Looks at positions. They count control records and aborted ones too, which no poll brings.
    fn look(&mut self) -> Result<(), EngineError> {
        let Some(reader) = &self.reader else { return Ok(()) };
        let positions = reader.position().map_err(|error| EngineError::kafka(READING, &error))?;
        for (TaskId { partition, .. }, part) in self.parts.iter_mut().filter(|(_, part)| !part.done) {
            let position = positions.find_partition(&part.task.topic, *partition).map(|element| element.offset());
            let Some(Offset::Offset(position)) = position else { continue };
            if part.end().is_some_and(|end| position >= end) {
                part.done = true;
                self.progressed = Instant::now();
            }
        }
        Ok(())
    }

    /// Says how far it is, or what it waits for.
    fn tell(&mut self) -> Result<(), EngineError> {
        let stalled = self.progressed.elapsed();
        if stalled >= self.config.outage_max {
            let seconds = self.config.outage_max.as_secs();
            return Err(EngineError::Outage(format!("restoring state: nothing came for {seconds} s")));
        }
        let is_stalled = stalled >= STALL;
        let is_news = is_stalled && self.told <= self.progressed;
        if !is_news && self.told.elapsed() < TELL_EVERY {
            return Ok(());
        }
        self.told = Instant::now();
        let entries: u64 = self.parts.values().map(|part| part.entries).sum();
        let left = self.parts.values().filter(|part| !part.done).count();
        if !is_stalled {
            tracing::info!(entries, tasks_left = left, seconds = self.begun.elapsed().as_secs(), "restoring state");
            return Ok(());
        }
        let Some(reader) = &self.reader else { return Ok(()) };
        let mut hidden = BTreeSet::new();
        for (TaskId { partition, .. }, part) in self.parts.iter().filter(|(_, part)| !part.done) {
            // As a reader of committed records sees it, the end is the first open transaction.
            let stable = reader.fetch_watermarks(&part.task.topic, *partition, END_TIMEOUT).map(|(_, stable)| stable);
            match (stable, part.end()) {
                (Ok(stable), Some(end)) if stable < end => {
                    tracing::warn!(
                        task = %part.task,
                        stable,
                        end,
                        "restoring state: waiting for the end of the open transaction of another process"
                    );
                    hidden.insert(part.id);
                }
                (Ok(_), _) => tracing::info!(task = %part.task, "restoring state: waiting for records"),
                (Err(error), _) => {
                    tracing::warn!(task = %part.task, error = %words(&error), "restoring state: waiting for a broker");
                }
            }
        }
        if !hidden.is_empty() {
            self.is_hidden = release(&self.config, &hidden)? == 0;
        }
        Ok(())
    }

    /// Whether something is hidden, and no other process is to blame; asked once.
    pub fn take_hidden(&mut self) -> bool {
        std::mem::take(&mut self.is_hidden)
    }

    /// Whether state and offsets are of different transactions: somebody may have committed in between.
    pub fn is_torn(&self) -> bool {
        self.parts
            .iter()
            .any(|(id, part)| part.progress().and_then(|progress| torn(progress, self.sent(*id))).is_some())
    }

    /// The inputs of its tasks.
    pub fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.committed.places.keys()
    }

    /// Takes offsets that were asked for once more.
    pub fn found(&mut self, found: Found) {
        self.committed = found;
    }

    fn sent(&self, id: TaskId) -> [Option<u64>; 2] {
        Role::ALL.map(|role| self.committed.sent.get(&id.input(role)).copied())
    }

    /// The tasks, and how many of them go on elsewhere than their offsets say; or why they must not begin.
    pub fn finish(mut self) -> Result<(Vec<Task>, u64), EngineError> {
        let (mut tasks, mut torn_tasks) = (Vec::new(), 0);
        for (task, mut part) in std::mem::take(&mut self.parts) {
            let (id, entries, end) = (task, part.entries, part.end());
            let mut committed = Role::ALL.map(|role| self.committed.places.get(&id.input(role)).copied().flatten());
            let known = committed.iter().any(Option::is_some);
            match start(entries, known, self.config.start_at_earliest) {
                Start::GoOn => {}
                Start::Anew if entries == 0 => tracing::info!(%task, "a new task: begins at the earliest offset"),
                Start::Anew => tracing::warn!(%task, "no offsets: begins at the earliest offset, with its state"),
                Start::Stateless => tracing::warn!(
                    %task,
                    "offsets are committed, but there is no state (a release before this one kept none): begins empty"
                ),
                Start::Refused => {
                    return Err(EngineError::OffsetLost(refusal(&self.config.group, task, &part.task.topic)));
                }
            }
            let Some(Settled { core, progress, entries_hash }) = part.settled() else {
                return Err(part.unusable("restored too early"));
            };
            self.config.watch.note_restored(id.to_string(), Restored { entries, entries_hash });
            if let Some((keeper, changelog_next)) = self.keeper.as_ref().zip(end) {
                keeper.committed(&part.task, Mark { changelog_next, state_hash: entries_hash });
            }
            let sent = self.sent(id);
            if let Some(places) = progress.as_ref().and_then(|progress| torn(progress, sent)) {
                let why = "a broker has state and offsets of different transactions";
                tracing::error!(%task, offsets_of = ?sent, "{why}; the task goes on where its state ends");
                committed = places;
                torn_tasks += 1;
            }
            if let Some(recreated) = progress
                .as_ref()
                .and_then(|progress| recreated(&self.topic_ids, &progress.topic_ids, &self.config.group))
            {
                if !self.config.start_at_earliest {
                    return Err(recreated);
                }
                tracing::warn!(%task, "begins at the earliest offset, with its state: {recreated}");
                committed = [None; 2];
            }
            tracing::debug!(entries, "restored {task} with state hash {:032x}", core.state_hash());
            let incarnation = progress.as_ref().map_or(0, |progress| progress.incarnation + 1);
            let topic_ids = self.topic_ids.clone();
            let progress = Progress { incarnation, topic_ids, ..progress.unwrap_or_default() };
            tasks.push(Task::new(id, core, progress, committed, end.unwrap_or(0)));
        }
        tracing::info!(tasks = tasks.len(), seconds = self.begun.elapsed().as_secs_f64(), "state restored");
        Ok((tasks, torn_tasks))
    }
}

impl Drop for Restoring {
    /// Closing a reader takes 100 ms, and longer where no broker answers: nobody waits for it.
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            // Without a thread it is dropped here, which only takes longer.
            let _ = thread::Builder::new().name("discard".into()).spawn(move || drop(reader));
        }
    }
}
