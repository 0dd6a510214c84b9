//! One worker: one thread that owns a consumer and a transactional producer. Poll, step, commit; nothing else.
//!
//! Order at the start: look at the topics, take the transactional id over (which aborts what a predecessor left open),
//! subscribe. Partitions come and go by rebalances, on which the worker acts after the poll that brought them: tasks
//! are restored from the changelog in slices, with a poll between two, before anything is read for them.
//!
//! Invariant: an input's offset and its effects are in the same transaction, and effects of a partition that was taken
//! away are never published (`tests/kafka.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;

use crate::engine::assignment::{Group, Rebalance, assign, resume, start};
use crate::engine::batch::Transaction;
use crate::engine::catalogue::Registries;
use crate::engine::changelog::Restoring;
use crate::engine::clock::Clock;
use crate::engine::config::Config;
use crate::engine::counters::Counters;
use crate::engine::encode::Outlets;
use crate::engine::error::EngineError;
use crate::engine::fencing::Fencings;
use crate::engine::health::Phase;
use crate::engine::membership::{join, leave, outside, record};
use crate::engine::native::inbox::Inbox;
use crate::engine::pace::Pace;
use crate::engine::place::{Input, Role, TaskId};
use crate::engine::preflight;
use crate::engine::search::Search;
use crate::engine::task::Taken;
use crate::engine::tasks::Tasks;
use crate::engine::telemetry::Telemetry;
use crate::engine::transaction::{Outcome, Publisher};
use crate::engine::verdict::{Verdict, judge};
use crate::record::time::Timestamp;

/// Longest wait of a poll: how late a stop or a deadline is noticed.
const POLL_MAX: Duration = Duration::from_millis(100);
/// Pause before a commit that found this process outside its group is tried again.
const NOT_MEMBER_PAUSE: Duration = Duration::from_millis(100);

/// What a worker tells while it runs.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The group gave it this many tasks.
    Assigned(usize),
    /// A transaction was committed.
    Committed(&'a Counters),
}

/// Called for every [`Progress`], on the worker's thread.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress<'_>);

/// Runs one worker until `stop` is set, or it has to give up; commits what it has and closes.
///
/// # Errors
/// Why it had to give up.
pub fn run(
    config: Config,
    registries: Registries,
    stop: &Arc<AtomicBool>,
    on_progress: OnProgress<'_>,
) -> Result<Counters, EngineError> {
    let watch = Arc::clone(&config.watch);
    let failed = |error| {
        watch.vital.enter(Phase::Failed, 0, Instant::now());
        error
    };
    let mut worker = Worker::start(config, registries, stop).map_err(failed)?;
    let ended = worker.work(on_progress).map_err(failed);
    worker.close();
    tracing::info!(counters = %worker.counters, "worker stopped");
    ended.map(|()| worker.counters)
}

struct Worker {
    config: Config,
    stop: Arc<AtomicBool>,
    /// There until closed.
    inbox: Option<Inbox<Group>>,
    publisher: Publisher,
    /// While the tasks of an assignment are not there yet.
    restoring: Option<Restoring>,
    tasks: Tasks,
    /// Closed and not committed yet: nothing is taken until it is.
    pending: Option<Transaction>,
    clock: Clock,
    search: Search,
    counters: Counters,
    telemetry: Telemetry,
    commits: Pace,
    fencings: Fencings,
}

/// What became of what the inbox held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// It held nothing.
    None,
    /// All of it was taken.
    Taken,
    /// Something else comes first.
    Stop,
}

impl Worker {
    fn start(config: Config, registries: Registries, stop: &Arc<AtomicBool>) -> Result<Self, EngineError> {
        let bytes_max = if config.check_topics { preflight::check(&config)? } else { BTreeMap::new() };
        let publisher = Publisher::new(&config, stop)?;
        let inbox = join(&config)?;
        let tasks = Tasks::new(&config, Outlets::new(&config, bytes_max), registries);
        tracing::info!(id = config.worker_id(), servers = config.cluster.bootstrap_servers, "worker started");
        Ok(Self {
            stop: Arc::clone(stop),
            inbox: Some(inbox),
            publisher,
            restoring: None,
            tasks,
            pending: None,
            clock: Clock::default(),
            search: Search::new(config.batch_events_max),
            counters: Counters::default(),
            telemetry: Telemetry::new(),
            commits: Pace::after(Instant::now(), Duration::ZERO),
            fencings: Fencings::default(),
            config,
        })
    }

