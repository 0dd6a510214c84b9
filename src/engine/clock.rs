//! Wall time, for the two things it serves: ticks, and how long ago an event was appended. Corrected by the clock of the
//! brokers, whose append times it is held against, and looked at now and then only: what was held against one time is
//! one step of the tape.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::record::time::Timestamp;

/// How long one look serves.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Wall time of a worker.
#[derive(Debug, Default)]
pub struct Clock {
    looked: Option<(Instant, Timestamp)>,
}

impl Clock {
    /// The time at `now`, of brokers whose clock is ahead of this machine's by so much.
    pub fn wall(&mut self, now: Instant, ahead_micros: i64) -> Timestamp {
        if let Some((at, wall)) = self.looked
            && now.saturating_duration_since(at) < LOOK_EVERY
        {
            return wall;
        }
        let wall = Timestamp::from_micros(local().as_micros().saturating_add(ahead_micros));
        self.looked = Some((now, wall));
        wall
    }
}

/// The time of this machine.
pub fn local() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_serves_for_a_while_and_is_corrected() {
        let (mut clock, start) = (Clock::default(), Instant::now());
        let hour = 3_600_000_000;
        let first = clock.wall(start, hour);
        assert!(first.as_micros() - local().as_micros() > hour / 2);
        assert_eq!(clock.wall(start + LOOK_EVERY / 2, 0), first);
        assert!(clock.wall(start + LOOK_EVERY, 0) < first);
    }
}
