//! Stable selection of sessions for shadows and trials: a hash, no state, no dice.
//!
//! ```text
//! key      = purpose 0x1F override_id 0x1F attempt_salt 0x1F session_id      UTF-8
//! bucket   = (murmur3_x86_32(key, seed 0) as u64 * 100_000) >> 32            0..=99_999
//! selected = session_id not empty && bucket < threshold(percentage)
//! ```
//!
//! Monotone: a growing percentage only adds sessions. The purpose stands in the key, so that being in the shadow says
//! nothing about being in the trial; a new salt after a revert spares the sessions that were hurt before.
//! Sources: multiply-shift instead of modulo as in flagd's ADR on fractional evaluation; a hash of its own for each
//! question as in Unleash's gradual rollout.
//!
//! Invariant: bytes and buckets are those of `vectors/resolve.json` (`tests/resolve.rs`).

use std::io::Cursor;

/// Buckets in all: the grain of a percentage is 0.001.
pub const BUCKETS: u32 = 100_000;

/// What a session is selected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To run the shadow beside the degraded route.
    Shadow,
    /// To go back to the original path.
    Trial,
}

impl Purpose {
    /// The word in the key.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shadow => "shadow",
            Self::Trial => "trial",
        }
    }
}

/// murmur3, the 32-bit variant for x86.
#[must_use]
pub fn murmur3_x86_32(bytes: &[u8], seed: u32) -> u32 {
    // Reading a slice cannot fail.
    murmur3::murmur3_32(&mut Cursor::new(bytes), seed).unwrap_or(0)
}

/// The bucket of a session, `0..BUCKETS`.
#[must_use]
pub fn bucket(purpose: Purpose, override_id: &str, attempt_salt: &str, session_id: &str) -> u32 {
    let key = [purpose.as_str(), override_id, attempt_salt, session_id].join("\u{1f}");
    let hash = u64::from(murmur3_x86_32(key.as_bytes(), 0));
    #[allow(clippy::cast_possible_truncation, reason = "less than BUCKETS")]
    let bucket = ((hash * u64::from(BUCKETS)) >> 32) as u32;
    bucket
}

/// How many buckets a percentage covers, `0..=BUCKETS`: the nearest whole number of thousandths.
///
/// Rounded before it is compared, because `percentage * 1000` in floating point may lie a hair above the whole number
/// (2.007 * 1000 = 2007.0000000000002) and would let in the bucket that equals the threshold. Percentages are written in
/// whole thousandths; of finer ones only the half-way cases may round differently in another language.
#[must_use]
pub fn threshold(percentage: f64) -> u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped; not a number becomes 0")]
    let threshold = (percentage * 1000.0).round().clamp(0.0, f64::from(BUCKETS)) as u32;
    threshold
}

/// Whether the session is among the given percentage; a session without an id never is.
#[must_use]
pub fn selected(purpose: Purpose, override_id: &str, attempt_salt: &str, session_id: &str, percentage: f64) -> bool {
    !session_id.is_empty() && bucket(purpose, override_id, attempt_salt, session_id) < threshold(percentage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thousandth_of_a_percent_is_a_whole_threshold() {
        for thousandths in 0..=BUCKETS {
            assert_eq!(threshold(f64::from(thousandths) / 1000.0), thousandths);
        }
    }

    #[test]
    fn percentages_outside_their_range_select_all_or_nobody() {
        assert_eq!(threshold(-1.0), 0);
        assert_eq!(threshold(f64::NAN), 0);
        assert_eq!(threshold(f64::INFINITY), BUCKETS);
    }
}