    fn work(&mut self, on_progress: OnProgress<'_>) -> Result<(), EngineError> {
        self.config.watch.vital.enter(Phase::Joining, 0, Instant::now());
        while !self.stop.load(Ordering::Relaxed) {
            self.config.watch.vital.beat(self.counters.inputs, Instant::now());
            let polled = self.poll()?;
            self.rebalances(on_progress)?;
            if self.restoring.is_some() {
                self.restore(on_progress)?;
                continue;
            }
            let now = Instant::now();
            if self.pending.is_none() && !polled {
                let wall = self.wall(now);
                self.tasks.tick(wall, now)?;
            }
            if self.due(self.commits.idle).is_some_and(|due| due <= now) {
                self.commit(false, on_progress)?;
            }
            self.telemetry.tell(self.tasks.stale(), now);
            self.config.watch.show(now, || self.tasks.view(&self.counters));
        }
        self.config.watch.vital.enter(Phase::Stopping, self.tasks.len(), Instant::now());
        while self.pending.is_some() || self.tasks.is_ready() {
            if self.commit(true, on_progress)? != Outcome::Committed {
                self.counters.dropped += self.tasks.inputs() as u64;
                break;
            }
        }
        // The last words wait for nothing.
        self.telemetry.tell(self.tasks.stale(), Instant::now() + POLL_MAX * 10);
        self.config.watch.show_next();
        self.config.watch.show(Instant::now(), || self.tasks.view(&self.counters));
        Ok(())
    }

    fn wall(&mut self, now: Instant) -> Timestamp {
        self.clock.wall(now, self.publisher.reports().broker_ahead_micros())
    }

    /// When to commit, given when the next commit may begin at the earliest.
    fn due(&self, not_before: Instant) -> Option<Instant> {
        match &self.pending {
            Some(_) => Some(not_before),
            None => self.tasks.due(&self.config, self.search.inputs_max(), not_before),
        }
    }

    /// Takes records until a commit is due or none is there; whether there was one.
    fn poll(&mut self) -> Result<bool, EngineError> {
        let mut polled = false;
        loop {
            // One look at the clocks for all that is held: a quarter of a millisecond of work at most.
            let now = Instant::now();
            let wall = self.wall(now);
            if self.pending.is_none() {
                match self.take_held(wall, now)? {
                    Held::None => {}
                    Held::Taken => polled = true,
                    Held::Stop => return Ok(true),
                }
            }
            // After the first record only what is there already: what is due is looked at before waiting again.
            let wait = match self.due(self.commits.idle) {
                _ if polled || self.restoring.is_some() => Duration::ZERO,
                Some(due) => due.saturating_duration_since(now).min(POLL_MAX),
                None => POLL_MAX,
            };
            // Without partitions, or with a transaction that waits, nothing but the group can have news.
            let takes = !self.tasks.is_empty() && self.pending.is_none();
            let Some(inbox) = &mut self.inbox else { return Ok(polled) };
            match inbox.consumer().poll(if takes { Duration::ZERO } else { wait }) {
                None => {}
                Some(Ok(_)) => return Err(outside()),
                Some(Err(error)) => {
                    self.judge(&error)?;
                    return Ok(polled);
                }
            }
            let wait = if takes { wait } else { Duration::ZERO };
            if inbox.consumer().context().is_pending() || !takes && self.restoring.is_none() || inbox.fill(wait) == 0 {
                return Ok(polled);
            }
        }
    }

