//! What workers show to whoever looks from outside: health at any time, a snapshot of counters once a second.
//!
//! A worker never waits for a reader, and a reader never makes it do anything: it puts a finished snapshot in place of
//! the one before. Statistics of the client library are taken as they come, and read by [`Monitor::tend`], on the thread
//! of whoever calls it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::engine::clock::local;
use crate::engine::shown::counters::Counters;
use crate::engine::shown::health::{Bounds, Health, Vital};
use crate::engine::shown::lag::{Book, Lag, Look};
use crate::engine::state::store::keeper::Tally;
use crate::fleet;
use crate::record::time::Timestamp;
use crate::session::Counts;

/// A worker shows its counters this often at most.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// What a worker counted, and what it holds, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Counters of the worker.
    pub counters: Counters,
    /// Counters of all session tasks it had.
    pub session: Counts,
    /// Counters of all fleet tasks it had.
    pub fleet: fleet::Counts,
    /// Its tasks.
    pub tasks: Vec<TaskView>,
    /// Their inputs.
    pub inputs: Vec<InputView>,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// `STAGE/PARTITION`.
    pub task: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// The topics it reads.
    pub topics: [Arc<str>; 2],
    /// Its clock; none: it took nothing yet.
    pub watermark: Option<Timestamp>,
    /// Sessions it keeps state of.
    pub sessions_tracked: u64,
    /// Overrides that live.
    pub overrides_live: u64,
    /// Whether a person stopped its automation.
    pub is_frozen: bool,
    /// What its sessions take in memory, indexes not counted.
    pub state_bytes: u64,
}

impl TaskView {
    /// Whether it reads this partition.
    pub fn reads(&self, topic: &str, partition: i32) -> bool {
        self.partition == partition && self.topics.iter().any(|own| **own == *topic)
    }
}

/// How a task was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Entries read, from a local store and from the changelog.
    pub entries: u64,
    /// Hash of all of its entries, in whatever order they came.
    pub entries_hash: u128,
}

/// One input partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputView {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its number.
    pub partition: i32,
    /// Committed offset; none: nothing was ever committed.
    pub committed: Option<i64>,
    /// Append time of the record read last; none: none was.
    pub read_at: Option<Timestamp>,
}

impl InputView {
    /// Whether it is this partition.
    pub fn is(&self, topic: &str, partition: i32) -> bool {
        self.partition == partition && *self.topic == *topic
    }
}

/// What one worker shows.
#[derive(Debug, Default)]
pub struct Watch {
    /// Where it is, and how.
    pub vital: Vital,
    /// What its local stores count.
    pub stores: Arc<Tally>,
    restored: Mutex<BTreeMap<String, Restored>>,
    snapshot: Mutex<Arc<Snapshot>>,
    shown: Mutex<Option<Instant>>,
    statistics: Mutex<Option<Vec<u8>>>,
    book: Mutex<Book>,
    lags: Mutex<Arc<Vec<Lag>>>,
}

impl Watch {
    /// Puts a snapshot in place, where the last one is not from a moment ago.
    pub fn show(&self, now: Instant, snapshot: impl FnOnce() -> Snapshot) {
        let mut shown = lock(&self.shown);
        if shown.is_some_and(|shown| now.saturating_duration_since(shown) < SHOW_EVERY) {
            return;
        }
        *shown = Some(now);
        put(&self.snapshot, snapshot());
    }

    /// The next snapshot is shown at once: what is owned has changed.
    pub fn show_next(&self) {
        *lock(&self.shown) = None;
    }

    /// The last snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.snapshot))
    }

    /// A task was restored; the last time counts.
    pub fn note_restored(&self, task: String, restored: Restored) {
        lock(&self.restored).insert(task, restored);
    }

    /// How tasks were restored, by name.
    pub fn restored(&self) -> BTreeMap<String, Restored> {
        lock(&self.restored).clone()
    }

    /// Takes what the client library tells; what nobody read yet is replaced.
    pub fn told(&self, statistics: &[u8]) {
        *lock(&self.statistics) = Some(statistics.to_vec());
    }

    /// The lag of its inputs, as of the last look.
    pub fn lags(&self) -> Arc<Vec<Lag>> {
        Arc::clone(&lock(&self.lags))
    }

    /// Reads statistics that came since the last time.
    fn tend(&self, wall: Timestamp, now: Instant) {
        let statistics = lock(&self.statistics).take();
        let snapshot = self.snapshot();
        if let Some(statistics) = statistics
            && let Some(Look { lags, is_cut_off }) = lock(&self.book).look(&statistics, &snapshot.inputs, wall, now)
        {
            self.vital.cut_off(is_cut_off, now);
            if lags.iter().all(|lag| lag.records == 0) {
                self.vital.moved(now);
            }
            put(&self.lags, lags);
        }
    }

    fn lag(&self) -> u64 {
        self.lags().iter().map(|lag| lag.records).sum()
    }
}

