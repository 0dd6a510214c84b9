//! The tasks of one worker, and what is ready in all of them: when to commit, and what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::group::assignment::Committed;
use crate::engine::shown::counters::Counters;
use crate::engine::shown::watch::{InputView, Snapshot, TaskView};
use crate::engine::state::store::hands::Stores;
use crate::engine::task::batch::Transaction;
use crate::engine::task::catalogue::Registries;
use crate::engine::task::encode::Outlets;
use crate::engine::task::intake::Intake;
use crate::engine::task::place::{Input, Role, TaskId};
use crate::engine::task::{Record, Ruling, Shared, Taken, Task};
use crate::fleet;
use crate::record::time::Timestamp;
use crate::session::Counts;

/// Most records of one transaction; over: committed at once. With the largest message this bounds the memory of a
/// batch; typical records have 1 KiB.
pub const BATCH_OUTPUTS_MAX: usize = 10_000;
/// Most tasks that go into a transaction because their interval is over. A transaction takes longer the more partitions
/// it touches, and whatever is urgent waits for it: so tasks that wait for nothing but the interval go a few at a time.
const INTERVAL_TASKS_MAX: usize = 2;
/// Inputs refused at most because of what they lead to, until committed; over: the engine ends.
const REFUSED_MAX: usize = 1_000;

/// What is ready in all tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    inputs: usize,
    outputs: usize,
    urgent: bool,
    opened: Option<Instant>,
}

/// The tasks of one worker.
pub struct Tasks {
    /// What they share.
    pub shared: Shared,
    by_id: BTreeMap<TaskId, Task>,
    registries: Registries,
    ready: Ready,
    /// Inputs whose effects cannot be published.
    refused: BTreeSet<(Input, i64)>,
    /// Tasks that got their first registry since it was last asked.
    activated: Vec<TaskId>,
    /// What session tasks counted that it has no longer.
    ended: Counts,
    /// The same of fleet tasks.
    ended_fleet: fleet::Counts,
}

impl Tasks {
    /// None.
    pub fn new(config: &Config, outlets: Outlets, registries: Registries) -> Self {
        let shared = Shared {
            intake: Intake::new(config.tenant.clone(), config.schemas.clone()),
            outlets,
            names: config.topics.inputs().map(Arc::from),
            writer: config.worker_id(),
        };
        let (by_id, ready) = (BTreeMap::new(), Ready::default());
        Self {
            shared,
            by_id,
            registries,
            ready,
            refused: BTreeSet::new(),
            activated: Vec::new(),
            ended: Counts::default(),
            ended_fleet: fleet::Counts::default(),
        }
    }

    /// Where their registry versions come from.
    pub fn registries(&self) -> &Registries {
        &self.registries
    }

    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Signatures that came too late to act on, in all tasks.
    pub fn stale(&self) -> u64 {
        self.by_id.values().map(|task| task.core.stale()).sum()
    }

    /// Begins these tasks.
    pub fn begin(&mut self, tasks: Vec<Task>) {
        self.end();
        self.by_id = tasks.into_iter().map(|task| (task.id, task)).collect();
        self.ready = Ready::default();
    }

    /// Tells the hash of each state, for whoever compares it with what is restored later.
    pub fn tell(&self) {
        for task in self.by_id.values() {
            tracing::debug!("left {} with state hash {:032x}", task.id, task.core.state_hash());
        }
    }

    /// What there is to see from outside.
    pub fn view(&self, counters: &Counters) -> Snapshot {
        let mut session = self.ended.clone();
        self.by_id.values().filter_map(|task| task.core.session_counts()).for_each(|counts| session.add(counts));
        let mut fleet = self.ended_fleet.clone();
        self.by_id.values().filter_map(|task| task.core.fleet_counts()).for_each(|counts| fleet.add(counts));
        let tasks = self.by_id.values().map(|task| TaskView {
            task: task.id.to_string().into(),
            partition: task.id.partition,
            topics: Role::ALL.map(|role| Arc::clone(&self.shared.names[task.id.input(role).topic])),
            watermark: task.core.clock(),
            sessions_tracked: task.core.sessions_tracked(),
            overrides_live: task.core.overrides_live(),
            is_frozen: task.core.is_frozen(),
            state_bytes: task.core.state_bytes(),
        });
        let input = |task: &Task, role: Role| InputView {
            topic: Arc::clone(&self.shared.names[task.id.input(role).topic]),
            partition: task.id.partition,
            committed: task.committed[role.slot()],
            read_at: task.read_at[role.slot()],
        };
        let inputs = self.by_id.values().flat_map(|task| Role::ALL.map(|role| input(task, role)));
        Snapshot { counters: counters.clone(), session, fleet, tasks: tasks.collect(), inputs: inputs.collect() }
    }

