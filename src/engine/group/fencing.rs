//! Fencings, counted: now and then they are part of a fail-over, often they mean that an id is used twice.
//!
//! A static member can be fenced by itself: after a broker that hung, its late request meets the member id that its own
//! rejoin has made. So one fencing costs a client, not the process.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::engine::error::EngineError;

/// Fencings within [`FENCING_WINDOW`]; over: the engine ends and names the id.
pub const FENCINGS_MAX: usize = 3;
/// See [`FENCINGS_MAX`].
pub const FENCING_WINDOW: Duration = Duration::from_mins(1);
/// Pause after a fencing, times the number of fencings: the other one gets time to end.
const PAUSE: Duration = Duration::from_millis(500);

/// Recent fencings of one client.
#[derive(Debug, Default)]
pub struct Fencings(VecDeque<Instant>);

impl Fencings {
    /// Notes one at `now`; how long to pause before taking the id again.
    ///
    /// # Errors
    /// [`EngineError::Fenced`] above [`FENCINGS_MAX`].
    pub fn note(&mut self, id: &str, now: Instant) -> Result<Duration, EngineError> {
        self.0.retain(|at| now.duration_since(*at) < FENCING_WINDOW);
        self.0.push_back(now);
        let times = self.0.len();
        if times > FENCINGS_MAX {
            return Err(EngineError::Fenced { id: id.to_owned(), times });
        }
        Ok(PAUSE * u32::try_from(times).unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_fencings_cost_a_pause_and_many_in_a_minute_end_the_engine() {
        let (mut fencings, start) = (Fencings::default(), Instant::now());
        for second in [0, 1, 2] {
            assert!(fencings.note("id", start + Duration::from_secs(second)).is_ok());
        }
        let fourth = fencings.note("id", start + Duration::from_secs(3));
        assert!(matches!(fourth, Err(EngineError::Fenced { times: 4, .. })));
        assert!(fencings.note("id", start + FENCING_WINDOW * 2).is_ok());
    }
}
