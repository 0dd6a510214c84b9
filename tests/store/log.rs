//! A changelog that is a rule: record `n` is always the same, so that every process knows all of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use reflex::engine::state::store::check::State;
use reflex::engine::state::store::follow::{Source, Take, Wanted};
use reflex::engine::state::store::keeper::{Keeper, Loaded, Mark};
use reflex::engine::state::store::{Kind, Settings, Task};
use reflex::record::task::entry;

/// Both kinds of store on disk.
pub const KINDS: [Kind; 2] = [Kind::Sled, Kind::Fjall];
/// Longest wait for the keeper.
pub const SOON: Duration = Duration::from_mins(1);

/// The state such a changelog gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pub sum: u128,
}

impl Map {
    pub fn apply(&mut self, key: &[u8], value: Option<&[u8]>) {
        let before = match value {
            Some(value) => self.entries.insert(key.to_vec(), value.to_vec()),
            None => self.entries.remove(key),
        };
        let hash = |value: &[u8]| entry::hash(key, value);
        let (before, now) = (before.as_deref().map_or(0, hash), value.map_or(0, hash));
        self.sum = self.sum.wrapping_sub(before).wrapping_add(now);
    }
}

impl State for Map {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        if !key.starts_with(b"s/") {
            return Err(format!("{key:?} is no key"));
        }
        self.apply(key, Some(value));
        Ok(())
    }

    fn hash(&self) -> u128 {
        self.sum
    }
}

/// A changelog: every seventh record removes what an earlier one wrote.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    pub keys: u64,
    pub value_bytes: usize,
    /// How many records there are.
    pub end: i64,
}

/// A number that looks random (splitmix64).
pub fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Log {
    pub fn record(&self, offset: i64) -> (Vec<u8>, Option<Vec<u8>>) {
        let n = mix(offset.cast_unsigned());
        let key = format!("s/{:016x}", n % self.keys).into_bytes();
        let value = (!n.is_multiple_of(7))
            .then(|| (0..self.value_bytes as u64).map(|byte| mix(n ^ byte).to_le_bytes()[0]).collect());
        (key, value)
    }

    /// Everything from `from` to `until` over a state.
    pub fn over(&self, mut state: Map, from: i64, until: i64) -> Map {
        for offset in from..until {
            let (key, value) = self.record(offset);
            state.apply(&key, value.as_deref());
        }
        state
    }

    /// The state of all records before `until`.
    pub fn state(&self, until: i64) -> Map {
        self.over(Map::default(), 0, until)
    }

    pub fn mark(&self, until: i64) -> Mark {
        Mark { changelog_next: until, state_hash: self.state(until).sum }
    }
}

impl Source for Log {
    fn read(
        &mut self,
        wanted: &[Wanted],
        _: Duration,
        stop: &dyn Fn() -> bool,
        take: Take<'_>,
    ) -> Result<Vec<bool>, String> {
        let mut reached = Vec::new();
        for (index, Wanted { from, until, .. }) in wanted.iter().enumerate() {
            for offset in from.unwrap_or(0)..(*until).min(self.end) {
                if stop() {
                    return Ok(reached);
                }
                let (key, value) = self.record(offset);
                take(index, offset, &key, value.as_deref());
            }
            reached.push(*until <= self.end);
        }
        Ok(reached)
    }
}

pub fn task(partition: i32) -> Task {
    Task { stage: "session", topic: "reflex.state.session".into(), topic_id: String::new(), partition }
}

pub fn keeper(kind: Kind, folder: &Path, log: Log) -> Keeper {
    let settings = Settings { kind, folder: folder.to_path_buf(), age_max: Duration::from_hours(12) };
    Keeper::start(settings, Box::new(log)).expect("a thread")
}

/// Begins a task as a worker does: the state, and whether it came from the store.
pub fn begin(keeper: &Keeper, log: Log, partition: i32) -> (Map, bool) {
    let loaded = keeper.load(&task(partition), Map::default);
    let (state, is_stored) = match loaded {
        Some(Loaded { state, changelog_next, .. }) => (log.over(state, changelog_next, log.end), true),
        None => (log.state(log.end), false),
    };
    keeper.committed(&task(partition), log.mark(log.end));
    (state, is_stored)
}

/// Fills the store of a partition up to the end of the log, and closes it.
pub fn fill(kind: Kind, folder: &Path, log: Log, partition: i32) {
    let keeper = keeper(kind, folder, log);
    begin(&keeper, log, partition);
    // The first round fills it; one that closes would not.
    let started = std::time::Instant::now();
    while keeper.counts().written == 0 {
        assert!(started.elapsed() < SOON, "nothing is written");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(keeper.close(None, SOON));
}
