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
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;

use crate::engine::assignment::{Group, Rebalance, assign};
use crate::engine::batch::Batch;
use crate::engine::changelog::Restoring;
use crate::engine::client::{consumer, create};
use crate::engine::config::Config;
use crate::engine::counters::Counters;
use crate::engine::encode::Outlets;
use crate::engine::error::{EngineError, words};
use crate::engine::fencing::Fencings;
use crate::engine::intake::Raw;
use crate::engine::native::inbox::{Inbox, Received};
use crate::engine::preflight;
use crate::engine::stage::{Record, Stage};
use crate::engine::store::hands::Stores;
use crate::engine::telemetry::Telemetry;
use crate::engine::transaction::{Outcome, Publisher};
use crate::engine::verdict::{Verdict, judge};
use crate::record::time::Timestamp;
use crate::registry::Registry;

/// Longest wait of a poll: how late a stop or a deadline is noticed.
const POLL_MAX: Duration = Duration::from_millis(100);
/// While records are waiting, a worker takes them for so many times as long as its last commit took before it commits
/// again: else a backlog of urgent batches would spend its time in commits. Latency loses nothing: where records do not
/// wait, a commit does not either.
const CATCH_UP_FACTOR: u32 = 8;
/// But not for longer than this.
const CATCH_UP_MAX: Duration = Duration::from_millis(250);
/// Pause before a commit that found this process outside its group is tried again.
const NOT_MEMBER_PAUSE: Duration = Duration::from_millis(100);
/// How long closing the consumer may take; over: it is left to the end of the process.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

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
    registry: Arc<Registry>,
    stop: &Arc<AtomicBool>,
    on_progress: OnProgress<'_>,
) -> Result<Counters, EngineError> {
    let mut worker = Worker::start(config, registry, stop)?;
    let ended = worker.work(on_progress);
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
    stage: Stage,
    batch: Batch,
    counters: Counters,
    telemetry: Telemetry,
    commits: Pace,
    fencings: Fencings,
    stores: Stores,
}

/// When the next commit may begin.
#[derive(Clone, Copy)]
struct Pace {
    /// With nothing else to do.
    idle: Instant,
    /// With more records waiting.
    busy: Instant,
}

impl Pace {
    fn after(began: Instant, gap_min: Duration) -> Self {
        let ended = Instant::now();
        Self { idle: ended + gap_min, busy: ended + gap_min.max(((ended - began) * CATCH_UP_FACTOR).min(CATCH_UP_MAX)) }
    }
}

impl Worker {
    fn start(config: Config, registry: Arc<Registry>, stop: &Arc<AtomicBool>) -> Result<Self, EngineError> {
        let bytes_max = if config.check_topics { preflight::check(&config)? } else { BTreeMap::new() };
        let publisher = Publisher::new(&config, stop)?;
        let inbox = join(&config)?;
        let stores = Stores::start(&config)?;
        let stage = Stage::new(&config, registry, Outlets::new(&config, bytes_max));
        tracing::info!(id = config.worker_id(), servers = config.cluster.bootstrap_servers, "worker started");
        Ok(Self {
            config,
            stop: Arc::clone(stop),
            inbox: Some(inbox),
            publisher,
            restoring: None,
            stage,
            batch: Batch::default(),
            counters: Counters::default(),
            telemetry: Telemetry::new(),
            commits: Pace::after(Instant::now(), Duration::ZERO),
            fencings: Fencings::default(),
            stores,
        })
    }

