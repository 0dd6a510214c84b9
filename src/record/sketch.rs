//! Sketch of latencies: how many fell into which range, ranges growing with the latency (a histogram of logarithmic
//! buckets, as in HDR histograms).
//!
//! Merging is addition: whatever the order and however the latencies were split, the result is the same, byte for byte.
//! Sketches that compress as they go (t-digest, KLL) give close quantiles, not equal bytes.
//!
//! Invariant: a quantile is off by at most 1/64 of its value, or half a microsecond (`tests/properties/rows.rs`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Ranges per doubling of the latency: 2 to the power of this.
const PRECISION: u32 = 5;
/// Longest latency told apart, in microseconds: 50 days. Longer ones count as this.
const MICROS_MAX: u64 = (1 << 42) - 1;
/// Number of the last bucket.
pub const BUCKET_MAX: u16 = bucket_of(MICROS_MAX);

/// Counts of latencies by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// (bucket, count), by bucket; no count is 0.
    buckets: Vec<(u16, u64)>,
}

/// The bucket of a latency: below 64 µs one for each microsecond, then 32 for each doubling.
const fn bucket_of(micros: u64) -> u16 {
    let micros = if micros > MICROS_MAX { MICROS_MAX } else { micros };
    let doublings = (u64::BITS - micros.leading_zeros()).saturating_sub(PRECISION + 1);
    #[allow(clippy::cast_possible_truncation, reason = "below 1216 by MICROS_MAX")]
    let bucket = ((doublings << PRECISION) as u64 + (micros >> doublings)) as u16;
    bucket
}

/// The middle of a bucket, in microseconds.
#[allow(clippy::cast_precision_loss, reason = "below 2^42")]
fn middle_of(bucket: u16) -> f64 {
    let bucket = u64::from(bucket);
    let doublings = (bucket >> PRECISION).saturating_sub(1);
    let low = (bucket - (doublings << PRECISION)) << doublings;
    low as f64 + ((1_u64 << doublings) - 1) as f64 / 2.0
}

impl Sketch {
    /// Counts a latency in milliseconds. One that is negative or no number says nothing and is left out.
    pub fn record(&mut self, latency_ms: f64) {
        if latency_ms >= 0.0 {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast to u64 saturates")]
            self.add_to(bucket_of((latency_ms * 1000.0).round() as u64), 1);
        }
    }

    fn add_to(&mut self, bucket: u16, count: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// Adds everything that another one counted.
    pub fn merge(&mut self, other: &Self) {
        other.buckets.iter().for_each(|(bucket, count)| self.add_to(*bucket, *count));
    }

    /// (bucket, count), by bucket.
    #[must_use]
    pub fn buckets(&self) -> &[(u16, u64)] {
        &self.buckets
    }

    /// The sketch of such pairs, one after the other; none where they are not of a sketch.
    #[must_use]
    pub fn of_numbers(numbers: &[u64]) -> Option<Self> {
        let (pairs, odd) = numbers.as_chunks::<2>();
        let buckets = pairs.iter().map(|[bucket, count]| Some((u16::try_from(*bucket).ok()?, *count)));
        Self::of(buckets.collect::<Option<Vec<_>>>()?).filter(|_| odd.is_empty())
    }

    fn of(mut buckets: Vec<(u16, u64)>) -> Option<Self> {
        let known = buckets.iter().all(|(bucket, count)| *bucket <= BUCKET_MAX && *count > 0);
        buckets.shrink_to_fit();
        (known && buckets.is_sorted_by(|one, next| one.0 < next.0)).then_some(Self { buckets })
    }

    /// Number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The latency, in milliseconds, that a share (0 to 1) of the latencies does not exceed; none without any.
    #[must_use]
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts")]
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0_u64;
        let at = self.buckets.iter().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen >= rank
        });
        at.or(self.buckets.last()).map(|(bucket, _)| middle_of(*bucket) / 1000.0)
    }
}

impl Serialize for Sketch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.buckets.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Sketch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let buckets = Vec::<(u16, u64)>::deserialize(deserializer)?;
        Self::of(buckets).ok_or_else(|| serde::de::Error::custom("not the buckets of a sketch"))
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKET_MAX, MICROS_MAX, bucket_of, middle_of};

    #[test]
    #[allow(clippy::cast_precision_loss, reason = "below 2^42")]
    fn buckets_follow_each_other_and_hold_what_is_near_their_middle() {
        assert_eq!((bucket_of(0), bucket_of(63), bucket_of(64), bucket_of(65), bucket_of(66)), (0, 63, 64, 64, 65));
        assert_eq!((bucket_of(u64::MAX), bucket_of(MICROS_MAX)), (BUCKET_MAX, BUCKET_MAX));
        let mut last = 0;
        let mut micros = 0_u64;
        while micros < MICROS_MAX {
            let bucket = bucket_of(micros);
            assert!(bucket == last || bucket == last + 1, "{micros}");
            let off = (middle_of(bucket) - micros as f64).abs();
            assert!(off <= 0.5 || off <= micros as f64 / 64.0, "{micros} is {off} from the middle of {bucket}");
            last = bucket;
            micros += (micros / 97).max(1);
        }
    }
}
