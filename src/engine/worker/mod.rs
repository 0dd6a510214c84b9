//! One worker: one thread that owns a consumer and a transactional producer. Poll, step, commit; nothing else.
//!
//! Order at the start: look at the topics, take the transactional id over (which aborts what a predecessor left open),
//! subscribe. Partitions come and go by rebalances, on which the worker acts after the poll that brought them: tasks
//! are restored from the changelog in slices, with a poll between two, before anything is read for them.
//!
//! Invariant: an input's offset and its effects are in the same transaction, and effects of a partition that was taken
//! away are never published (`tests/kafka.rs`).

mod committing;
mod owning;
mod taking;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::engine::clock::Clock;
use crate::engine::cluster::preflight;
use crate::engine::commit::pace::Pace;
use crate::engine::commit::search::Search;
use crate::engine::commit::transaction::{Outcome, Publisher};
use crate::engine::config::Config;
use crate::engine::error::EngineError;
use crate::engine::group::assignment::Group;
use crate::engine::group::fencing::Fencings;
use crate::engine::group::membership::{join, leave};
use crate::engine::native::inbox::Inbox;
use crate::engine::shown::counters::Counters;
use crate::engine::shown::health::Phase;
use crate::engine::shown::telemetry::Telemetry;
use crate::engine::state::changelog::Restoring;
use crate::engine::state::store::hands::Stores;
use crate::engine::task::batch::Transaction;
use crate::engine::task::catalogue::Registries;
use crate::engine::task::encode::Outlets;
use crate::engine::task::tasks::Tasks;
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
    pending: Option<Arc<Transaction>>,
    clock: Clock,
    search: Search,
    counters: Counters,
    telemetry: Telemetry,
    commits: Pace,
    fencings: Fencings,
    stores: Stores,
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
            stores: Stores::start(&config)?,
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

    fn close(&mut self) {
        self.tasks.tell();
        self.publisher.close();
        self.stores.stopped();
        self.inbox.take().into_iter().for_each(leave);
    }
}