    /// Takes what the inbox holds.
    fn take_held(&mut self, wall: Timestamp, now: Instant) -> Result<Held, EngineError> {
        let mut held = Held::None;
        loop {
            let Some(inbox) = &mut self.inbox else { return Ok(held) };
            let Some(received) = inbox.next() else { return Ok(held) };
            let received = match received {
                Ok(received) => received,
                Err(error) => {
                    self.judge(&error)?;
                    return Ok(Held::Stop);
                }
            };
            // It would be skipped; at its next start the process reads it again.
            if self.restoring.is_some() {
                let words = "a record of a paused partition".into();
                return Err(EngineError::Kafka { doing: "restoring", words });
            }
            held = Held::Taken;
            let Some(record) = record(received, &self.tasks.shared.names) else { continue };
            let place = (record.input, record.offset);
            let taken = self.tasks.take(record, wall, now, &mut self.counters)?;
            if taken == Taken::Unpublishable {
                self.refuse(place)?;
                return Ok(Held::Stop);
            }
            self.read_activated()?;
            let full = self.tasks.is_full(self.search.inputs_max());
            let not_before = if full { self.commits.idle } else { self.commits.busy };
            if self.due(not_before).is_some_and(|due| due <= now) {
                return Ok(Held::Stop);
            }
        }
    }

    /// What the input leads to cannot be published: its task goes back, and takes it as a dead letter.
    fn refuse(&mut self, (input, offset): (Input, i64)) -> Result<(), EngineError> {
        tracing::warn!(task = %input.task(), offset, "what an input leads to is larger than a topic takes: it is refused");
        self.tasks.refuse(input, offset)?;
        self.rewind([input.task()])
    }

    /// Takes tasks back to their last commit, and their readers with them.
    fn rewind(&mut self, tasks: impl IntoIterator<Item = TaskId>) -> Result<(), EngineError> {
        self.tasks.rollback(tasks);
        let Some(inbox) = &mut self.inbox else { return Ok(()) };
        inbox.discard();
        start(inbox, &self.tasks.places(), &self.tasks.shared.names)?;
        resume(inbox, self.tasks.reading(), &self.tasks.shared.names)
    }

    /// Lets the records of tasks be read that have a registry now.
    fn read_activated(&mut self) -> Result<(), EngineError> {
        let activated = self.tasks.take_activated();
        match &self.inbox {
            Some(inbox) if !activated.is_empty() => {
                let records = activated.into_iter().map(|task| task.input(Role::Records));
                resume(inbox, records, &self.tasks.shared.names)
            }
            _ => Ok(()),
        }
    }

    /// Acts on an error of a poll.
    fn judge(&mut self, error: &KafkaError) -> Result<(), EngineError> {
        match judge(error, &self.config)? {
            Verdict::Passing => Ok(()),
            Verdict::Lost => {
                self.give_up();
                Ok(())
            }
            Verdict::Fenced => self.join_again(),
        }
    }

    fn rebalances(&mut self, on_progress: OnProgress<'_>) -> Result<(), EngineError> {
        loop {
            let Some(inbox) = &mut self.inbox else { return Ok(()) };
            let Some(rebalance) = inbox.consumer().context().next() else { return Ok(()) };
            match rebalance {
                Rebalance::Assign(wanted) => {
                    inbox.discard();
                    self.counters.assignments += 1;
                    self.config.watch.vital.wait(true, Instant::now());
                    let names = &self.tasks.shared.names;
                    let Some(committed) = assign(&self.config, inbox, &wanted, names, &self.stop)? else { continue };
                    let registries = self.tasks.registries();
                    self.restoring = Some(Restoring::begin(&self.config, registries, committed, &self.stop)?);
                    self.config.watch.vital.enter(Phase::Restoring, 0, Instant::now());
                }
                Rebalance::Revoke { lost } => {
                    self.counters.revocations += 1;
                    while !lost && (self.pending.is_some() || self.tasks.is_ready()) {
                        if self.commit(true, on_progress)? != Outcome::Committed {
                            break;
                        }
                    }
                    self.give_up();
                    if let Some(inbox) = &self.inbox {
                        inbox
                            .consumer()
                            .unassign()
                            .map_err(|error| EngineError::kafka("giving partitions up", &error))?;
                    }
                    tracing::info!(lost, "revoked");
                }
            }
        }
    }