    /// Ends all tasks; what they know is forgotten.
    pub fn end(&mut self) {
        self.by_id.values().filter_map(|task| task.core.session_counts()).for_each(|counts| self.ended.add(counts));
        self.by_id.values().filter_map(|task| task.core.fleet_counts()).for_each(|counts| self.ended_fleet.add(counts));
        self.by_id.clear();
        self.ready = Ready::default();
        self.refused.clear();
        self.activated.clear();
    }

    /// Inputs taken and not committed.
    pub fn inputs(&self) -> usize {
        self.ready.inputs
    }

    /// Whether anything is ready.
    pub fn is_ready(&self) -> bool {
        self.ready.opened.is_some()
    }

    /// Inputs that may be read: of a task without a registry, its commands only.
    pub fn reading(&self) -> Vec<Input> {
        let read = |task: &Task| {
            let roles = Role::ALL.into_iter().filter(|role| task.is_active() || *role == Role::Commands);
            roles.map(|role| task.id.input(role)).collect::<Vec<_>>()
        };
        self.by_id.values().flat_map(read).collect()
    }

    /// Where every input goes on.
    pub fn places(&self) -> Committed {
        let all = |task: &Task| Role::ALL.map(|role| (task.id.input(role), task.position(role)));
        self.by_id.values().flat_map(all).collect()
    }

    /// Ids of the topics that offsets speak of, by name.
    pub fn topic_ids(&self) -> BTreeMap<String, String> {
        self.by_id.values().next().map(|task| task.progress.topic_ids.clone()).unwrap_or_default()
    }

