//! Whether a worker lives and is ready, from what it notes as it goes: numbers that anybody may read at any time.
//!
//! Alive is who comes round in time; only a restart helps where that is not so, and none helps against a broker that is
//! away. Ready is who has all its tasks *and* gets on with them: a worker that stands still is not ready, whatever it
//! holds.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Where a worker is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Phase {
    /// It looks at the topics and takes its id over.
    #[default]
    Starting,
    /// It has no tasks: the group did not assign any yet, or took them away.
    Joining,
    /// Its tasks are being restored.
    Restoring,
    /// All its tasks go on, be there any or none.
    Running,
    /// It commits what it has, and closes.
    Stopping,
    /// It gave up; the process is about to end.
    Failed,
}

impl Phase {
    const ALL: [Self; 6] =
        [Self::Starting, Self::Joining, Self::Restoring, Self::Running, Self::Stopping, Self::Failed];
}

/// Without a connected broker for less than this a connection is being made again, which is no outage.
const CUT_OFF_MIN: Duration = Duration::from_secs(3);
const NEVER: u64 = u64::MAX;

/// How long a worker may take; what happens beyond it.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// From beat to beat; over: not alive. The group drops a member that polls more rarely than this as well.
    pub beat_max: Duration,
    /// From beat to beat where the worker waits for a broker; over: not alive. The engine gives up before that.
    pub wait_max: Duration,
    /// Without a step forward while there is something to do; over: not ready.
    pub standstill_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            beat_max: Duration::from_mins(1),
            wait_max: Duration::from_mins(6),
            standstill_max: Duration::from_secs(15),
        }
    }
}

/// What a worker notes of itself.
#[derive(Debug)]
pub struct Vital {
    origin: Instant,
    phase: AtomicU8,
    /// Whether it ever had all its tasks.
    begun: AtomicBool,
    waiting: AtomicBool,
    /// Since when no broker is connected; [`NEVER`]: one is.
    cut_off_ms: AtomicU64,
    beat_ms: AtomicU64,
    taken: AtomicU64,
    moved_ms: AtomicU64,
    tasks: AtomicU64,
    entries: AtomicU64,
}

impl Default for Vital {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            phase: AtomicU8::new(Phase::Starting as u8),
            begun: AtomicBool::new(false),
            waiting: AtomicBool::new(true),
            cut_off_ms: AtomicU64::new(NEVER),
            beat_ms: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            moved_ms: AtomicU64::new(0),
            tasks: AtomicU64::new(0),
            entries: AtomicU64::new(0),
        }
    }
}

impl Vital {
    /// The worker is somewhere else now, with so many tasks.
    pub fn enter(&self, phase: Phase, tasks: usize, now: Instant) {
        self.tasks.store(tasks as u64, Ordering::Relaxed);
        self.moved(now);
        self.wait(matches!(phase, Phase::Starting | Phase::Stopping), now);
        if phase == Phase::Running {
            self.begun.store(true, Ordering::Relaxed);
        }
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The worker came round; `taken`: inputs it took so far.
    pub fn beat(&self, taken: u64, now: Instant) {
        self.beat_ms.store(self.millis(now), Ordering::Relaxed);
        if self.taken.swap(taken, Ordering::Relaxed) != taken {
            self.moved(now);
        }
    }

    /// It begins or ends something that may wait for a broker.
    pub fn wait(&self, waiting: bool, now: Instant) {
        self.beat_ms.store(self.millis(now), Ordering::Relaxed);
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    /// There was a step forward, or nothing to do.
    pub fn moved(&self, now: Instant) {
        self.moved_ms.store(self.millis(now), Ordering::Relaxed);
    }

    /// Whether no broker is connected, as the client library tells once a second.
    pub fn cut_off(&self, cut_off: bool, now: Instant) {
        let since = self.cut_off_ms.load(Ordering::Relaxed);
        let since = if cut_off { since.min(self.millis(now)) } else { NEVER };
        self.cut_off_ms.store(since, Ordering::Relaxed);
    }

    /// So many entries of state are restored.
    pub fn restored(&self, entries: u64) {
        self.entries.store(entries, Ordering::Relaxed);
    }

    /// Where the worker is.
    pub fn phase(&self) -> Phase {
        let phase = self.phase.load(Ordering::Acquire);
        Phase::ALL.get(usize::from(phase)).copied().unwrap_or(Phase::Failed)
    }

    /// Looks at everything. `lag`: records that wait; `stopping`: the process was asked to stop.
    pub fn look(&self, bounds: &Bounds, lag: u64, stopping: bool, now: Instant) -> Health {
        let since = |millis: &AtomicU64| self.millis(now).saturating_sub(millis.load(Ordering::Relaxed));
        let phase = match self.phase() {
            Phase::Failed => Phase::Failed,
            _ if stopping => Phase::Stopping,
            phase => phase,
        };
        let (beat_age_ms, idle_ms) = (since(&self.beat_ms), since(&self.moved_ms));
        let over = |millis: u64, max: Duration| u128::from(millis) > max.as_millis();
        let waiting = self.waiting.load(Ordering::Relaxed);
        let cut_off = self.cut_off_ms.load(Ordering::Relaxed) != NEVER && over(since(&self.cut_off_ms), CUT_OFF_MIN);
        let live =
            phase != Phase::Failed && !over(beat_age_ms, if waiting { bounds.wait_max } else { bounds.beat_max });
        let unready = match phase {
            Phase::Failed => Some("failed"),
            Phase::Stopping => Some("stopping"),
            Phase::Starting => Some("starting"),
            Phase::Joining if cut_off => Some("no broker answers: its tasks are given up until one does"),
            Phase::Joining => Some("has no tasks yet"),
            Phase::Restoring if cut_off => Some("no broker answers: restoring state waits for one"),
            Phase::Restoring => Some("restoring state"),
            Phase::Running if cut_off => Some("no broker answers: commits wait for one"),
            Phase::Running if over(beat_age_ms, bounds.standstill_max) && waiting => {
                Some("waits for a broker that does not answer")
            }
            Phase::Running if over(beat_age_ms, bounds.standstill_max) => Some("stands still"),
            Phase::Running if lag > 0 && over(idle_ms, bounds.standstill_max) => Some("records wait and none is taken"),
            Phase::Running => None,
        };
        Health {
            live,
            started: self.begun.load(Ordering::Relaxed),
            unready,
            phase,
            tasks: self.tasks.load(Ordering::Relaxed),
            restored_entries: self.entries.load(Ordering::Relaxed),
            beat_age_ms,
            lag_records: lag,
        }
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.origin).as_millis()).unwrap_or(u64::MAX)
    }
}

