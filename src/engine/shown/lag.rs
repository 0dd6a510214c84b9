//! How far a worker is behind, from what the client library tells of itself once a second.
//!
//! Lag is what a reader of committed records can still take: last stable offset minus position. Measured against the end
//! of the log it would never be zero behind an open transaction, which is a fact of its own: the stable offset is stuck.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::engine::cluster::client::TRANSACTION_TIMEOUT;
use crate::engine::shown::watch::InputView;
use crate::record::time::Timestamp;

/// A stable offset that is stuck for longer than any transaction may stay open is told in the log.
pub const STUCK_MAX: Duration = Duration::from_secs(TRANSACTION_TIMEOUT.as_secs() * 2);
const TELL_EVERY: Duration = Duration::from_mins(1);

/// One input partition of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Lag {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its number.
    pub partition: i32,
    /// Committed records that wait.
    pub records: u64,
    /// At most so old is the oldest of them; none: nothing was read yet.
    pub seconds: Option<f64>,
    /// For how long readers wait for the same open transaction; zero: for none.
    pub stuck: Duration,
}

/// What the library tells, of which this much is read.
#[derive(Debug, Deserialize)]
struct Statistics {
    #[serde(default)]
    brokers: BTreeMap<String, Broker>,
    #[serde(default)]
    topics: BTreeMap<String, Topic>,
}

#[derive(Debug, Deserialize)]
struct Broker {
    #[serde(default)]
    state: String,
}

#[derive(Debug, Deserialize)]
struct Topic {
    #[serde(default)]
    partitions: BTreeMap<String, Offsets>,
}

/// Negative: not known yet.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Offsets {
    /// The next to be taken.
    #[serde(rename = "app_offset")]
    app: i64,
    #[serde(rename = "lo_offset")]
    first: i64,
    #[serde(rename = "hi_offset")]
    end: i64,
    #[serde(rename = "ls_offset")]
    stable: i64,
}

#[derive(Debug, Default)]
struct Past {
    /// When nothing waited last.
    caught_up_at: Option<Timestamp>,
    /// A stable offset below the end, and since when.
    stuck: Option<(i64, Instant)>,
    told: Option<Instant>,
}

/// What statistics say.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// The lag of inputs.
    pub lags: Vec<Lag>,
    /// Whether no broker is connected that the client knows of.
    pub is_cut_off: bool,
}

/// What is remembered from one look to the next.
#[derive(Debug, Default)]
pub struct Book {
    past: BTreeMap<(Arc<str>, i32), Past>,
}

impl Book {
    /// The lag of these inputs by the statistics; those not known yet are left out. None: they cannot be read.
    pub fn look(&mut self, statistics: &[u8], inputs: &[InputView], wall: Timestamp, now: Instant) -> Option<Look> {
        let statistics: Statistics = serde_json::from_slice(statistics).ok()?;
        self.past.retain(|(topic, partition), _| inputs.iter().any(|input| input.is(topic, *partition)));
        let lags = inputs.iter().filter_map(|input| {
            let topic = statistics.topics.get(&*input.topic)?;
            let offsets = *topic.partitions.get(&input.partition.to_string())?;
            let past = self.past.entry((Arc::clone(&input.topic), input.partition)).or_default();
            past.lag(input, offsets, wall, now)
        });
        let lags = lags.collect();
        // While it looks for what has moved, a connection is "UPDATE".
        let is_up = |broker: &Broker| ["UP", "UPDATE"].contains(&broker.state.as_str());
        let is_cut_off = !statistics.brokers.is_empty() && !statistics.brokers.values().any(is_up);
        Some(Look { lags, is_cut_off })
    }
}

impl Past {
    fn lag(&mut self, input: &InputView, offsets: Offsets, wall: Timestamp, now: Instant) -> Option<Lag> {
        let stable = Some(offsets.stable).filter(|offset| *offset >= 0)?;
        let known = [Some(offsets.app), input.committed, Some(offsets.first)];
        let position = known.into_iter().flatten().find(|offset| *offset >= 0)?;
        let records = u64::try_from(stable - position).unwrap_or(0);
        if records == 0 {
            self.caught_up_at = Some(wall);
        }
        // What waits now came after the record read last, and after nothing waited.
        let seconds = input.read_at.max(self.caught_up_at).map(|newer| seconds(wall, newer));
        let stuck = self.stuck(stable, offsets.end, now);
        if stuck > STUCK_MAX && self.told.is_none_or(|told| now.saturating_duration_since(told) > TELL_EVERY) {
            self.told = Some(now);
            tracing::warn!(
                topic = &*input.topic,
                partition = input.partition,
                stable,
                end = offsets.end,
                seconds = stuck.as_secs(),
                "an open transaction hides what is behind it from all readers, for longer than any of ours stays open"
            );
        }
        let seconds = if records == 0 { Some(0.0) } else { seconds };
        Some(Lag { topic: Arc::clone(&input.topic), partition: input.partition, records, seconds, stuck })
    }

    fn stuck(&mut self, stable: i64, end: i64, now: Instant) -> Duration {
        if stable >= end {
            (self.stuck, self.told) = (None, None);
            return Duration::ZERO;
        }
        match self.stuck {
            Some((at, since)) if at == stable => now.saturating_duration_since(since),
            _ => {
                (self.stuck, self.told) = (Some((stable, now)), None);
                Duration::ZERO
            }
        }
    }
}