    /// Tasks that got their first registry since this was last asked: their records may be read now.
    pub fn take_activated(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.activated)
    }

    /// Takes one record.
    pub fn take(
        &mut self,
        record: Record<'_>,
        wall: Timestamp,
        now: Instant,
        counters: &mut Counters,
    ) -> Result<Taken, EngineError> {
        // A record of a partition that was given up in the meantime: its new owner reads it again.
        let Some(task) = self.by_id.get_mut(&record.input.task()) else { return Ok(Taken::Yes) };
        let refuse = !self.refused.is_empty() && self.refused.contains(&(record.input, record.offset));
        let (before, was_active) = (task.batch.publications.len(), task.is_active());
        let ruling = Ruling { is_unpublishable: refuse, ..Ruling::default() };
        let taken = task.take(record, ruling, wall, now, &self.shared, &self.registries)?;
        if !was_active && task.is_active() {
            self.activated.push(task.id);
        }
        counters.inputs += 1;
        if let Taken::Refused(code) = &taken {
            *counters.dead_letters.entry(code.clone()).or_default() += 1;
        }
        let (outputs, urgent) = (task.batch.publications.len() - before, task.batch.urgent);
        let ready = &mut self.ready;
        ready.inputs += 1;
        ready.outputs += outputs;
        ready.urgent |= urgent;
        ready.opened.get_or_insert(now);
        Ok(taken)
    }

    /// Lets time pass for tasks that wait for nothing else.
    pub fn tick(&mut self, wall: Timestamp, now: Instant) -> Result<(), EngineError> {
        let mut ticked = false;
        for task in self.by_id.values_mut() {
            ticked |= task.tick(wall, now, &self.shared.outlets)?;
        }
        if ticked {
            self.count();
        }
        Ok(())
    }

    /// Whether no more may be taken before a commit.
    pub fn is_full(&self, inputs_max: usize) -> bool {
        self.ready.inputs >= inputs_max || self.ready.outputs >= BATCH_OUTPUTS_MAX
    }

    /// When to commit, given when the next commit may begin at the earliest; none while nothing is ready.
    pub fn due(&self, config: &Config, inputs_max: usize, not_before: Instant) -> Option<Instant> {
        let opened = self.ready.opened?;
        let at_once = self.ready.urgent || self.is_full(inputs_max);
        let wanted = if at_once { opened } else { opened + config.commit_interval };
        Some(wanted.max(not_before))
    }

    /// Closes a transaction of what is due: of everything where no more may be taken, else of what is urgent and of the
    /// few tasks whose interval is over for the longest time.
    pub fn close_due(&mut self, config: &Config, inputs_max: usize, now: Instant) -> Result<Transaction, EngineError> {
        if self.is_full(inputs_max) {
            return self.close_all();
        }
        let ready = || self.by_id.values().filter(|task| !task.batch.is_empty());
        let mut chosen: BTreeSet<TaskId> = ready().filter(|task| task.batch.urgent).map(|task| task.id).collect();
        let over = ready().filter(|task| !chosen.contains(&task.id)).filter_map(|task| {
            let opened = task.batch.opened?;
            (opened + config.commit_interval <= now).then_some((opened, task.id))
        });
        let over: BTreeSet<(Instant, TaskId)> = over.collect();
        chosen.extend(over.into_iter().take(INTERVAL_TASKS_MAX).map(|(_, id)| id));
        self.close(&chosen)
    }

    /// Closes a transaction of everything that is ready.
    pub fn close_all(&mut self) -> Result<Transaction, EngineError> {
        let ready = self.by_id.values().filter(|task| !task.batch.is_empty()).map(|task| task.id).collect();
        self.close(&ready)
    }

    fn close(&mut self, chosen: &BTreeSet<TaskId>) -> Result<Transaction, EngineError> {
        let mut transaction = Transaction::default();
        for id in chosen {
            if let Some(task) = self.by_id.get_mut(id) {
                task.close(&self.shared, &mut transaction)?;
            }
        }
        Ok(transaction)
    }

    /// A transaction was committed; `ends`: where the changelogs of its tasks end now, as far as known.
    pub fn committed(&mut self, transaction: &Transaction, ends: &BTreeMap<TaskId, i64>) {
        for share in &transaction.shares {
            if let Some(task) = self.by_id.get_mut(&share.task) {
                task.committed(ends.get(&share.task).copied());
            }
        }
        for (input, span) in &transaction.spans {
            self.refused.retain(|(refused, offset)| refused != input || *offset >= span.next);
        }
        self.count();
    }

    /// Tells local stores how far the tasks of a transaction that was committed are.
    pub fn mark(&self, transaction: &Transaction, ends: &BTreeMap<TaskId, i64>, stores: &Stores) {
        for share in &transaction.shares {
            // After an outcome that had to be asked for the end is not known: the next commit tells.
            if let Some((task, end)) = self.by_id.get(&share.task).zip(ends.get(&share.task)) {
                stores.committed(task.id, *end, || task.entries_hash());
            }
        }
    }

    /// Drops what the tasks of a transaction took since their last commit: it is to be read again.
    pub fn rollback(&mut self, tasks: impl IntoIterator<Item = TaskId>) {
        for id in tasks {
            if let Some(task) = self.by_id.get_mut(&id) {
                task.rollback();
            }
        }
        self.count();
    }

    /// From now on this input is refused: what it leads to cannot be published.
    pub fn refuse(&mut self, input: Input, offset: i64) -> Result<(), EngineError> {
        self.refused.insert((input, offset));
        if self.refused.len() > REFUSED_MAX {
            let words =
                format!("more than {REFUSED_MAX} inputs in one transaction lead to records that no topic takes");
            return Err(EngineError::Unpublishable(words));
        }
        Ok(())
    }

    /// What is ready, counted anew.
    fn count(&mut self) {
        let mut ready = Ready::default();
        for batch in self.by_id.values().map(|task| &task.batch) {
            ready.inputs += batch.inputs;
            ready.outputs += batch.publications.len();
            ready.urgent |= batch.urgent;
            ready.opened = match (ready.opened, batch.opened) {
                (Some(first), Some(other)) => Some(first.min(other)),
                (first, other) => first.or(other),
            };
        }
        self.ready = ready;
    }
}
