//! How long a call may go on trying: until the outage limit, or shortly after a stop was asked for.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::error::EngineError;

/// Once a stop was asked for, an unfinished commit is given up after this time: the whole stop takes 25 s at most.
pub const STOP_PATIENCE: Duration = Duration::from_secs(15);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The patience of one operation; it pauses longer from try to try.
pub struct Patience {
    started: Instant,
    limit: Duration,
    stop: Arc<AtomicBool>,
    stopping: Cell<Option<Instant>>,
    pause: Cell<Duration>,
}

impl Patience {
    /// Starts now.
    pub fn new(limit: Duration, stop: &Arc<AtomicBool>) -> Self {
        Self {
            started: Instant::now(),
            limit,
            stop: Arc::clone(stop),
            stopping: Cell::new(None),
            pause: Cell::new(PAUSE_MIN),
        }
    }

    /// What is left until the limit.
    pub fn left(&self) -> Duration {
        self.limit.saturating_sub(self.started.elapsed())
    }

    /// Pauses before the next try, or says that enough is enough.
    ///
    /// # Errors
    /// [`EngineError::Outage`] with `doing` and the last problem.
    pub fn pause(&self, doing: &str, last: &str) -> Result<(), EngineError> {
        if self.started.elapsed() >= self.limit {
            let seconds = self.limit.as_secs();
            return Err(EngineError::Outage(format!("{doing}: no success within {seconds} s: {last}")));
        }
        if self.stop.load(Ordering::Relaxed) {
            let since = self.stopping.get().unwrap_or_else(Instant::now);
            self.stopping.set(Some(since));
            if since.elapsed() >= STOP_PATIENCE {
                return Err(EngineError::Outage(format!(
                    "stopped while {doing}: {last}; what was not committed is processed again at the next start"
                )));
            }
        }
        tracing::warn!(doing, last, "trying again");
        thread::sleep(self.pause.get());
        self.pause.set((self.pause.get() * 2).min(PAUSE_MAX));
        Ok(())
    }
}