/// From one time to a later one.
#[allow(clippy::cast_precision_loss, reason = "a gauge in seconds; below 2^53 nothing is lost")]
pub fn seconds(later: Timestamp, earlier: Timestamp) -> f64 {
    later.millis_since(earlier).max(0) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(committed: Option<i64>, read_at: Option<i64>) -> InputView {
        InputView { topic: "events".into(), partition: 2, committed, read_at: read_at.map(Timestamp::from_millis) }
    }

    fn statistics(app: i64, stable: i64, end: i64) -> Vec<u8> {
        format!(
            r#"{{"name":"x","topics":{{"events":{{"topic":"events","partitions":{{"2":{{"partition":2,"lo_offset":0,
            "app_offset":{app},"ls_offset":{stable},"hi_offset":{end}}},"-1":{{"partition":-1,"lo_offset":-1001,
            "app_offset":-1001,"ls_offset":-1001,"hi_offset":-1001}}}}}}}}}}"#
        )
        .into_bytes()
    }

    fn look(book: &mut Book, text: &[u8], input: InputView, at_ms: i64, now: Instant) -> Vec<Lag> {
        book.look(text, &[input], Timestamp::from_millis(at_ms), now).expect("readable").lags
    }

    #[test]
    fn lag_is_the_stable_offset_minus_the_position() {
        let now = Instant::now();
        let records = |text: &[u8], committed| {
            look(&mut Book::default(), text, input(committed, None), 0, now).first().map(|lag| lag.records)
        };
        assert_eq!(records(&statistics(7, 10, 12), Some(5)), Some(3), "not up to the end of the log");
        assert_eq!(records(&statistics(-1001, 10, 10), Some(4)), Some(6), "nothing taken yet: from what is committed");
        assert_eq!(records(&statistics(-1001, 10, 10), None), Some(10), "nothing committed yet: from the first");
        assert_eq!(records(&statistics(11, 10, 10), None), Some(0), "never negative");
        assert_eq!(records(&statistics(7, -1001, -1001), None), None, "not known yet");
        assert_eq!(Book::default().look(b"{", &[], Timestamp::EPOCH, now), None);
    }

    #[test]
    fn what_waits_is_never_told_to_be_older_than_it_is() {
        let mut book = Book::default();
        let now = Instant::now();
        let mut seconds =
            |text: &[u8], read_at, at_ms| look(&mut book, text, input(Some(0), read_at), at_ms, now)[0].seconds;
        assert_eq!(seconds(&statistics(0, 9, 9), None, 50_000), None, "nothing was read: who knows");
        assert_eq!(
            seconds(&statistics(5, 9, 9), Some(20_000), 50_000),
            Some(30.0),
            "at most as old as what was read last"
        );
        assert_eq!(seconds(&statistics(9, 9, 9), Some(40_000), 60_000), Some(0.0));
        // An hour without records, then one: it came after all had been read.
        assert_eq!(seconds(&statistics(9, 9, 9), Some(40_000), 3_600_000), Some(0.0));
        assert_eq!(seconds(&statistics(9, 10, 10), Some(40_000), 3_601_000), Some(1.0));
    }

    #[test]
    fn a_stable_offset_is_stuck_while_it_stays_the_same_below_the_end() {
        let mut book = Book::default();
        let start = Instant::now();
        let mut stuck = |stable, end, seconds| {
            let now = start + Duration::from_secs(seconds);
            look(&mut book, &statistics(5, stable, end), input(None, None), 0, now)[0].stuck.as_secs()
        };
        assert_eq!(stuck(10, 10, 0), 0);
        assert_eq!(stuck(10, 12, 10), 0);
        assert_eq!(stuck(10, 15, 31), 21, "the end goes on, the stable offset does not");
        assert_eq!(stuck(14, 15, 32), 0, "one transaction ended, another is open");
        assert_eq!(stuck(15, 15, 40), 0);
    }

    #[test]
    fn a_client_without_a_connected_broker_is_cut_off() {
        let is_cut_off = |states: &[&str]| {
            let brokers: Vec<String> =
                states.iter().enumerate().map(|(id, state)| format!(r#""b/{id}":{{"state":"{state}"}}"#)).collect();
            let text = format!(r#"{{"brokers":{{{}}}}}"#, brokers.join(","));
            let look = Book::default().look(text.as_bytes(), &[], Timestamp::EPOCH, Instant::now());
            look.expect("readable").is_cut_off
        };
        assert!(!is_cut_off(&[]), "not known");
        assert!(!is_cut_off(&["DOWN", "UP", "INIT"]) && !is_cut_off(&["UPDATE"]));
        assert!(is_cut_off(&["DOWN"]) && is_cut_off(&["TRY_CONNECT", "DOWN", "INIT"]));
    }

    #[test]
    fn partitions_that_were_given_up_are_forgotten() {
        let mut book = Book::default();
        let now = Instant::now();
        look(&mut book, &statistics(5, 9, 9), input(None, None), 0, now);
        assert_eq!(book.past.len(), 1);
        let nothing = Look { lags: Vec::new(), is_cut_off: false };
        assert_eq!(book.look(&statistics(5, 9, 9), &[], Timestamp::EPOCH, now), Some(nothing));
        assert!(book.past.is_empty());
    }
}
