//! Dates and times of Avro as text; `None` where a value lies outside the calendar (years 1 to 9999, a day's hours).

use jiff::civil::{Date, DateTime, Time};
use jiff::{SignedDuration, Span};

use crate::record::time::Timestamp;

/// What a number of time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    /// Whole microseconds, rounded down.
    fn micros(self, number: i64) -> Option<i64> {
        match self {
            Self::Millis => number.checked_mul(1000),
            Self::Micros => Some(number),
            Self::Nanos => Some(number.div_euclid(1000)),
        }
    }
}

/// RFC 3339 in UTC.
pub(super) fn instant(unit: Unit, number: i64) -> Option<String> {
    let micros = unit.micros(number)?;
    let time = Timestamp::from_micros(micros);
    (time.as_micros() == micros).then(|| time.to_string())
}

/// ISO 8601 date and time without an offset: the schema says that nobody knows the zone.
pub(super) fn local(unit: Unit, number: i64) -> Option<String> {
    let since_epoch = SignedDuration::from_micros(unit.micros(number)?);
    let time = DateTime::constant(1970, 1, 1, 0, 0, 0, 0).checked_add(since_epoch).ok()?;
    (time.year() > 0).then(|| time.to_string())
}

/// ISO 8601 time of day.
pub(super) fn time_of_day(unit: Unit, number: i64) -> Option<String> {
    let since_midnight = SignedDuration::from_micros(unit.micros(number)?);
    Time::midnight().checked_add(since_midnight).ok().map(|time| time.to_string())
}

/// ISO 8601 date from days since the epoch.
pub(super) fn date(days: i32) -> Option<String> {
    let span = Span::new().try_days(days).ok()?;
    let date = Date::constant(1970, 1, 1).checked_add(span).ok()?;
    (date.year() > 0).then(|| date.to_string())
}

/// ISO 8601 duration from Avro's three little-endian numbers.
pub(super) fn duration(bytes: [u8; 12]) -> String {
    let [months, days, millis] =
        [0, 4, 8].map(|at| bytes[at..at + 4].iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)));
    format!("P{months}M{days}DT{}.{:03}S", millis / 1000, millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_text_and_impossible_ones_do_not() {
        assert_eq!(instant(Unit::Millis, 1).as_deref(), Some("1970-01-01T00:00:00.001Z"));
        assert_eq!(instant(Unit::Nanos, -1).as_deref(), Some("1969-12-31T23:59:59.999999Z"));
        assert_eq!(instant(Unit::Micros, i64::MAX), None);
        assert_eq!(instant(Unit::Millis, i64::MIN), None);
        assert_eq!(local(Unit::Micros, 1_500_000).as_deref(), Some("1970-01-01T00:00:01.5"));
        assert_eq!(local(Unit::Millis, i64::MAX), None);
        assert_eq!(time_of_day(Unit::Millis, 3_600_000).as_deref(), Some("01:00:00"));
        assert_eq!(time_of_day(Unit::Micros, 86_400_000_000), None);
        assert_eq!(time_of_day(Unit::Micros, -1), None);
        assert_eq!(date(-1).as_deref(), Some("1969-12-31"));
        assert_eq!(date(i32::MAX), None);
        assert_eq!(duration([1, 0, 0, 0, 2, 0, 0, 0, 0xDC, 5, 0, 0]), "P1M2DT1.500S");
    }
}
