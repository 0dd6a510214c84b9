//! What a worker counts about itself; the metrics endpoint reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::record::dead_letter::Code;

/// Buckets of a histogram: four per doubling, from one microsecond to more than an hour.
const BUCKETS: usize = 128;

/// Durations by size, each bucket 19 % wider than the one before: a quantile is right within that.
#[derive(Clone, Debug)]
pub struct Durations {
    buckets: [u64; BUCKETS],
    count: u64,
    micros: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], count: 0, micros: 0 }
    }
}

impl Durations {
    /// Adds one.
    pub fn add(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).max(1);
        self.buckets[Self::bucket(micros)] += 1;
        self.count += 1;
        self.micros = self.micros.saturating_add(micros);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        for (sum, count) in self.buckets.iter_mut().zip(other.buckets) {
            *sum += count;
        }
        self.count += other.count;
        self.micros = self.micros.saturating_add(other.micros);
    }

    /// All of them together, in microseconds.
    #[must_use]
    pub fn sum_micros(&self) -> u64 {
        self.micros
    }

    /// How many are in each doubling: below 2^(`first` + 1) microseconds, then up to each next power, `octaves` in all;
    /// the last number counts those beyond.
    #[must_use]
    pub fn octaves(&self, first: usize, octaves: usize) -> Vec<u64> {
        let mut counts = vec![0; octaves + 1];
        for (bucket, count) in self.buckets.iter().enumerate() {
            counts[(bucket / 4).saturating_sub(first).min(octaves)] += count;
        }
        counts
    }

    fn bucket(micros: u64) -> usize {
        let octave = micros.ilog2();
        // The two bits below the leading one tell the quarter of the octave.
        let quarter = if octave >= 2 { (micros >> (octave - 2)) & 3 } else { (micros << (2 - octave)) & 3 };
        (octave as usize * 4 + usize::try_from(quarter).unwrap_or(0)).min(BUCKETS - 1)
    }

    /// Upper end of the bucket that holds the quantile, in microseconds; 0 without any.
    #[must_use]
    pub fn quantile_micros(&self, percent: u64) -> u64 {
        let wanted = (self.count * percent).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in (0_u32..).zip(self.buckets) {
            seen += count;
            if seen >= wanted && seen > 0 {
                let (octave, quarter) = (bucket / 4, u64::from(bucket % 4));
                return ((5 + quarter) << octave) >> 2;
            }
        }
        0
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Counters of one worker since it began; they only grow.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Inputs taken, dead letters included.
    pub inputs: u64,
    /// Records published, dead letters included and state not, once committed.
    pub published: u64,
    /// Entries of state written, once committed.
    pub state_entries: u64,
    /// Transactions committed.
    pub transactions: u64,
    /// Transactions aborted and sent again.
    pub aborted: u64,
    /// Producers made anew after an unknown outcome or a fencing.
    pub rebuilt: u64,
    /// Transactions found that were not whole: their end, or their offsets, are not what a broker had acknowledged.
    pub torn: u64,
    /// Whole commits, from begin to the broker's answer.
    pub commits: Durations,
    /// Attempts at a transaction that succeeded, from begin to the broker's answer.
    pub attempts: Durations,
    /// Restores of the tasks of an assignment.
    pub restores: Durations,
    /// Entries of state read for them.
    pub restored_entries: u64,
    /// Assignments by the group.
    pub assignments: u64,
    /// Assignments taken away by the group.
    pub revocations: u64,
    /// Dead letters by code.
    pub dead_letters: BTreeMap<Code, u64>,
    /// Memberships lost to another of the same id.
    pub fenced: u64,
    /// Records whose effects were dropped because their partitions were taken away.
    pub dropped: u64,
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "inputs={} published={} state_entries={} transactions={} aborted={} rebuilt={} torn={} fenced={} dropped={} commit_p50_us={} commit_p99_us={}",
            self.inputs,
            self.published,
            self.state_entries,
            self.transactions,
            self.aborted,
            self.rebuilt,
            self.torn,
            self.fenced,
            self.dropped,
            self.commits.quantile_micros(50),
            self.commits.quantile_micros(99),
        )?;
        self.dead_letters.iter().try_for_each(|(code, count)| write!(f, " dead_letters.{code}={count}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_within_a_bucket() {
        let mut durations = Durations::default();
        assert_eq!(durations.quantile_micros(50), 0);
        (1..=1000).for_each(|millis| durations.add(Duration::from_millis(millis)));
        for (percent, exact) in [(50, 500_000.0), (99, 990_000.0)] {
            #[allow(clippy::cast_precision_loss, reason = "small numbers")]
            let ratio = durations.quantile_micros(percent) as f64 / exact;
            assert!((1.0..1.26).contains(&ratio), "{percent}: {ratio}");
        }
    }

    #[test]
    fn octaves_hold_all_and_end_at_powers_of_two() {
        let mut durations = Durations::default();
        for micros in [1, 511, 512, 1023, 1024, 5000] {
            durations.add(Duration::from_micros(micros));
        }
        assert_eq!(durations.octaves(8, 3), [2, 2, 1, 1]);
        assert_eq!(durations.sum_micros(), 8071);
        let mut twice = durations.clone();
        twice.merge(&durations);
        assert_eq!(twice.octaves(8, 3), [4, 4, 2, 2]);
        assert_eq!(twice.count(), 12);
    }

    #[test]
    fn the_longest_duration_has_a_bucket() {
        let mut durations = Durations::default();
        durations.add(Duration::MAX);
        durations.add(Duration::ZERO);
        assert_eq!(durations.count(), 2);
    }
}
