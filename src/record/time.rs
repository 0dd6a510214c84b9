//! Instants of records: microseconds since the epoch, RFC 3339 in UTC as text.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::record::text::Text;

/// An instant in microseconds since 1970-01-01T00:00:00Z; arithmetic saturates at the ends of the calendar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Text that is not an RFC 3339 time with an offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time")]
pub struct InvalidTime;

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// 9999-12-30T22:00:00Z: the last instant that has four digits of the year in every time zone.
    pub const MAX: Self = Self(253_402_207_200_000_000);
    /// 0001-01-01T00:00:00Z.
    pub const MIN: Self = Self(-62_135_596_800_000_000);

    /// An instant from microseconds since the epoch; outside the years 1 to 9999 it is the nearest end.
    #[must_use]
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// An instant from milliseconds since the epoch.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self::from_micros(millis.saturating_mul(1000))
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since the epoch, rounded down.
    #[must_use]
    pub fn as_millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This instant and `duration` later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }

    /// Milliseconds from `earlier` to this instant; negative when `earlier` is later.
    #[must_use]
    pub fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0).div_euclid(1000)
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTime;

    /// RFC 3339 with an offset, and nothing else that ISO 8601 allows; finer than microseconds is cut. An instant after
    /// [`Timestamp::MAX`] is that end: 9999-12-31T23:59:59Z is a customary "never".
    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        if let Some(time) = usual(text.as_bytes()) {
            return Ok(time);
        }
        if !looks_like_rfc3339(text.as_bytes()) {
            return Err(InvalidTime);
        }
        let text = &*without_excess_digits(text);
        if let Ok(instant) = text.parse::<jiff::Timestamp>() {
            return Ok(Self::from_micros(instant.as_microsecond()));
        }
        let pieces = jiff::fmt::temporal::Pieces::parse(text).map_err(|_| InvalidTime)?;
        let is_last_year = pieces.date().year() == 9999 && pieces.time().is_some() && pieces.offset().is_some();
        if is_last_year { Ok(Self::MAX) } else { Err(InvalidTime) }
    }
}

/// Days from 0001-01-01 to 1970-01-01.
const DAYS_TO_EPOCH: i64 = 719_162;
/// Days of a common year before each month, and of the whole year.
const DAYS_BEFORE_MONTH: [i64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];

/// The usual spelling, `YYYY-MM-DDTHH:MM:SS[.…]Z` with up to nine digits of a fraction, read without a parser: nearly
/// every event has a time, and nearly every time is spelled so. `None` leaves the text to the parser: other spellings,
/// times that do not exist, leap seconds, years before 1970 and the last one of the calendar.
fn usual(text: &[u8]) -> Option<Timestamp> {
    let (b"T", b'-', b'-', b':', b':') = (text.get(10..11)?, text[4], text[7], *text.get(13)?, *text.get(16)?) else {
        return None;
    };
    let [year, month, day] = [number(text.get(0..4)?)?, number(text.get(5..7)?)?, number(text.get(8..10)?)?];
    let [hour, minute, second] = [number(text.get(11..13)?)?, number(text.get(14..16)?)?, number(text.get(17..19)?)?];
    let micros = match text.get(19..)? {
        b"Z" => 0,
        [b'.', digits @ .., b'Z'] if (1..=9).contains(&digits.len()) => {
            let nanos = number(digits)? * 10_i64.pow(9 - u32::try_from(digits.len()).ok()?);
            nanos / 1000
        }
        _ => return None,
    };
    if !(1970..9999).contains(&year) || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let leap = i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    let before = usize::try_from(month - 1).ok()?;
    let days_of_month = DAYS_BEFORE_MONTH[before + 1] - DAYS_BEFORE_MONTH[before] + if month == 2 { leap } else { 0 };
    if !(1..=days_of_month).contains(&day) {
        return None;
    }
    let years = year - 1;
    let days_before_year = years * 365 + years / 4 - years / 100 + years / 400;
    let days_in_year = DAYS_BEFORE_MONTH[before] + if month > 2 { leap } else { 0 } + day - 1;
    let seconds = (days_before_year + days_in_year - DAYS_TO_EPOCH) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(Timestamp(seconds * 1_000_000 + micros))
}

/// Digits, and nothing else, as a number.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

/// The shape that RFC 3339 leaves no choice about: `YYYY-MM-DDtHH:MM:SS`, then an offset and no zone name.
fn looks_like_rfc3339(text: &[u8]) -> bool {
    let separators = [(4, b"-" as &[u8]), (7, b"-"), (10, b"Tt "), (13, b":"), (16, b":")];
    text.len() >= 20
        && text.len() <= RFC3339_BYTES_MAX
        && text[0].is_ascii_digit()
        && separators.iter().all(|(at, allowed)| allowed.contains(&text[*at]))
        && !text.contains(&b'[')
}

