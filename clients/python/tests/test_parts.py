"""Times, contexts, clock, metrics, events, snapshot: each by itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from records import cohort_override, session_override, text
from reflex_runtime import Context, Resolution
from reflex_runtime._clock import SAMPLE_AGE_MICROS_MAX, BrokerClock
from reflex_runtime._context import json_text
from reflex_runtime._events import EVENT_BYTES_MAX, EventQueue
from reflex_runtime._metrics import Metrics
from reflex_runtime._resolve import without_override
from reflex_runtime._snapshot import BadSnapshotError, read_snapshot, write_snapshot
from reflex_runtime._table import OverrideTable
from reflex_runtime._time import MAX_MICROS, MIN_MICROS, format_time, parse_time

# ---------------------------------------------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
        ("2026-11-30T09:00:00.5+02:00", "2026-11-30T07:00:00.500Z"),
        ("2026-11-30t07:00:00.1234569z", "2026-11-30T07:00:00.123456Z"),
        ("2026-11-30 07:00:00-08:00", "2026-11-30T15:00:00.000Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59Z", "9999-12-30T22:00:00.000Z"),
    ],
)
def test_times_are_read_and_printed(given: str, printed: str) -> None:
    micros = parse_time(given)
    assert micros is not None
    assert MIN_MICROS <= micros <= MAX_MICROS
    assert format_time(micros) == printed


@pytest.mark.parametrize(
    "given",
    [
        *("", "1764486000", "2026-11-30", "2026-11-30T07:00:00", "20261130T070000Z", "2026-13-30T07:00:00Z"),
        *("2026-02-29T00:00:00Z", "2026-11-30T24:00:00Z", "2026-11-30T07:00:00+01:00[Europe/Paris]"),
        "٢٠٢٦-11-30T07:00:00Z",
    ],
)
def test_only_rfc3339_with_an_offset_is_a_time(given: str) -> None:
    assert parse_time(given) is None


# -------------------------------------------------------------------------------------------------------- context


@pytest.mark.parametrize(
    ("value", "compared"),
    [
        ("m-1", "m-1"),
        (7, "7"),
        (True, "true"),
        (1.5, "1.5"),
        (100.0, "100.0"),
        (0.00001, "0.00001"),
        (-0.000015, "-0.000015"),
        (1e-7, "1e-7"),
        (1e16, "1e+16"),
        (2**64 - 1, "18446744073709551615"),
        (2**64, "1.8446744073709552e+19"),
        ({"b": ("x", None), "a": 1}, '{"a":1,"b":["x",null]}'),
        (None, None),
        (float("nan"), None),
        ({"a": object()}, None),
    ],
)
def test_a_dimension_is_compared_as_text(value: Any, compared: str | None) -> None:
    assert json_text(value) == compared
    assert Context(attributes={"x": value}).value("attributes.x") == (compared or "")


def test_without_an_override_a_run_keeps_its_schema() -> None:
    def asked(phase: str, current: str | None) -> Resolution:
        return without_override("g", Context(phase=phase, current_schema_ref=current, graph_version="v1"))

    assert asked("start", "d:v1") == Resolution("g:v1")
    assert asked("resume", None) == Resolution("g:v1")
    assert asked("failed", None) == Resolution("g:v1", reason="current")
    assert asked("resume", "d:v1") == Resolution("d:v1", route="degraded", reason="current")
    assert asked("failed", "g:v1") == Resolution("g:v1", reason="current")


# ---------------------------------------------------------------------------------------------------------- clock


class Hands:
    """A machine's clocks, and the broker's."""

    def __init__(self, ahead: int) -> None:
        self.steady = 1_000_000_000
        self.ahead = ahead
        self.broker = 1_700_000_000_000_000

    def clock(self) -> BrokerClock:
        return BrokerClock(wall=lambda: self.broker + self.ahead, steady=lambda: self.steady)

    def passes(self, micros: int) -> None:
        self.steady += micros
        self.broker += micros

    def ask(self, clock: BrokerClock, there: int, back: int) -> None:
        sent = self.steady
        self.passes(there)
        at = self.broker // 1000 * 1000
        self.passes(back)
        clock.observe(at, at + 999, sent, self.steady)


@pytest.mark.parametrize("ahead", [7_200_000_000, -7_200_000_000, 0])
def test_two_hours_off_the_broker_is_known_to_the_round_trip(ahead: int) -> None:
    hands = Hands(ahead)
    clock = hands.clock()
    assert not clock.measured
    assert clock.now() == hands.broker + ahead
    hands.ask(clock, 40_000, 2_000)
    assert abs(clock.now() - hands.broker) <= 22_000
    assert clock.error_micros is not None
    assert clock.error_micros <= 22_000
    for there, back in ((3_000, 30_000), (1_000, 1_500)):
        hands.passes(1_000_000)
        hands.ask(clock, there, back)
    assert abs(clock.now() - hands.broker) <= 2_000
    assert abs(clock.offset_micros + ahead) <= 2_000


def test_a_step_of_the_wall_clock_moves_nothing_once_it_is_measured() -> None:
    hands = Hands(0)
    clock = hands.clock()
    hands.ask(clock, 500, 500)
    hands.ahead = -86_400_000_000
    assert abs(clock.now() - hands.broker) <= 1_000


def test_a_step_of_the_broker_is_followed() -> None:
    hands = Hands(0)
    clock = hands.clock()
    for _ in range(10):
        hands.ask(clock, 500, 500)
        hands.passes(1_000_000)
    hands.broker += 3_600_000_000
    hands.ask(clock, 500, 500)
    assert abs(clock.now() - hands.broker) <= 2_000


def test_old_measurements_are_forgotten() -> None:
    hands = Hands(0)
    clock = hands.clock()
    hands.ask(clock, 500, 500)
    hands.passes(SAMPLE_AGE_MICROS_MAX + 1)
    hands.ask(clock, 400_000, 400_000)
    assert clock.error_micros is not None
    assert clock.error_micros > 300_000


# --------------------------------------------------------------------------------------------------------- events


def queue(events_max: int = 10, **fields: Any) -> EventQueue:
    return EventQueue(events_max, fields, lambda: 1_764_486_000_123_456, Metrics())


def event(**fields: Any) -> dict[str, Any]:
    return {"type": "node_failed", "session_id": "s1", "graph": "g", **fields}


def taken(events: EventQueue) -> dict[str, Any]:
    queued = events.queue.get_nowait()
    assert queued is not None
    found: dict[str, Any] = json.loads(queued.value)
    assert queued.key == found["session_id"]
    return found


def test_an_event_gets_id_time_and_the_fields_of_the_client() -> None:
    events = queue(region="eu", app_version="1")
    given = event(app_version="2")
    assert events.put(given)
    found = taken(events)
    assert found["occurred_at"] == "2025-11-30T07:00:00.123Z"
    assert (found["region"], found["app_version"], len(found["event_id"])) == ("eu", "2", 36)
    assert given == event(app_version="2")
    assert events.put(event(event_id="e1", occurred_at="2026-01-01T00:00:00Z"))
    assert taken(events)["event_id"] == "e1"


@pytest.mark.parametrize("bad", [{}, {"type": "x"}, event(session_id=""), event(graph=7), {**event(), "type": None}])
def test_an_event_without_what_is_needed_is_counted_and_not_sent(bad: dict[str, Any]) -> None:
    events = queue()
    assert not events.put(bad)
    assert (events.queue.qsize(), events._metrics.get("events_invalid")) == (0, 1)


def test_a_full_queue_drops_and_counts() -> None:
    events = queue(events_max=3)
    assert [events.put(event()) for _ in range(5)] == [True, True, True, False, False]
    assert (events.queue.qsize(), events._metrics.get("events_dropped")) == (3, 2)


def test_what_json_has_no_word_for_is_null_and_the_event_goes() -> None:
    events = queue()
    loop: list[Any] = []
    loop.append(loop)
    odd = event(latency_ms=float("nan"), attributes={"a": object(), "b": {1, 2}, "c": "\ud800"}, loop=loop)
    assert events.put(odd)
    found = taken(events)
    assert (found["latency_ms"], found["attributes"]["a"], found["attributes"]["b"]) == (None, None, [1, 2])


def test_a_long_message_is_cut_and_an_event_too_large_is_dropped() -> None:
    events = queue()
    assert events.put(event(error={"class": "E", "message": "x" * 1_000_000}))
    assert len(taken(events)["error"]["message"]) == 4096
    assert not events.put(event(state="x" * EVENT_BYTES_MAX))
    assert events._metrics.get("events_oversized") == 1


# ------------------------------------------------------------------------------------------------------- snapshot


def test_a_snapshot_is_read_as_it_was_written(no_snapshot_left: Path) -> None:
    table = OverrideTable()
    table.apply("k1", text(session_override()))
    table.apply("k2", json.dumps(cohort_override(reason="zwei\nZeilen\u2028ö"), indent=2, ensure_ascii=False))
    assert write_snapshot(no_snapshot_left, table) == 2
    again = read_snapshot(no_snapshot_left)
    assert again.records() == table.records()
    assert no_snapshot_left.stat().st_mode & 0o077 == 0


def test_what_is_no_whole_snapshot_is_not_used(no_snapshot_left: Path) -> None:
    table = OverrideTable()
    for number in range(50):
        table.apply(f"k{number}", text(session_override(f"s{number}")))
    write_snapshot(no_snapshot_left, table)
    whole = no_snapshot_left.read_bytes()
    for cut in range(0, len(whole) - 1, 97):
        no_snapshot_left.write_bytes(whole[:cut])
        with pytest.raises(BadSnapshotError):
            read_snapshot(no_snapshot_left)
    for other in (b"", b"{}", b"\xff" * 10, b'{"format":"reflex-overrides","version":2}\n{"records":0}\n', whole * 2):
        no_snapshot_left.write_bytes(other)
        with pytest.raises(BadSnapshotError):
            read_snapshot(no_snapshot_left)
    lines = whole.splitlines(keepends=True)
    no_snapshot_left.write_bytes(b"".join(lines[:3] + lines[4:]))
    with pytest.raises(BadSnapshotError):
        read_snapshot(no_snapshot_left)


def test_a_snapshot_that_cannot_be_written_leaves_the_last_one(no_snapshot_left: Path) -> None:
    table = OverrideTable()
    table.apply("k", text(session_override()))
    write_snapshot(no_snapshot_left, table)
    before = no_snapshot_left.read_bytes()

    class Broken(OverrideTable):
        def records(self) -> Any:
            return [("k", None)]

    with pytest.raises(AttributeError):
        write_snapshot(no_snapshot_left, Broken())
    assert no_snapshot_left.read_bytes() == before
