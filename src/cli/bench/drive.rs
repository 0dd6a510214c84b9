//! The engine as `reflex run` runs it, watched from beside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cli::bench::usage;
use crate::cli::exit::{Exit, Failure};
use crate::engine::{self, Config, Counters, EngineError, Progress, Registries};
use crate::registry::Registry;

/// Longest time without a commit; over: the run has failed.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A moment, with what the process had used until then.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    at: Instant,
    cpu: Duration,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
}

impl Mark {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self { at: Instant::now(), cpu: usage::cpu(), resident_bytes: usage::resident_bytes() }
    }

    /// Wall time and CPU time since an earlier one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> (Duration, Duration) {
        (self.at.saturating_duration_since(earlier.at), self.cpu.saturating_sub(earlier.cpu))
    }
}

/// What a run to the end of a topic took.
#[derive(Debug)]
pub struct Ran {
    /// When the partitions were assigned.
    pub begun: Mark,
    /// When the last event was committed.
    pub ended: Mark,
    /// What the worker counted.
    pub counters: Counters,
}

/// One worker on a thread of its own.
pub struct Worker {
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
    marks: Receiver<Mark>,
    thread: JoinHandle<Result<Counters, EngineError>>,
}

impl Worker {
    /// Starts it; it stops by itself once so many events are committed, or when `stop` is set.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub fn start(
        config: Config,
        registry: Arc<Registry>,
        events: u64,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let committed = Arc::new(AtomicU64::new(0));
        let (mark, marks) = channel();
        let (stopped, shown) = (Arc::clone(stop), Arc::clone(&committed));
        let work = move || {
            let mut begun = false;
            engine::run(config, Registries::Fixed(registry), &stopped, &mut |progress| match progress {
                Progress::Assigned(tasks) if tasks > 0 && !begun => {
                    begun = true;
                    // Nobody listens any more: the run was given up.
                    let _ = mark.send(Mark::now());
                }
                Progress::Assigned(_) => {}
                Progress::Committed(counters) => {
                    shown.store(counters.inputs, Ordering::Relaxed);
                    if counters.inputs >= events {
                        let _ = mark.send(Mark::now());
                        stopped.store(true, Ordering::Relaxed);
                    }
                }
            })
        };
        let thread = thread::Builder::new()
            .name("worker-0".into())
            .spawn(work)
            .map_err(|error| Failure::new(Exit::TryAgain, format_args!("starting a thread: {error}")))?;
        Ok(Self { stop: Arc::clone(stop), committed, marks, thread })
    }

    /// Waits until it has its partitions.
    ///
    /// # Errors
    /// Why it did not get them.
    pub fn wait_until_assigned(&self) -> Result<Mark, Failure> {
        self.marks.recv_timeout(PATIENCE).map_err(|_| Failure::new(Exit::TryAgain, "the worker got no partitions"))
    }

    /// Waits for its end, as long as it goes on committing.
    ///
    /// # Errors
    /// Why it ended early.
    pub fn finish(self) -> Result<Ran, Failure> {
        let (mut seen, mut since) = (0, Instant::now());
        while !self.thread.is_finished() {
            thread::sleep(LOOK_EVERY);
            let committed = self.committed.load(Ordering::Relaxed);
            if committed > seen {
                (seen, since) = (committed, Instant::now());
            }
            if since.elapsed() > PATIENCE {
                self.stop.store(true, Ordering::Relaxed);
                self.end()?;
                let message = format!("no commit for {} s after {seen} events", PATIENCE.as_secs());
                return Err(Failure::new(Exit::TryAgain, message));
            }
        }
        let marks: Vec<Mark> = self.marks.try_iter().take(2).collect();
        let counters = self.end()?;
        match marks[..] {
            [begun, ended] => Ok(Ran { begun, ended, counters }),
            _ => Err(Failure::new(Exit::TryAgain, "stopped before the end of the topic")),
        }
    }

    /// Stops it; what it counted.
    ///
    /// # Errors
    /// Why it ended early.
    pub fn end(self) -> Result<Counters, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(ended) => ended.map_err(Failure::from),
            Err(_) => Err(Failure::new(Exit::Bug, "the worker panicked; its message is above")),
        }
    }
}
