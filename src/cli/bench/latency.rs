//! From a failing event to the override that a runtime can read, seen from outside: a feed at a steady rate on one side,
//! a reader of committed overrides on the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::cli::bench::fleet::{Fleet, Plan};
use crate::cli::bench::ground::Ground;
use crate::cli::bench::reader::Reader;
use crate::cli::exit::{Exit, Failure};
use crate::engine::publish::Feed;
use crate::engine::{Cluster, EngineError};
use crate::record::time::Timestamp;

/// What is sent before this is not measured: clients connect, caches fill.
const WARM_UP: Duration = Duration::from_secs(5);
/// Longest wait for the last overrides.
const LAST_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_micros(200);
/// The feed is still running.
const NOT_KNOWN: u64 = u64::MAX;

/// What was seen.
#[derive(Debug)]
pub struct Latency {
    /// Events sent.
    pub sent: u64,
    /// Sessions that must be overridden.
    pub expected: u64,
    /// Of these: overridden.
    pub seen: u64,
    /// Overrides of a session that had one.
    pub doubled: u64,
    /// Times of those sent after the warm-up, shortest first.
    pub times: Vec<Duration>,
}

impl Latency {
    /// The time that so many percent do not exceed.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.times.len() * percent).div_ceil(100).max(1);
        self.times.get(rank - 1).copied().unwrap_or_default()
    }
}

/// Feeds the running engine for `seconds` beyond the warm-up.
///
/// # Errors
/// Those of the clients.
pub fn measure(cluster: &Cluster, ground: &Ground, plan: Plan, rate: u32, seconds: u32) -> Result<Latency, Failure> {
    let reader = Reader::new(cluster, &ground.names.overrides, ground.partitions)?;
    let expected = Arc::new(AtomicU64::new(NOT_KNOWN));
    let reading = {
        let expected = Arc::clone(&expected);
        thread::spawn(move || read(&reader, &expected))
    };
    let sent = feed(cluster, ground, plan, rate, Duration::from_secs(u64::from(seconds)));
    expected.store(sent.as_ref().map_or(0, |(_, failed, _)| failed.len() as u64), Ordering::Relaxed);
    let seen = reading.join().map_err(|_| Failure::new(Exit::Bug, "the reader panicked"))??;
    let (sent, failed, warm) = sent?;
    let times = failed.iter().filter(|(_, at)| **at >= warm);
    let mut times: Vec<Duration> =
        times.filter_map(|(session, at)| Some(seen.get(session)?.0.saturating_duration_since(*at))).collect();
    times.sort_unstable();
    Ok(Latency {
        sent,
        expected: failed.len() as u64,
        seen: failed.keys().filter(|session| seen.contains_key(*session)).count() as u64,
        doubled: seen.values().map(|(_, records)| records - 1).sum(),
        times,
    })
}

/// Sessions by when their override was read first, and how often it was.
type Overridden = BTreeMap<String, (Instant, u64)>;

fn read(reader: &Reader, expected: &AtomicU64) -> Result<Overridden, EngineError> {
    let mut seen = Overridden::new();
    let mut last = Instant::now();
    loop {
        match reader.poll(Duration::from_millis(20))? {
            Some((found, at)) => {
                last = at;
                seen.entry(found.scope.session_id).or_insert((at, 0)).1 += 1;
            }
            None => match expected.load(Ordering::Relaxed) {
                NOT_KNOWN => last = Instant::now(),
                expected if seen.len() as u64 >= expected || last.elapsed() > LAST_WITHIN => return Ok(seen),
                _ => {}
            },
        }
    }
}

/// How many events were sent, failing sessions by when their last failure was, and when the warm-up was over.
type Sent = (u64, BTreeMap<String, Instant>, Instant);

fn feed(cluster: &Cluster, ground: &Ground, plan: Plan, rate: u32, span: Duration) -> Result<Sent, Failure> {
    let mut cluster = cluster.clone();
    for (property, value) in [("linger.ms", "1"), ("compression.type", "lz4")] {
        cluster.properties.entry(property.to_owned()).or_insert_with(|| value.to_owned());
    }
    // Runtimes have connections of their own: what fails does not queue behind what the rest of the fleet sends.
    let (crowd, failing) = (Feed::new(&cluster, &ground.names.events)?, Feed::new(&cluster, &ground.names.events)?);
    let mut fleet = Fleet::new(Plan { events: u64::MAX, ..plan });
    let (mut session_id, mut text) = (String::new(), String::new());
    let (mut sent, mut failed) = (0, BTreeMap::new());
    let begun = Instant::now();
    while begun.elapsed() < WARM_UP + span {
        let due = begun.elapsed().as_micros() * u128::from(rate) / 1_000_000;
        while u128::from(sent) < due {
            let Some(step) = fleet.step() else { break };
            step.write_session_id("live", &mut session_id);
            step.write_event(&session_id, now(), &mut text);
            if step.exhausted {
                failed.insert(session_id.clone(), Instant::now());
            }
            let feed = if step.is_of_failing() { &failing } else { &crowd };
            feed.send(&session_id, &text)?;
            sent += 1;
        }
        thread::sleep(PAUSE);
    }
    crowd.finish()?;
    failing.finish()?;
    Ok((sent, failed, begun + WARM_UP))
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = (1..=200).map(Duration::from_millis).collect();
        let latency = Latency { sent: 0, expected: 0, seen: 0, doubled: 0, times };
        assert_eq!([50, 99, 100].map(|percent| latency.percentile(percent).as_millis()), [100, 198, 200]);
        let none = Latency { times: Vec::new(), ..latency };
        assert_eq!(none.percentile(50), Duration::ZERO);
    }
}