/// How a worker is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Whether it comes round in time.
    pub live: bool,
    /// Whether it ever had all its tasks.
    pub started: bool,
    /// Why it is not ready; none: it is.
    pub unready: Option<&'static str>,
    /// Where it is.
    pub phase: Phase,
    /// Its tasks, or those being restored.
    pub tasks: u64,
    /// Entries of state restored for them.
    pub restored_entries: u64,
    /// Since it last came round. Milliseconds.
    pub beat_age_ms: u64,
    /// Records that wait in its inputs.
    pub lag_records: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        beat_max: Duration::from_mins(1),
        wait_max: Duration::from_mins(6),
        standstill_max: Duration::from_secs(15),
    };

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_worker_is_ready_with_its_tasks_and_never_before_or_after() {
        let vital = Vital::default();
        let start = vital.origin;
        let unready = |stopping| vital.look(&BOUNDS, 0, stopping, start).unready;
        for (phase, words) in [
            (Phase::Starting, Some("starting")),
            (Phase::Joining, Some("has no tasks yet")),
            (Phase::Restoring, Some("restoring state")),
            (Phase::Running, None),
            (Phase::Stopping, Some("stopping")),
            (Phase::Failed, Some("failed")),
        ] {
            vital.enter(phase, 3, start);
            assert_eq!(unready(false), words, "{phase:?}");
            assert_eq!(vital.phase(), phase);
        }
        vital.enter(Phase::Running, 3, start);
        assert_eq!(unready(true), Some("stopping"), "from the moment it is asked to");
        vital.enter(Phase::Failed, 3, start);
        assert_eq!(unready(true), Some("failed"));
    }

    #[test]
    fn an_outage_is_the_reason_in_every_phase_that_needs_a_broker() {
        let vital = Vital::default();
        let start = vital.origin;
        let unready = |phase| {
            vital.enter(phase, 1, start);
            vital.look(&BOUNDS, 0, false, after(start, 4))
        };
        vital.cut_off(true, start);
        vital.enter(Phase::Running, 1, start);
        assert_eq!(vital.look(&BOUNDS, 0, false, after(start, 2)).unready, None, "it may be connecting again");
        vital.cut_off(true, after(start, 2));
        for phase in [Phase::Joining, Phase::Restoring, Phase::Running] {
            let health = unready(phase);
            assert!(health.unready.is_some_and(|words| words.starts_with("no broker answers")), "{phase:?}");
            assert!(health.live, "no restart helps");
        }
        assert_eq!(unready(Phase::Stopping).unready, Some("stopping"));
        vital.cut_off(false, start);
        assert_eq!(unready(Phase::Running).unready, None);
        assert_eq!(unready(Phase::Joining).unready, Some("has no tasks yet"));
    }

    #[test]
    fn records_that_wait_while_none_is_taken_end_readiness_and_not_life() {
        let vital = Vital::default();
        let start = vital.origin;
        vital.enter(Phase::Running, 1, start);
        let health = |lag, at| {
            vital.beat(7, at);
            vital.look(&BOUNDS, lag, false, at)
        };
        assert_eq!(health(5, after(start, 1)).unready, None);
        assert_eq!(health(0, after(start, 30)).unready, None, "idle is fine");
        let stuck = health(5, after(start, 30));
        assert_eq!((stuck.unready, stuck.live), (Some("records wait and none is taken"), true));
        vital.beat(8, after(start, 31));
        assert_eq!(health(5, after(start, 32)).unready, None, "it took one");
    }

    #[test]
    fn a_worker_that_does_not_come_round_stands_still_and_then_is_dead() {
        let vital = Vital::default();
        let start = vital.origin;
        vital.enter(Phase::Running, 1, start);
        let look = |seconds| vital.look(&BOUNDS, 0, false, after(start, seconds));
        assert_eq!((look(10).unready, look(10).live), (None, true));
        assert_eq!((look(20).unready, look(20).live), (Some("stands still"), true));
        assert!(!look(61).live);
        vital.wait(true, start);
        assert_eq!(
            (look(61).unready, look(61).live),
            (Some("waits for a broker that does not answer"), true),
            "a broker is away: no restart helps"
        );
        assert!(!look(361).live, "the engine should have given up by now");
    }

    #[test]
    fn a_start_is_over_once_all_tasks_were_there() {
        let vital = Vital::default();
        let start = vital.origin;
        let started = || vital.look(&BOUNDS, 0, false, start).started;
        vital.enter(Phase::Restoring, 2, start);
        assert!(!started());
        vital.enter(Phase::Running, 2, start);
        vital.enter(Phase::Joining, 0, start);
        assert!(started());
    }
}
