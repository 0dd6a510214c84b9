"""The client: one an application, made at its start."""

import asyncio
import atexit
import ctypes
import importlib
import importlib.util
import os
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from . import _resolve
from ._clock import BrokerClock
from ._context import Context
from ._core import Core, guarded, logger
from ._events import EventQueue
from ._metrics import Metrics
from ._records import Intervention, Override
from ._resolve import Resolution
from ._state import State
from ._waits import Run, Wait

EVENTS_MAX = 10_000
"""Events that wait to be sent; beyond it new ones are dropped and counted (``events_dropped``)."""
ERROR_AFTER_SECONDS = 60.0
"""How long the source may be silent before STALE becomes ERROR."""
CLOSE_SECONDS = 2.0
"""How long the end of the interpreter may wait for events that are not sent."""

IGNORED_REASONS = ("budget_expired", "incompatible", "unknown_schema")


class _Transport(Protocol):
    def start(self) -> None: ...
    def handles(self) -> Sequence[object]: ...
    def flush(self, timeout_seconds: float) -> bool: ...
    def stop(self, timeout_seconds: float) -> None: ...
    def watch(self, wait: Wait, budget_seconds: float) -> None: ...


class Client:
    """Resolves, publishes events, waits for interventions.

    Making one starts threads and returns at once, broker or not. ``kafka`` is ``host:port`` (several: with commas;
    needs the extra ``[kafka]``), ``http`` the address of a Reflex process; exactly one of them. ``token`` and
    ``ssl_context`` are for HTTP.

    ``runtime_id`` names this process on runtime-level events (default: a random one). ``snapshot_path`` is a file that
    keeps the last known overrides for a start without a broker. ``event_fields`` are put on every event that does not
    have them (``app_version``, ``region``, ...). ``kafka_config`` passes librdkafka settings through
    (``security.protocol``, ``sasl.*``, ``ssl.*``).

    With ``REFLEX_DISABLE=1`` in the environment nothing is started: ``resolve`` answers the global schema, ``emit``
    takes nothing, waits end at once.

    Raises ValueError for arguments that cannot be right, ImportError where the Kafka library is missing; nothing
    afterwards raises.
    """

    def __init__(
        self,
        *,
        kafka: str | None = None,
        http: str | None = None,
        token: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        runtime_id: str | None = None,
        snapshot_path: str | os.PathLike[str] | None = None,
        event_fields: Mapping[str, Any] | None = None,
        kafka_config: Mapping[str, Any] | None = None,
        events_topic: str = "reflex.events",
        overrides_topic: str = "reflex.overrides",
        interventions_topic: str = "reflex.interventions",
        events_max: int = EVENTS_MAX,
        error_after_seconds: float = ERROR_AFTER_SECONDS,
        close_seconds: float = CLOSE_SECONDS,
        clock: BrokerClock | None = None,
    ) -> None:
        if (kafka is None) == (http is None):
            raise ValueError("one of kafka and http is needed")
        if token is not None and http is None:
            raise ValueError("token is for http; credentials for Kafka are in kafka_config")
        self._runtime_id = runtime_id or str(uuid.uuid4())
        self._close_seconds = close_seconds
        self._metrics = Metrics()
        self._clock = clock or BrokerClock()
        self._events = EventQueue(events_max, event_fields or {}, self._clock.now, self._metrics)
        self._closed = False
        self._start_again = False
        self._starting = threading.Lock()
        self._disabled = os.environ.get("REFLEX_DISABLE", "") == "1"
        self._core = Core(
            clock=self._clock,
            events=self._events,
            metrics=self._metrics,
            snapshot_path=None if self._disabled or snapshot_path is None else Path(snapshot_path),
            error_after_seconds=error_after_seconds,
        )
        self._make: Callable[[], _Transport]
        if http is not None:
            http_module = importlib.import_module("._http", __package__)
            http_module.check_url(http)
            self._make = lambda: http_module.HttpTransport(self._core, http, token, ssl_context)
        elif not self._disabled:
            if importlib.util.find_spec("confluent_kafka") is None:
                raise ImportError("kafka needs confluent-kafka: pip install 'reflex-runtime[kafka]'")
            kafka_module = importlib.import_module("._kafka", __package__)
            config = dict(kafka_config or {})
            kafka_module.check_config(config)
            topics = kafka_module.Topics(events_topic, overrides_topic, interventions_topic)
            self._make = lambda: kafka_module.KafkaTransport(self._core, kafka, config, topics)
        self._transport: _Transport | None = None
        if self._disabled:
            self._core.disable()
            return
        self._start()
        _clients.add(self)

    # ---------------------------------------------------------------------------------------------- state

    @property
    def state(self) -> State:
        """How far answers can be relied on."""
        return self._core.state

    @property
    def runtime_id(self) -> str:
        """The name of this process on runtime-level events."""
        return self._runtime_id

    def wait_ready(self, timeout_seconds: float) -> bool:
        """Waits until everything published was read; whether that is so. Never needed: ``resolve`` answers before."""
        if self._start_again:
            self._restart()
        return not self._disabled and self._core.wait_for(State.READY, timeout_seconds)

    def on_change(self, callback: Callable[[State], None]) -> Callable[[], None]:
        """Calls with each new state, from a thread of the client; the result, called, ends that."""
        return self._core.on_change(callback)

    def metrics(self) -> dict[str, int]:
        """Counters; and now: ``overrides``, ``events_waiting``, ``clock_offset_ms``, ``clock_error_ms``."""
        found = self._metrics.snapshot()
        found["overrides"] = len(self._core.table)
        found["events_waiting"] = self._events.queue.qsize()
        if self._clock.measured:
            found["clock_offset_ms"] = self._clock.offset_micros // 1000
            found["clock_error_ms"] = (self._clock.error_micros or 0) // 1000
        return found

    # -------------------------------------------------------------------------------------------- resolve

    def resolve(self, graph: str, context: Context | Mapping[str, Any] | None = None) -> Resolution:
        """Which schema to run: in memory, a few microseconds, never raises, never blocks."""
        if self._start_again:
            self._restart()
        try:
            if context is None:
                context = Context()
            elif not isinstance(context, Context):
                context = Context.of(context)
            core = self._core
            return _resolve.resolve(core.table, graph, context, core.clock.now())
        except Exception:
            self._metrics.add("resolve_errors")
            logger.exception("resolve failed; the global schema is answered")
            try:
                return _resolve.without_override(graph, context if isinstance(context, Context) else Context())
            except Exception:
                return Resolution(f"{graph}:")

    # --------------------------------------------------------------------------------------------- events

    def emit(self, event: Mapping[str, Any]) -> bool:
        """Queues a runtime event; whether it was taken. Never raises, never blocks.

        ``type``, ``session_id`` and ``graph`` are needed; ``event_id`` and ``occurred_at`` are filled where missing. A
        full queue drops the event and counts it (``events_dropped``); one that lacks a field or is no JSON is counted
        too (``events_invalid``).
        """
        if self._disabled:
            return False
        if self._start_again:
            self._restart()
        try:
            return self._events.put(event)
        except Exception:
            self._metrics.add("events_invalid")
            return False

    def override_applied(
        self,
        override: Override,
        *,
        session_id: str,
        graph: str,
        run_id: str | None,
        tenant: str | None = None,
        **fields: Any,
    ) -> bool:
        """Says that the run goes on under this override; it is not answered with the same one again."""
        if not isinstance(override, Override):
            self._metrics.add("events_invalid")
            return False
        self._answered(override, session_id, graph, run_id, tenant)
        said = _said(override, session_id, graph, run_id, tenant)
        # A pause names no schema: the run stays where it is.
        route = {} if override.schema_ref is None else {"route": "degraded"}
        return self.emit({**said, **route, "type": "override_applied", **fields})

    def override_ignored(
        self,
        override: Override | None,
        reason: str,
        *,
        session_id: str,
        graph: str,
        run_id: str | None,
        tenant: str | None = None,
        **fields: Any,
    ) -> bool:
        """Says that the run does not take this override: ``budget_expired``, ``incompatible`` or ``unknown_schema``.

        ``budget_expired`` without an override: the run did not get one in time and will not come back for it. A run on
        another route than the primary says so: ``route=…, schema_ref=…``.
        """
        if override is not None:
            self._answered(override, session_id, graph, run_id, tenant)
        said = _said(override, session_id, graph, run_id, tenant)
        # The route is the one the run is on; what the override names is not what runs.
        said.pop("schema_ref", None)
        return self.emit({**said, "type": "override_ignored", "reason": reason, **fields})

    def runtime_started(self, schemas: Iterable[str], *, graphs: Iterable[str] | None = None, **fields: Any) -> bool:
        """Announces the schemas this process can load (``graph_name:version``), one event a graph.

        ``graphs`` are the names given to ``resolve``; without it, the names in the schemas.
        """
        try:
            refs = list(schemas)
            names = dict.fromkeys(graphs if graphs is not None else (ref.rpartition(":")[0] or ref for ref in refs))
        except Exception:
            self._metrics.add("events_invalid")
            return False
        said = {"type": "runtime_started", "session_id": f"runtime/{self._runtime_id}", "runtime_id": self._runtime_id}
        taken = [self.emit({**said, "graph": graph, "schema_refs": refs, **fields}) for graph in names]
        return all(taken)

    # ---------------------------------------------------------------------------------------------- waits

    def wait_for_intervention(
        self,
        session_id: str,
        graph: str,
        run_id: str | None,
        budget_seconds: float,
        *,
        tenant: str | None = None,
    ) -> Intervention | None:
        """Waits, at most the budget, for the override made for exactly this run.

        None: the budget is over, the intervention ended without an override (failed, rejected, expired, observed), or
        the client is disabled. An override that the run applied or ignored already is no answer.
        """
        came = threading.Event()
        answers: list[Intervention | None] = []

        def done(answer: Intervention | None) -> None:
            answers.append(answer)
            came.set()

        wait = self._begin(Run(tenant, session_id, graph, run_id), done, budget_seconds)
        if wait is None:
            return None
        try:
            came.wait(_bounded(budget_seconds))
        finally:
            self._core.waits.remove(wait)
        return answers[0] if answers else None

    async def wait_for_intervention_async(
        self,
        session_id: str,
        graph: str,
        run_id: str | None,
        budget_seconds: float,
        *,
        tenant: str | None = None,
    ) -> Intervention | None:
        """As ``wait_for_intervention``, without holding up the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Intervention | None] = loop.create_future()

        def settle(answer: Intervention | None) -> None:
            if not future.done():
                future.set_result(answer)

        def done(answer: Intervention | None) -> None:
            try:
                loop.call_soon_threadsafe(settle, answer)
            except RuntimeError:
                self._metrics.add("waits_abandoned")

        wait = self._begin(Run(tenant, session_id, graph, run_id), done, budget_seconds)
        if wait is None:
            return None
        try:
            return await asyncio.wait_for(future, _bounded(budget_seconds))
        except (asyncio.TimeoutError, TimeoutError):
            return None
        finally:
            self._core.waits.remove(wait)

    def _begin(self, run: Run, done: Callable[[Intervention | None], None], budget_seconds: float) -> Wait | None:
        if self._disabled or self._closed:
            return None
        if self._start_again:
            self._restart()
        if not _is_question(run):
            self._metrics.add("waits_invalid")
            return None
        wait = Wait(run, done)
        self._core.waits.add(wait, lambda: self._core.table)
        if not wait.answered and self._transport is not None:
            self._transport.watch(wait, _bounded(budget_seconds))
        return wait

    def _answered(
        self, override: Override, session_id: str, graph: str, run_id: str | None, tenant: str | None
    ) -> None:
        run = Run(tenant, session_id, graph, run_id)
        if _is_question(run) and isinstance(override, Override):
            self._core.waits.answered(run, override)

    # ------------------------------------------------------------------------------------------------ end

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until every event is acknowledged or given up; whether that is so."""
        transport = self._transport
        return transport is None or self._closed or transport.flush(max(0.0, timeout_seconds))

    def close(self, timeout_seconds: float | None = None) -> None:
        """Sends what waits, as far as the time allows (2 s), writes the snapshot and ends the threads."""
        if self._closed:
            return
        self._closed = self._events.closed = True
        _clients.discard(self)
        transport, self._transport = self._transport, None
        if transport is None or self._start_again:
            return
        seconds = self._close_seconds if timeout_seconds is None else max(0.0, timeout_seconds)
        begun = time.monotonic()
        transport.flush(seconds)
        transport.stop(max(0.5, seconds - (time.monotonic() - begun)))
        self._core.save_if_due(now=True)
        lost = self._events.drain()
        if lost:
            self._metrics.add("events_undelivered", lost)
            logger.warning("%d events were not sent", lost)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---------------------------------------------------------------------------------------- start, fork

    def _start(self) -> None:
        self._transport = self._make()
        self._transport.start()
        keeper = threading.Thread(target=guarded(self._core.keep, self._core), name="reflex-keeper", daemon=True)
        keeper.start()

    def _after_fork(self) -> None:
        """In the child: threads, connections and queue are the parent's; the overrides stay."""
        transport, self._transport = self._transport, None
        if transport is not None:
            for handle in transport.handles():
                # Freeing it would wait for threads that are not in this process.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
        self._starting = threading.Lock()
        self._core.after_fork()
        self._start_again = True

    def _restart(self) -> None:
        """First use in a forked child."""
        with self._starting:
            if not self._start_again or self._closed:
                return
            self._start_again = False
            self._start()


def _said(
    override: Override | None, session_id: str, graph: str, run_id: str | None, tenant: str | None
) -> dict[str, Any]:
    said: dict[str, Any] = {"session_id": session_id, "graph": graph, "run_id": run_id, "tenant": tenant}
    if override is not None:
        said["override_id"] = override.override_id
        said["override_attempt"] = override.attempt
        said["schema_ref"] = override.schema_ref
    return {name: value for name, value in said.items() if value is not None}


WAIT_SECONDS_MAX = 86_400.0
"""Longest wait; a longer one is this long."""


def _bounded(seconds: float) -> float:
    """A budget as it can be waited for; what is no number is none."""
    try:
        return min(max(0.0, float(seconds)), WAIT_SECONDS_MAX)
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _is_question(run: Run) -> bool:
    needed = isinstance(run.session_id, str) and isinstance(run.graph, str)
    return needed and all(part is None or isinstance(part, str) for part in (run.run_id, run.tenant))


# Those that are not closed: their threads go on, so they are held until then.
_clients: set[Client] = set()


def _close_all() -> None:
    for client in list(_clients):
        client.close()


def _fork_all() -> None:
    for client in list(_clients):
        client._after_fork()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork_all)
