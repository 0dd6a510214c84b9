//! The engine as `reflex run` runs it, watched from beside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cli::bench::usage;
use crate::cli::exit::{Exit, Failure};
use crate::engine::{self, Config, Counters, EngineError, Progress, Registries};

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
        Self { resident_bytes: usage::resident_bytes(), ..Self::light() }
    }

    /// The same without memory, which takes longer to ask for.
    fn light() -> Self {
        Self { at: Instant::now(), cpu: usage::cpu(), resident_bytes: None }
    }

    /// CPU time of the process until then.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.cpu
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

/// Inputs committed so far, and when the last of them was.
type Last = Arc<Mutex<(u64, Mark)>>;

/// One worker on a thread of its own.
pub struct Worker {
    stop: Arc<AtomicBool>,
    last: Last,
    begun: Receiver<Mark>,
    thread: JoinHandle<Result<Counters, EngineError>>,
}

impl Worker {
    /// Starts it, with the registry that was pushed; it goes on until it is ended, or `stop` is set.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub fn start(config: Config, stop: &Arc<AtomicBool>) -> Result<Self, Failure> {
        let last: Last = Arc::new(Mutex::new((0, Mark::light())));
        let (mark, begun) = channel();
        let (stopped, shown) = (Arc::clone(stop), Arc::clone(&last));
        let work = move || {
            let registries = Registries::in_band(&config);
            let mut is_begun = false;
            engine::run(config, registries, &stopped, &mut |progress| match progress {
                Progress::Assigned(tasks) if tasks > 0 && !is_begun => {
                    is_begun = true;
                    // Nobody listens any more: the run was given up.
                    let _ = mark.send(Mark::now());
                }
                Progress::Assigned(_) => {}
                Progress::Committed(counters) => *lock(&shown) = (counters.inputs, Mark::light()),
            })
        };
        let thread = thread::Builder::new()
            .name("worker-0".into())
            .spawn(work)
            .map_err(|error| Failure::new(Exit::TryAgain, format_args!("starting a thread: {error}")))?;
        Ok(Self { stop: Arc::clone(stop), last, begun, thread })
    }

    /// Waits until it has its partitions.
    ///
    /// # Errors
    /// Why it did not get them.
    pub fn wait_until_assigned(&self) -> Result<Mark, Failure> {
        self.begun.recv_timeout(PATIENCE).map_err(|_| Failure::new(Exit::TryAgain, "the worker got no partitions"))
    }

    /// Waits until everything is done, as long as it goes on committing, and ends it. `is_done` is asked with the inputs
    /// committed so far, which are more than events: commands, and what sessions add up to.
    ///
    /// # Errors
    /// Why it ended early.
    pub fn finish(self, is_done: &dyn Fn(u64) -> Result<bool, Failure>) -> Result<Ran, Failure> {
        let (mut seen, mut since) = (0, Instant::now());
        let mut ended = Ok(None);
        while !self.thread.is_finished() {
            thread::sleep(LOOK_EVERY);
            let (inputs, _) = *lock(&self.last);
            if inputs > seen {
                (seen, since) = (inputs, Instant::now());
            }
            match is_done(inputs) {
                Ok(false) if since.elapsed() < PATIENCE => continue,
                Ok(false) => {
                    let message = format!("no commit for {} s after {seen} inputs", PATIENCE.as_secs());
                    ended = Err(Failure::new(Exit::TryAgain, message));
                }
                Ok(true) => {
                    // What a broker tells, the worker may not have told yet.
                    thread::sleep(LOOK_EVERY);
                    let (_, last) = *lock(&self.last);
                    ended = Ok(Some(Mark { resident_bytes: usage::resident_bytes(), ..last }));
                }
                Err(failure) => ended = Err(failure),
            }
            break;
        }
        let begun = self.begun.try_recv();
        let counters = self.end()?;
        match (begun, ended?) {
            (Ok(begun), Some(ended)) => Ok(Ran { begun, ended, counters }),
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
