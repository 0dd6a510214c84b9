"""The client's side of HTTP: a long poll of the overrides, one of the interventions a wait, and batches of events."""

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from queue import Empty
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from ._core import Core, guarded, logger
from ._events import Event
from ._table import UNDECODABLE, OverrideTable
from ._waits import ENDED, Run, Wait

POLL_SECONDS = 20.0
"""How long the server may keep a request that has nothing to say; it keeps none longer than 25 s."""
ANSWER_SECONDS = 5.0
"""How long an answer may take beyond that."""
RETRY_SECONDS = 0.5
RETRY_SECONDS_MAX = 5.0
BATCH_EVENTS_MAX = 500
BATCH_BYTES_MAX = 512 * 1024
EVENT_MICROS_MAX = 120_000_000
"""An event that was not taken by then is dropped and counted: later it would trigger nothing."""
WATCHES_MAX = 64
"""Waits that ask for their intervention; beyond it a wait hears of its override only, and is counted."""
ANSWER_BYTES_MAX = 256 * 1024 * 1024


def check_url(url: str) -> None:
    """Raises ValueError for what is no address of a server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError("http must be http://HOST[:PORT] or https://HOST[:PORT]")
    _ = parts.port


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: Any
    retry_after_seconds: float


class _Unreachable(Exception):  # noqa: N818
    """No answer, or none that could be read."""


class _Connection:
    """One kept-alive connection; for one thread."""

    def __init__(self, core: Core, url: str, token: str | None, context: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        self._core = core
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        host = parts.hostname or ""
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            self._connection = http.client.HTTPSConnection(
                host, parts.port, timeout=ANSWER_SECONDS, context=context or ssl.create_default_context()
            )
        else:
            self._connection = http.client.HTTPConnection(host, parts.port, timeout=ANSWER_SECONDS)

    def get(self, path: str, query: dict[str, str], wait_seconds: float) -> Answer:
        """Asks; raises _Unreachable."""
        return self._ask("GET", f"{path}?{urlencode(query)}", None, wait_seconds)

    def post(self, path: str, body: bytes) -> Answer:
        """Sends JSON; raises _Unreachable."""
        return self._ask("POST", path, body, 0.0)

    def cut(self) -> None:
        """Ends what waits on it, from another thread."""
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes it; the next request opens another."""
        self._connection.close()

    def _ask(self, method: str, path: str, body: bytes | None, wait_seconds: float) -> Answer:
        fresh = self._connection.sock is None
        try:
            return self._once(method, path, body, wait_seconds)
        except (OSError, http.client.HTTPException) as problem:
            self.close()
            # A connection kept alive may have been closed by the other side meanwhile.
            if fresh or isinstance(problem, TimeoutError) or self._core.stopping.is_set():
                raise _Unreachable(type(problem).__name__) from None
        try:
            return self._once(method, path, body, wait_seconds)
        except (OSError, http.client.HTTPException) as problem:
            self.close()
            raise _Unreachable(type(problem).__name__) from None

    def _once(self, method: str, path: str, body: bytes | None, wait_seconds: float) -> Answer:
        connection, clock = self._connection, self._core.clock
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        timeout = wait_seconds + ANSWER_SECONDS
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        sent = clock.steady()
        connection.request(method, self._prefix + path, body, headers)
        response = connection.getresponse()
        received = clock.steady()
        content = response.read(ANSWER_BYTES_MAX + 1)
        if len(content) > ANSWER_BYTES_MAX:
            raise http.client.HTTPException
        self._observe(response.getheader("Date"), sent, received)
        try:
            parsed = json.loads(content) if content else None
        except ValueError:
            parsed = None
        return Answer(response.status, parsed, _seconds(response.getheader("Retry-After")))

    def _observe(self, date: str | None, sent: int, received: int) -> None:
        try:
            at = int(parsedate_to_datetime(date or "").timestamp()) * 1_000_000
        except (ValueError, TypeError, OverflowError):
            return
        # The header has whole seconds, and servers renew it once a second.
        self._core.clock.observe(at, at + 999_999, sent, received)


def _seconds(text: str | None) -> float:
    try:
        return min(max(float(text or 0), 0.0), 60.0)
    except ValueError:
        return 0.0