    /// Restores for a moment; begins the tasks once all of them are there.
    fn restore(&mut self, on_progress: OnProgress<'_>) -> Result<(), EngineError> {
        let Some(restoring) = self.restoring.as_mut() else { return Ok(()) };
        let done = restoring.slice()?;
        let (tasks, entries, begun) = restoring.progress();
        self.config.watch.vital.restored(entries);
        if !done {
            return Ok(());
        }
        self.counters.restores.add(begun.elapsed());
        self.counters.restored_entries += entries;
        let (Some(restoring), Some(inbox)) = (self.restoring.take(), &self.inbox) else { return Ok(()) };
        self.tasks.begin(restoring.finish()?);
        resume(inbox, self.tasks.reading(), &self.tasks.shared.names)?;
        self.config.watch.vital.enter(Phase::Running, tasks, Instant::now());
        self.config.watch.show_next();
        tracing::info!(tasks = self.tasks.len(), "assigned");
        on_progress(Progress::Assigned(self.tasks.len()));
        Ok(())
    }

    /// Commits what waits, else what is due, or everything.
    fn commit(&mut self, everything: bool, on_progress: OnProgress<'_>) -> Result<Outcome, EngineError> {
        let Some(inbox) = &self.inbox else { return Ok(Outcome::NotMember) };
        let started = Instant::now();
        let transaction = match self.pending.take() {
            Some(pending) => pending,
            None if everything => self.tasks.close_all()?,
            None => self.tasks.close_due(&self.config, self.search.inputs_max(), started)?,
        };
        self.config.watch.vital.wait(true, started);
        let outcome = self.publisher.commit(inbox.consumer(), &transaction, &mut self.counters)?;
        self.config.watch.vital.wait(false, Instant::now());
        self.commits = Pace::after(started, self.config.commit_gap_min);
        match outcome {
            Outcome::Committed => {
                self.counters.commits.add(started.elapsed());
                self.counters.transactions += 1;
                self.counters.published += transaction.outputs() as u64;
                self.counters.state_entries += transaction.state_entries() as u64;
                self.telemetry.committed(&transaction, &self.config.topics);
                self.tasks.committed(&transaction, &self.publisher.reports().changelog_ends());
                self.search.committed(transaction.inputs());
                on_progress(Progress::Committed(&self.counters));
            }
            Outcome::NotMember => {
                self.commits = Pace::after(started, NOT_MEMBER_PAUSE);
                self.pending = Some(transaction);
            }
            Outcome::Refused => self.look_for_refused(&transaction)?,
        }
        Ok(outcome)
    }

    /// A broker does not take something in a transaction: smaller ones, until one input alone is to blame.
    fn look_for_refused(&mut self, transaction: &Transaction) -> Result<(), EngineError> {
        let tasks: Vec<TaskId> = transaction.shares.iter().map(|share| share.task).collect();
        if let Some(place) = transaction.only_input() {
            self.search.found();
            return self.refuse(place);
        }
        if !self.search.narrow(transaction.inputs()) {
            let words = "a broker does not take what a transaction without inputs publishes".into();
            return Err(EngineError::Unpublishable(words));
        }
        tracing::warn!(
            inputs = transaction.inputs(),
            "a broker does not take a record; looking for the input behind it"
        );
        self.rewind(tasks)
    }

    /// Drops tasks and what they wanted to publish: other tasks of other workers answer for their partitions now.
    fn give_up(&mut self) {
        if self.tasks.inputs() > 0 {
            let inputs = self.tasks.inputs();
            self.counters.dropped += inputs as u64;
            tracing::warn!(inputs, "partitions lost: their uncommitted effects are dropped");
        }
        self.pending = None;
        self.restoring = None;
        self.tasks.end();
        self.config.watch.vital.enter(Phase::Joining, 0, Instant::now());
        self.config.watch.show_next();
        if let Some(inbox) = &mut self.inbox {
            inbox.discard();
        }
    }

    /// Gives up what a fenced member had, and joins as a new one.
    fn join_again(&mut self) -> Result<(), EngineError> {
        self.counters.fenced += 1;
        self.give_up();
        self.inbox.take().into_iter().for_each(leave);
        let pause = self.fencings.note(&self.config.worker_id(), Instant::now())?;
        tracing::warn!(id = self.config.worker_id(), "fenced; joining again");
        thread::sleep(pause);
        self.config.watch.vital.wait(false, Instant::now());
        self.inbox = Some(join(&self.config)?);
        Ok(())
    }

    fn close(&mut self) {
        self.tasks.tell();
        self.publisher.close();
        self.inbox.take().into_iter().for_each(leave);
    }
}
