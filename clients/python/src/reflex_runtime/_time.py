"""Instants of records: microseconds since the epoch, RFC 3339 in UTC as text."""

import re
from datetime import date, datetime, timedelta, timezone

MIN_MICROS = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z: what a missing ``created_at`` counts as."""
MAX_MICROS = 253_402_207_200_000_000
"""9999-12-30T22:00:00Z: the last instant that has four digits of the year in every time zone."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ]([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(?:\.(\d{1,43}))?"
    r"(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))",
    re.ASCII,
)


def parse_time(text: str) -> int | None:
    """Microseconds since the epoch of an RFC 3339 time with an offset; None for anything else.

    Finer than microseconds is cut; what lies outside of MIN_MICROS..MAX_MICROS is the nearest end.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, offset_hour, offset_minute = found.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    # A leap second is the last one of its minute.
    seconds = days * 86_400 + int(hour) * 3600 + int(minute) * 60 + min(int(second), 59)
    if sign is not None:
        offset = int(offset_hour) * 3600 + int(offset_minute) * 60
        seconds += offset if sign == "-" else -offset
    micros = seconds * 1_000_000 + (int(fraction[:6].ljust(6, "0")) if fraction else 0)
    return min(max(micros, MIN_MICROS), MAX_MICROS)


def format_time(micros: int) -> str:
    """RFC 3339 in UTC with milliseconds, with microseconds only where needed."""
    instant = _EPOCH + timedelta(microseconds=min(max(micros, MIN_MICROS), MAX_MICROS))
    digits = "milliseconds" if micros % 1000 == 0 else "microseconds"
    return instant.replace(tzinfo=None).isoformat(timespec=digits) + "Z"
