"""What a client knows, shared by the threads of its transport: overrides, state, waits, counters."""

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from ._clock import BrokerClock
from ._events import EventQueue
from ._metrics import Metrics
from ._snapshot import BadSnapshotError, read_snapshot, write_snapshot
from ._state import State
from ._table import CONFLICT, IGNORED, OLDER, REMOVED, STORED, UNDECODABLE, OverrideTable
from ._waits import ENDED, Run, Waits

logger = logging.getLogger("reflex_runtime")

KEEP_SECONDS = 0.25
SNAPSHOT_EVERY_MICROS_MIN = 1_000_000
"""Shortest time between two snapshots; never less than 20 times what the last one took."""
_REPORTED = {UNDECODABLE: "overrides_malformed", CONFLICT: "overrides_conflicting", OLDER: "overrides_older"}


class Core:
    """The shared part of a client. One transport thread writes the table; every thread reads it."""

    def __init__(
        self,
        *,
        clock: BrokerClock,
        events: EventQueue,
        metrics: Metrics,
        snapshot_path: Path | None,
        error_after_seconds: float,
    ) -> None:
        self.clock = clock
        self.events = events
        self.metrics = metrics
        self.waits = Waits(clock)
        self.table = OverrideTable()
        self.stopping = threading.Event()
        self._snapshot_path = snapshot_path
        self._error_after_micros = int(error_after_seconds * 1_000_000)
        self._callbacks: list[Callable[[State], None]] = []
        self._changed = threading.Condition(threading.RLock())
        self._state = State.NOT_READY
        self._loaded = False
        self._known = False
        self._refused: str | None = None
        self._why = "no answer"
        self._lost_at: int | None = clock.steady()
        self._unsaved = False
        self._saved_at = clock.steady()
        self._save_took = 0
        self._load_snapshot()

    # ------------------------------------------------------------------------------------------------ state

    @property
    def state(self) -> State:
        """The state now."""
        return self._state

    def disable(self) -> None:
        """Turns everything off for good."""
        self._state = State.DISABLED

    def on_change(self, callback: Callable[[State], None]) -> Callable[[], None]:
        """Calls with each new state, from a thread of the client; the result ends that."""
        self._callbacks.append(callback)

        def end() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return end

    def wait_for(self, state: State, timeout_seconds: float) -> bool:
        """Waits for a state."""
        with self._changed:
            return self._changed.wait_for(lambda: self._state is state, max(0.0, timeout_seconds))

    def contact(self) -> None:
        """The source answers."""
        if self._lost_at is not None or self._refused is not None:
            self._lost_at = self._refused = None
            self.tick()

    def lost(self, refused: str | None = None, why: str = "no answer") -> None:
        """The source does not answer, or refuses; the reasons are for people."""
        if self.stopping.is_set():
            return
        self._why = why
        if self._lost_at is None:
            self._lost_at = self.clock.steady()
        if refused is not None and refused != self._refused:
            self.metrics.add("refusals")
            logger.error("refused: %s", refused)
            self._refused = refused
        self.tick()

    @property
    def away_micros(self) -> int | None:
        """For how long the source has not answered; None: it does."""
        return None if self._lost_at is None else self.clock.steady() - self._lost_at

    def tick(self) -> None:
        """Sets the state by what is known and by the time."""
        with self._changed:
            state = self._state_now()
            if state is self._state:
                return
            self._state = state
            self._changed.notify_all()
        if state in (State.STALE, State.ERROR):
            logger.warning("state: %s (%s)", state, self._refused or self._why)
        else:
            logger.info("state: %s", state)
        for callback in list(self._callbacks):
            try:
                callback(state)
            except Exception:
                self.metrics.add("callback_errors")
                logger.exception("a callback failed")

    def _state_now(self) -> State:
        if self._state is State.DISABLED:
            return State.DISABLED
        lost_at = self._lost_at
        too_long = lost_at is not None and self.clock.steady() - lost_at >= self._error_after_micros
        if self._refused is not None or too_long:
            return State.ERROR
        if self._loaded and lost_at is None:
            return State.READY
        return State.STALE if self._known else State.NOT_READY

    def keep(self) -> None:
        """The work of a thread of its own: the state goes on by the time, and the snapshot is written."""
        while not self.stopping.wait(KEEP_SECONDS):
            self.tick()
            self.save_if_due()

    # ---------------------------------------------------------------------------------------------- overrides

    def apply(self, table: OverrideTable, key: str, value: bytes | str | None, where: str) -> str:
        """Takes the next record of the topic into a table, which may not be the one answered from yet."""
        became, record = table.apply(key, value)
        if became in (STORED, IGNORED, REMOVED):
            self._unsaved = True
            self.metrics.add("tombstones" if became is REMOVED else "overrides_read")
            if became is IGNORED:
                self.metrics.add("overrides_unusable")
            if became is STORED and record is not None and record.session_id is not None and table is self.table:
                self.waits.look(record.session_id, record.graph, table)
        elif became in _REPORTED:
            self.metrics.add(_REPORTED[became])
            # No value, no key: both may hold what logs must not.
            logger.warning("override at %s is %s; the last good one stays", where, became)
        return became

    def loaded(self, table: OverrideTable) -> None:
        """The table holds everything published up to now: it is what is answered from."""
        if table is not self.table:
            self.table = table
            self._unsaved = True
            self.waits.look_all(table)
        self._loaded = self._known = True
        self.tick()

    def behind(self) -> None:
        """What is held may lack something published: not ready before ``loaded``."""
        self._loaded = False
        self.tick()

    def intervention(self, value: bytes | None) -> None:
        """A record of the interventions topic: of interest where it ends without an override."""
        if value is None or not any(word.encode() in value for word in ENDED):
            return
        try:
            record = json.loads(value)
            if record["status"] in ENDED:
                session_id = record["scope"].get("session_id")
                if isinstance(session_id, str):
                    run = Run(record.get("tenant"), session_id, record["graph"], record.get("run_id"))
                    self.waits.ended(run, record["intervention_id"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self.metrics.add("interventions_malformed")

    # ----------------------------------------------------------------------------------------------- snapshot

    def _load_snapshot(self) -> None:
        path = self._snapshot_path
        if path is None:
            return
        try:
            self.table = read_snapshot(path)
        except FileNotFoundError:
            return
        except (OSError, BadSnapshotError) as problem:
            self.metrics.add("snapshot_errors")
            logger.warning("snapshot not used: %s", problem if isinstance(problem, ValueError) else problem.strerror)
            return
        self._known = True
        self._state = State.STALE

    def save_if_due(self, *, now: bool = False) -> None:
        """Writes the snapshot where something changed since the last one."""
        path = self._snapshot_path
        if path is None or not self._unsaved or not self._known:
            return
        begun = self.clock.steady()
        if not now and begun - self._saved_at < max(SNAPSHOT_EVERY_MICROS_MIN, 20 * self._save_took):
            return
        self._unsaved = False
        try:
            write_snapshot(path, self.table)
        except OSError as problem:
            self._unsaved = True
            self.metrics.add("snapshot_errors")
            logger.warning("snapshot not written: %s", problem.strerror)
        else:
            self.metrics.add("snapshots")
        self._saved_at = self.clock.steady()
        self._save_took = self._saved_at - begun

    # --------------------------------------------------------------------------------------------------- fork

    def after_fork(self) -> None:
        """In the child: no thread of the client is here, and whoever held a lock is gone."""
        self.metrics.reset_lock()
        self.events.reset()
        self.waits.reset()
        self.stopping = threading.Event()
        self._changed = threading.Condition(threading.RLock())
        if self._state is not State.DISABLED:
            self._loaded = False
            self._refused = None
            self._lost_at = self.clock.steady()
            self._state = State.STALE if self._known else State.NOT_READY
            # The file is the parent's; the child writes it no more than once it has read the topic itself.
            self._unsaved = False


def guarded(run: Callable[[], None], core: Core) -> Callable[[], None]:
    """A thread's work that begins anew where it fails: nothing in the background may take the application with it."""

    def forever() -> None:
        while not core.stopping.is_set():
            try:
                run()
                return
            except Exception as problem:
                core.metrics.add("thread_errors")
                logger.error("a thread of the client failed and begins anew: %s", type(problem).__name__)
                core.lost()
                core.stopping.wait(1.0)

    return forever