class HttpTransport:
    """Threads that poll overrides and send events."""

    def __init__(self, core: Core, url: str, token: str | None, context: ssl.SSLContext | None) -> None:
        self._core = core
        self._connect: Callable[[], _Connection] = lambda: self._kept(_Connection(core, url, token, context))
        self._connections: set[_Connection] = set()
        self._threads: list[threading.Thread] = []
        self._watches = threading.BoundedSemaphore(WATCHES_MAX)
        self._busy = False

    def _kept(self, connection: _Connection) -> _Connection:
        self._connections.add(connection)
        return connection

    def start(self) -> None:
        """Starts the threads."""
        self._threads = [
            threading.Thread(target=guarded(run, self._core), name=f"reflex-{name}", daemon=True)
            for name, run in (("reader", self._read), ("sender", self._send))
        ]
        for thread in self._threads:
            thread.start()

    def handles(self) -> Sequence[object]:
        """Nothing outside of Python is held."""
        return []

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until everything that was queued is acknowledged or given up."""
        clock, queue = self._core.clock, self._core.events.queue
        deadline = clock.steady() + int(timeout_seconds * 1_000_000)
        while not queue.empty() or self._busy:
            if clock.steady() >= deadline:
                return False
            self._core.stopping.wait(0.005)
        return True

    def stop(self, timeout_seconds: float) -> None:
        """Ends the threads; what is not acknowledged is lost and counted."""
        self._core.stopping.set()
        self._core.events.wake()
        for connection in list(self._connections):
            connection.cut()
        each = timeout_seconds / max(1, len(self._threads))
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(each)

    # ---------------------------------------------------------------------------------------------- overrides

    def _read(self) -> None:
        core, connection = self._core, self._connect()
        cursor: str | None = None
        failures = 0
        while not core.stopping.is_set():
            query, wait_seconds = {}, 0.0
            if cursor is not None:
                # After a silence the answer is wanted at once: it says that nothing was missed.
                wait_seconds = POLL_SECONDS if core.away_micros is None else 0.0
                query = {"after": cursor, "wait": f"{wait_seconds:g}"}
            delay = 0.0
            try:
                answer = connection.get("/v1/overrides", query, wait_seconds)
                if answer.status == 200:
                    cursor = self._take(answer.body)
                    failures = 0
                else:
                    delay = self._not_now(answer)
            except _Unreachable as problem:
                core.lost(None, str(problem))
                delay = RETRY_SECONDS
            except (KeyError, TypeError, AttributeError, ValueError):
                core.metrics.add("reader_errors")
                core.lost()
                cursor, delay = None, RETRY_SECONDS
            if delay:
                failures += 1
                core.stopping.wait(max(delay, min(RETRY_SECONDS * 2 ** (failures - 1), RETRY_SECONDS_MAX)))
        connection.close()

    def _not_now(self, answer: Answer) -> float:
        refused = f"HTTP {answer.status}" if answer.status in (401, 403, 404, 421) else None
        self._core.lost(refused, f"HTTP {answer.status}")
        return max(answer.retry_after_seconds, RETRY_SECONDS)

    def _take(self, body: Any) -> str:
        core = self._core
        cursor, full, changes = body["cursor"], body["full"], body["overrides"]
        table = OverrideTable() if full else core.table
        for change in changes:
            key, record = change["key"], change["override"]
            value = None if record is None else json.dumps(record, ensure_ascii=False, separators=(",", ":"))
            became = core.apply(table, key, value, "an answer")
            if full and became == UNDECODABLE and (good := core.table.get(key)) is not None:
                table.put(key, good)
        core.contact()
        core.loaded(table)
        return str(cursor)

    # ------------------------------------------------------------------------------------------------- events

    def _send(self) -> None:
        core, queue, connection = self._core, self._core.events.queue, self._connect()
        while not core.stopping.is_set():
            event = queue.get()
            if event is None:
                continue
            self._busy = True
            try:
                self._send_all(connection, self._batch(event))
            finally:
                self._busy = False
        connection.close()

    def _batch(self, first: Event) -> list[Event]:
        batch, size = [first], len(first.value)
        while len(batch) < BATCH_EVENTS_MAX and size < BATCH_BYTES_MAX:
            try:
                event = self._core.events.queue.get_nowait()
            except Empty:
                break
            if event is not None:
                batch.append(event)
                size += len(event.value)
        return batch

    def _send_all(self, connection: _Connection, batch: list[Event]) -> None:
        """Sends until each one is accepted, rejected or too old."""
        core = self._core
        deadline = core.clock.steady() + EVENT_MICROS_MAX
        failures = 0
        while batch and not core.stopping.is_set() and core.clock.steady() < deadline:
            try:
                answer = connection.post("/v1/events", b"[" + b",".join(event.value for event in batch) + b"]")
                batch, delay = self._left(connection, batch, answer)
            except _Unreachable:
                delay = RETRY_SECONDS
            if batch and delay:
                failures += 1
                core.stopping.wait(max(delay, min(RETRY_SECONDS * 2 ** (failures - 1), RETRY_SECONDS_MAX)))
        if batch:
            core.metrics.add("events_undelivered", len(batch))

    def _left(self, connection: _Connection, batch: list[Event], answer: Answer) -> tuple[list[Event], float]:
        """What is to be sent again, and after how many seconds."""
        metrics = self._core.metrics
        delay = max(answer.retry_after_seconds, RETRY_SECONDS)
        if answer.status == 413:
            if len(batch) == 1:
                metrics.add("events_oversized")
                return [], 0.0
            half = len(batch) // 2
            self._send_all(connection, batch[:half])
            return batch[half:], 0.0
        items = answer.body.get("items") if isinstance(answer.body, dict) else None
        if answer.status in (200, 202) or isinstance(items, list):
            rejected = _places(items, "rejected", len(batch))
            failed = _places(items, "failed", len(batch))
            metrics.add("events_sent", len(batch) - len(rejected) - len(failed))
            if rejected:
                metrics.add("events_rejected", len(rejected))
                logger.warning("%d events were rejected", len(rejected))
            return [batch[at] for at in failed], delay
        if answer.status in (400, 415):
            metrics.add("events_rejected", len(batch))
            logger.warning("%d events were rejected: HTTP %d", len(batch), answer.status)
            return [], 0.0
        return batch, delay

    # -------------------------------------------------------------------------------------------------- waits

    def watch(self, wait: Wait, budget_seconds: float) -> None:
        """Asks for the intervention of a run that waits: one that ends without an override ends the wait."""
        if not self._watches.acquire(blocking=False):
            self._core.metrics.add("waits_unwatched")
            return
        watch = threading.Thread(target=self._watch, args=(wait, budget_seconds), name="reflex-wait", daemon=True)
        try:
            watch.start()
        except RuntimeError:
            self._watches.release()
            self._core.metrics.add("waits_unwatched")

    def _watch(self, wait: Wait, budget_seconds: float) -> None:
        core, connection, run = self._core, self._connect(), wait.run
        deadline = core.clock.steady() + int(budget_seconds * 1_000_000)
        try:
            while not wait.answered and not core.stopping.is_set():
                left = (deadline - core.clock.steady()) / 1_000_000
                if left <= 0:
                    return
                query = {"session_id": run.session_id, "graph": run.graph}
                if run.run_id is not None:
                    query["run_id"] = run.run_id
                known = core.waits.known(run)
                if known is not None:
                    query["after"] = known
                seconds = min(left, POLL_SECONDS)
                answer = connection.get("/v1/interventions", {**query, "wait": f"{seconds:.3f}"}, seconds)
                if answer.status == 200:
                    if self._settled(run, answer.body):
                        return
                    core.stopping.wait(0.05)
                elif answer.status != 204:
                    core.stopping.wait(max(answer.retry_after_seconds, RETRY_SECONDS))
        except _Unreachable:
            # The override comes by the other poll, or the budget ends.
            core.metrics.add("waits_unwatched")
        except Exception:
            core.metrics.add("thread_errors")
        finally:
            self._watches.release()
            self._connections.discard(connection)
            connection.close()

    def _settled(self, run: Run, body: Any) -> bool:
        """Whether nothing more is to be asked: the newest intervention of the run has come to its end."""
        for item in body["interventions"]:
            record = item["intervention"]
            if record.get("run_id") == run.run_id and record.get("tenant") == run.tenant:
                if record["status"] in ENDED:
                    self._core.waits.ended(run, record["intervention_id"])
                return bool(item["settled"])
        return False


def _places(items: Any, status: str, count: int) -> list[int]:
    found = [item for item in items or () if isinstance(item, dict) and item.get("status") == status]
    return [at for at in (item.get("index") for item in found) if isinstance(at, int) and 0 <= at < count]
