//! When the next commit may begin.

use std::time::{Duration, Instant};

/// While records are waiting, a worker takes them for so many times as long as its last commit took before it commits
/// again: else a backlog of urgent batches would spend its time in commits. Latency loses nothing: where records do not
/// wait, a commit does not either.
const CATCH_UP_FACTOR: u32 = 8;
/// But not for longer than this: what waits for nothing else waits no longer for it.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);

/// When the next commit may begin.
#[derive(Clone, Copy)]
pub struct Pace {
    /// With nothing else to do.
    pub idle: Instant,
    /// With more records waiting.
    pub busy: Instant,
}

impl Pace {
    /// After a commit that began then.
    pub fn after(began: Instant, gap_min: Duration) -> Self {
        let ended = Instant::now();
        Self { idle: ended + gap_min, busy: ended + gap_min.max(((ended - began) * CATCH_UP_FACTOR).min(CATCH_UP_MAX)) }
    }
}