    fn work(&mut self, on_progress: OnProgress<'_>) -> Result<(), EngineError> {
        while !self.stop.load(Ordering::Relaxed) {
            let polled = self.poll()?;
            self.rebalances(on_progress)?;
            if self.restoring.is_some() {
                self.restore(on_progress)?;
                continue;
            }
            let now = Instant::now();
            if !polled {
                self.stage.tick(wall(), now, &mut self.batch);
            }
            let due = self.batch.due(&self.config, self.commits.idle);
            if due.is_some_and(|due| due <= now) {
                self.commit(on_progress)?;
            }
            self.telemetry.tell(self.stage.stale(), now);
        }
        if !self.batch.is_empty() && self.commit(on_progress)? == Outcome::NotMember {
            self.counters.dropped += self.batch.inputs as u64;
        }
        // The last words wait for nothing.
        self.telemetry.tell(self.stage.stale(), Instant::now() + POLL_MAX * 10);
        Ok(())
    }

    /// Takes records until the batch is due or none is there; whether there was one.
    fn poll(&mut self) -> Result<bool, EngineError> {
        let Some(inbox) = &mut self.inbox else { return Ok(false) };
        let mut polled = false;
        loop {
            // One look at the clocks for all that is held: a quarter of a millisecond of work at most.
            let (now, wall) = (Instant::now(), wall());
            while let Some(received) = inbox.next() {
                polled = true;
                let received = match received {
                    Ok(received) => received,
                    Err(error) => {
                        self.judge(&error)?;
                        return Ok(polled);
                    }
                };
                // It would be skipped; at its next start the process reads it again.
                if self.restoring.is_some() {
                    let words = "a record of a paused partition".into();
                    return Err(EngineError::Kafka { doing: "restoring", words });
                }
                let Some(record) = record(received, self.stage.names()) else { continue };
                self.stage.take(record, wall, now, &mut self.batch, &mut self.counters);
                let full = self.batch.is_full(&self.config);
                let not_before = if full { self.commits.idle } else { self.commits.busy };
                let due = self.batch.due(&self.config, not_before);
                if due.is_some_and(|due| due <= now) {
                    return Ok(true);
                }
            }
            // After the first record only what is there already: the batch is looked at before waiting again.
            let wait = match self.batch.due(&self.config, self.commits.idle) {
                _ if polled || self.restoring.is_some() => Duration::ZERO,
                Some(due) => due.saturating_duration_since(now).min(POLL_MAX),
                None => POLL_MAX,
            };
            // Without partitions nothing but the group can have news.
            let owns = !self.stage.is_empty();
            match inbox.consumer().poll(if owns { Duration::ZERO } else { wait }) {
                None => {}
                Some(Ok(_)) => return Err(outside()),
                Some(Err(error)) => {
                    self.judge(&error)?;
                    return Ok(polled);
                }
            }
            if inbox.consumer().context().is_pending() || inbox.fill(if owns { wait } else { Duration::ZERO }) == 0 {
                return Ok(polled);
            }
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
                    let Some(committed) = assign(inbox, &wanted, self.stage.names(), &self.stop)? else {
                        continue;
                    };
                    let (registry, stores) = (self.stage.registry(), &self.stores);
                    self.restoring = Some(Restoring::begin(&self.config, registry, committed, stores, &self.stop)?);
                }
                Rebalance::Revoke { lost } => {
                    if !lost && !self.batch.is_empty() {
                        self.commit(on_progress)?;
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
        if !restoring.slice()? {
            return Ok(());
        }
        let (Some(restoring), Some(inbox)) = (self.restoring.take(), &self.inbox) else { return Ok(()) };
        let consumer = inbox.consumer();
        self.stage.begin(restoring.finish()?, Instant::now());
        consumer
            .assignment()
            .and_then(|owned| consumer.resume(&owned))
            .map_err(|error| EngineError::kafka("resuming", &error))?;
        tracing::info!(tasks = self.stage.len(), "assigned");
        on_progress(Progress::Assigned(self.stage.len()));
        Ok(())
    }

    fn commit(&mut self, on_progress: OnProgress<'_>) -> Result<Outcome, EngineError> {
        let Some(inbox) = &self.inbox else { return Ok(Outcome::NotMember) };
        let started = Instant::now();
        self.stage.changes(&mut self.batch);
        let outcome = self.publisher.commit(inbox.consumer(), &self.batch, &mut self.counters)?;
        self.commits = Pace::after(started, self.config.commit_gap_min);
        match outcome {
            Outcome::Committed => {
                self.counters.commits.add(started.elapsed());
                self.counters.transactions += 1;
                self.counters.published += (self.batch.publications.len() - self.batch.state_entries) as u64;
                self.counters.state_entries += self.batch.state_entries as u64;
                self.telemetry.committed(&self.batch, &self.config.topics);
                self.stage.committed(&self.batch);
                let stage = &self.stage;
                self.stores.committed(&self.publisher.take_ends(), |_, partition| stage.state_hash(partition));
                self.batch.clear();
                on_progress(Progress::Committed(&self.counters));
            }
            Outcome::NotMember => self.commits = Pace::after(started, NOT_MEMBER_PAUSE),
        }
        Ok(outcome)
    }

    /// Drops tasks and what they wanted to publish: other tasks of other workers answer for their partitions now.
    fn give_up(&mut self) {
        if !self.batch.is_empty() {
            self.counters.dropped += self.batch.inputs as u64;
            tracing::warn!(inputs = self.batch.inputs, "partitions lost: their uncommitted effects are dropped");
        }
        self.batch.clear();
        self.restoring = None;
        self.stage.end();
        self.stores.revoked();
        if let Some(inbox) = &mut self.inbox {
            inbox.discard();
        }
    }

    /// Gives up what a fenced member had, and joins as a new one.
    fn join_again(&mut self) -> Result<(), EngineError> {
        self.counters.fenced += 1;
        self.give_up();
        self.leave();
        let pause = self.fencings.note(&self.config.worker_id(), Instant::now())?;
        tracing::warn!(id = self.config.worker_id(), "fenced; joining again");
        thread::sleep(pause);
        self.inbox = Some(join(&self.config)?);
        Ok(())
    }

    fn close(&mut self) {
        self.stage.tell();
        self.publisher.close();
        self.stores.stopped();
        self.leave();
    }

    /// Leaves without waiting for a broker that does not answer.
    fn leave(&mut self) {
        let Some(inbox) = self.inbox.take() else { return };
        inbox.consumer().context().close();
        let (done, closed) = mpsc::channel();
        let closing = thread::Builder::new().name("close".into()).spawn(move || {
            if let Err(error) = inbox.consumer().unassign() {
                tracing::warn!(error = %words(&error), "giving partitions up");
            }
            drop(inbox);
            // Nobody may be waiting any more.
            let _ = done.send(());
        });
        if closing.is_ok() && closed.recv_timeout(CLOSE_PATIENCE).is_err() {
            tracing::warn!("the consumer did not close in time");
        }
    }
}

fn join(config: &Config) -> Result<Inbox<Group>, EngineError> {
    let group: BaseConsumer<Group> = create(&consumer(config), Group::default())?;
    group.subscribe(&config.topics.inputs()).map_err(|error| EngineError::kafka("subscribing", &error))?;
    Inbox::new(group).map_err(|error| EngineError::kafka("creating a client", &error))
}

/// What was received as a record of the stage; none: not of an input.
fn record<'a>(received: Received<'a>, names: &[Arc<str>; 2]) -> Option<Record<'a>> {
    let input = names.iter().position(|name| received.is_of(name))?;
    Some(Record {
        input,
        partition: received.partition(),
        offset: received.offset(),
        // A record without a time does not move the task's clock.
        at: received.timestamp_millis().map_or(Timestamp::EPOCH, Timestamp::from_millis),
        raw: Raw { key: received.key(), value: received.value(), headers: received.headers() },
    })
}

/// A record that did not come through the inbox: its partition was assigned without being forwarded.
fn outside() -> EngineError {
    EngineError::Kafka { doing: "consuming", words: "a record of a partition that was not forwarded".into() }
}

/// Wall time; corrected by nothing yet.
fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