/// All workers of a process.
#[derive(Debug)]
pub struct Monitor {
    stop: Arc<AtomicBool>,
    bounds: Bounds,
    workers: Vec<Arc<Watch>>,
}

impl Monitor {
    /// So many workers, which end when `stop` is set.
    #[must_use]
    pub fn new(workers: usize, bounds: Bounds, stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), bounds, workers: (0..workers).map(|_| Arc::default()).collect() }
    }

    /// What each worker shows, by its number.
    #[must_use]
    pub fn workers(&self) -> &[Arc<Watch>] {
        &self.workers
    }

    /// Reads what the client libraries told. To be called about once a second.
    pub fn tend(&self, now: Instant) {
        let wall = wall();
        self.workers.iter().for_each(|worker| worker.tend(wall, now));
    }

    /// How the process is.
    #[must_use]
    pub fn health(&self, now: Instant) -> ProcessHealth {
        let stopping = self.stop.load(Ordering::Relaxed);
        let workers = self.workers.iter().map(|worker| worker.vital.look(&self.bounds, worker.lag(), stopping, now));
        ProcessHealth { workers: workers.collect() }
    }
}

/// How a process is: as its worst worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessHealth {
    /// Its workers, by number.
    pub workers: Vec<Health>,
}

impl ProcessHealth {
    /// Whether all come round in time.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.workers.iter().all(|worker| worker.live)
    }

    /// Whether all had their tasks once.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.workers.iter().all(|worker| worker.started)
    }

    /// Why the process is not ready; none: it is.
    #[must_use]
    pub fn unready(&self) -> Option<&'static str> {
        self.workers.iter().find_map(|worker| worker.unready)
    }
}

/// Wall time; corrected by nothing.
#[must_use]
pub fn wall() -> Timestamp {
    local()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put<T>(place: &Mutex<Arc<T>>, value: T) {
    // The old one is dropped after the lock is given back.
    let _before = std::mem::replace(&mut *lock(place), Arc::new(value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::shown::health::Phase;

    #[test]
    fn a_snapshot_a_second_is_enough() {
        let watch = Watch::default();
        let start = Instant::now();
        let show = |millis, inputs| {
            watch.show(start + Duration::from_millis(millis), || Snapshot {
                counters: Counters { inputs, ..Counters::default() },
                ..Snapshot::default()
            });
            watch.snapshot().counters.inputs
        };
        assert_eq!(show(0, 1), 1);
        assert_eq!(show(999, 2), 1);
        assert_eq!(show(1000, 3), 3);
        watch.show_next();
        assert_eq!(show(1001, 4), 4);
    }

    #[test]
    fn a_process_is_as_its_worst_worker() {
        let stop = Arc::new(AtomicBool::new(false));
        let monitor = Monitor::new(2, Bounds::default(), &stop);
        let now = Instant::now();
        let enter = |worker: usize, phase| monitor.workers()[worker].vital.enter(phase, 1, now);
        enter(0, Phase::Running);
        let health = monitor.health(now);
        assert_eq!((health.is_live(), health.is_started(), health.unready()), (true, false, Some("starting")));
        enter(1, Phase::Running);
        let health = monitor.health(now);
        assert_eq!((health.is_started(), health.unready()), (true, None));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(monitor.health(now).unready(), Some("stopping"));
        enter(1, Phase::Failed);
        assert!(!monitor.health(now).is_live());
    }

    #[test]
    fn lag_comes_from_statistics_that_somebody_tends() {
        let watch = Watch::default();
        let inputs = vec![InputView { topic: "events".into(), partition: 0, committed: Some(2), read_at: None }];
        let now = Instant::now();
        watch.show(now, || Snapshot { inputs, ..Snapshot::default() });
        watch.told(br#"{"topics":{"events":{"partitions":{"0":{"app_offset":-1001,"lo_offset":0,"hi_offset":9,"ls_offset":9}}}}}"#);
        assert_eq!(watch.lag(), 0);
        watch.tend(wall(), now);
        assert_eq!(watch.lag(), 7);
        watch.vital.enter(Phase::Joining, 0, now);
        watch.told(br#"{"brokers":{"a:1/1":{"state":"DOWN"}}}"#);
        watch.tend(wall(), now);
        let later = now + Duration::from_secs(4);
        let unready = watch.vital.look(&Bounds::default(), 0, false, later).unready;
        assert_eq!(unready, Some("no broker answers: its tasks are given up until one does"));
    }
}
