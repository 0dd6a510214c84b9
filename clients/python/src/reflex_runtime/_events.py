"""Events on their way out: checked, encoded and queued by the caller's thread, sent by another."""

import json
import uuid
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from ._metrics import Metrics
from ._time import format_time

EVENT_BYTES_MAX = 256 * 1024
"""Largest event; a larger one is dropped and counted (``events_oversized``)."""
TEXT_CHARACTERS_MAX = 4096
"""An error message longer than this is cut: only its first line ever takes part in anything."""

_REQUIRED = ("type", "session_id", "graph")


class Event(NamedTuple):
    """One encoded event."""

    key: str
    value: bytes


class EventQueue:
    """A bounded queue: what does not fit is dropped and counted, nobody waits."""

    def __init__(self, events_max: int, fields: Mapping[str, Any], now: Callable[[], int], metrics: Metrics) -> None:
        self._events_max = events_max
        self._fields = dict(fields)
        self._now = now
        self._metrics = metrics
        self.queue: SimpleQueue[Event | None] = SimpleQueue()
        self.closed = False

    def reset(self) -> None:
        """After a fork: what waits is sent by the parent."""
        self.queue = SimpleQueue()

    def put(self, event: Mapping[str, Any]) -> bool:
        """Queues an event; whether it was taken."""
        if self.closed or self.queue.qsize() >= self._events_max:
            self._metrics.add("events_dropped")
            return False
        encoded = self._encode(event)
        if encoded is None:
            return False
        self.queue.put(encoded)
        self._metrics.add("events_queued")
        return True

    def wake(self) -> None:
        """Lets a sender look around that waits for the next event."""
        self.queue.put(None)

    def drain(self) -> int:
        """Empties the queue; how many events were in it."""
        count = 0
        while True:
            try:
                count += self.queue.get_nowait() is not None
            except Empty:
                return count

    def _encode(self, event: Mapping[str, Any]) -> Event | None:
        fields = {**self._fields, **event} if self._fields else dict(event)
        if not all(isinstance(fields.get(name), str) and fields[name] for name in _REQUIRED):
            self._metrics.add("events_invalid")
            return None
        if fields.get("event_id") is None:
            fields["event_id"] = str(uuid.uuid4())
        if fields.get("occurred_at") is None:
            fields["occurred_at"] = format_time(self._now() // 1000 * 1000)
        value = _json(_short(fields))
        if value is None:
            self._metrics.add("events_invalid")
            return None
        if len(value) > EVENT_BYTES_MAX:
            self._metrics.add("events_oversized")
            return None
        return Event(fields["session_id"], value)


def _short(fields: dict[str, Any]) -> dict[str, Any]:
    error = fields.get("error")
    message = error.get("message") if isinstance(error, Mapping) else None
    if isinstance(error, Mapping) and isinstance(message, str) and len(message) > TEXT_CHARACTERS_MAX:
        fields["error"] = {**error, "message": message[:TEXT_CHARACTERS_MAX]}
    return fields


def _json(fields: Mapping[str, Any]) -> bytes | None:
    try:
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        try:
            text = json.dumps(_jsonable(fields, 0), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return None
    return text.encode("utf-8", "replace")


_DEPTH_MAX = 16


def _jsonable(value: object, depth: int) -> object:
    """The same with null for what JSON has no word for: an event is worth more than one of its fields."""
    if isinstance(value, float):
        return value if value - value == 0.0 else None
    if value is None or isinstance(value, (str, int)):
        return value
    if depth == _DEPTH_MAX:
        return None
    if isinstance(value, Mapping):
        return {name: _jsonable(inner, depth + 1) for name, inner in value.items() if isinstance(name, str)}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_jsonable(inner, depth + 1) for inner in value]
    return None