/// Longest time text taken: a second's fraction and an offset, with room.
const RFC3339_BYTES_MAX: usize = 64;

/// RFC 3339 sets no end to the digits of a second's fraction; what lies behind nanoseconds is dropped.
fn without_excess_digits(text: &str) -> Cow<'_, str> {
    let digits = text.get(20..).filter(|_| text.as_bytes()[19] == b'.').unwrap_or_default();
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    if count <= 9 { text.into() } else { format!("{}{}", &text[..29], &text[20 + count..]).into() }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = jiff::Timestamp::from_microsecond(self.0).map_err(|_| fmt::Error)?;
        if self.0.rem_euclid(1000) == 0 { write!(f, "{instant:.3}") } else { write!(f, "{instant:.6}") }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_milliseconds_and_microseconds_only_where_needed() {
        assert_eq!(Timestamp::EPOCH.to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_micros(1).to_string(), "1970-01-01T00:00:00.000001Z");
        let time: Timestamp = "2026-11-30T09:00:00.5+02:00".parse().expect("a valid time");
        assert_eq!(time.to_string(), "2026-11-30T07:00:00.500Z");
    }

    #[test]
    fn the_ends_of_the_calendar_saturate_and_print() {
        let far: Timestamp = "9999-12-31T23:59:59Z".parse().expect("a valid time");
        assert_eq!(far, Timestamp::MAX);
        assert_eq!(far.to_string(), "9999-12-30T22:00:00.000Z");
        assert_eq!(far.plus(Duration::from_hours(24)), Timestamp::MAX);
        assert!(Timestamp::MIN.to_string().starts_with("0001-01-01"));
        assert_eq!(Timestamp::from_micros(i64::MAX).to_string(), far.to_string());
    }

    #[test]
    fn the_usual_spelling_is_read_as_the_parser_reads_it() {
        let parsed = |text: &str| text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond);
        // Every day of more than four centuries, at a time of its own.
        for day in 0..160_000_i64 {
            let micros = day * 86_400_000_000 + day * 539_777_777 % 86_400_000_000;
            let text = jiff::Timestamp::from_microsecond(micros).expect("in the calendar").to_string();
            assert_eq!(usual(text.as_bytes()).map(Timestamp::as_micros), Some(micros), "{text}");
        }
        for year in ["1970", "1972", "1999", "2000", "2024", "2026", "2100", "9998"] {
            for rest in
                ["-02-28T23:59:59Z", "-02-29T00:00:00.1Z", "-03-01T00:00:00.123456789Z", "-12-31T23:59:59.999999Z"]
            {
                let text = format!("{year}{rest}");
                assert_eq!(usual(text.as_bytes()).map(Timestamp::as_micros), parsed(&text), "{text}");
            }
        }
        for text in [
            "2026-00-10T00:00:00Z",
            "2026-13-10T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-04-00T00:00:00Z",
            "2026-04-30T24:00:00Z",
            "2026-04-30T23:60:00Z",
            "2026-04-30T23:59:60Z",
            "2026-04-30T23:59:5Z",
            "2026-04-30T23:59:59.Z",
            "2026-04-30T23:59:59.1234567890Z",
            "2026-04-30T23:59:59.1",
            "2026-04-30t23:59:59z",
            "9999-04-30T23:59:59Z",
            "1969-12-31T23:59:59Z",
            "+026-04-30T23:59:59Z",
            "2026-04-30",
            "2026",
            "",
        ] {
            assert_eq!(usual(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn only_rfc3339_with_an_offset_is_a_time() {
        for text in [
            "",
            "1764486000",
            "2026-11-30",
            "2026-11-30T07:00:00",
            "20261130T070000Z",
            "2026-11-30T07:00Z+00",
            "2026-11-30T07:00:00+01:00[Europe/Paris]",
            "+002026-11-30T07:00:00Z",
            "2026-13-30T07:00:00Z",
            "9999-12-31T23:59:59",
            "9999-12-32T23:59:59Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(InvalidTime), "{text}");
        }
        for text in ["2026-11-30T07:00:00Z", "2026-11-30t07:00:00.123456789z", "2026-11-30 07:00:00-08:00"] {
            assert!(text.parse::<Timestamp>().is_ok(), "{text}");
        }
        assert_eq!("0001-01-01T00:00:00Z".parse(), Ok(Timestamp::MIN));
    }
}
