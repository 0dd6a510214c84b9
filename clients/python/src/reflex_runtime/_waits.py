"""Runs that have failed and wait for what is made for them."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from ._clock import BrokerClock
from ._records import Intervention, Override
from ._table import OverrideTable

ENDED = ("failed", "rejected", "expired", "observed")
"""Statuses of an intervention after which no override comes."""
ANSWERED_MAX = 10_000
"""Runs whose last override is remembered; beyond it the oldest goes, and a wait may be answered by it once more."""
ENDED_MAX = 1024
"""Interventions that ended without an override and that nobody waited for yet; beyond it the oldest goes."""
ENDED_MICROS_MAX = 5_000_000
"""How long they count: what failed before is not the answer to what fails now."""


class Run(NamedTuple):
    """One run of a session."""

    tenant: str | None
    session_id: str
    graph: str
    run_id: str | None


class Wait:
    """One wait; ``done`` is called once, from whatever thread knows the answer."""

    __slots__ = ("answered", "done", "run")

    def __init__(self, run: Run, done: Callable[[Intervention | None], None]) -> None:
        self.run = run
        self.done = done
        self.answered = False


class Waits:
    """All waits of a client."""

    def __init__(self, clock: BrokerClock) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """After a fork: nobody waits here."""
        self._lock = threading.RLock()
        self._waits: dict[tuple[str, str], list[Wait]] = {}
        self._answered: OrderedDict[Run, tuple[str, int]] = OrderedDict()
        self._known: OrderedDict[Run, str] = OrderedDict()
        self._ended: OrderedDict[Run, int] = OrderedDict()

    def add(self, wait: Wait, table: Callable[[], OverrideTable]) -> None:
        """Begins a wait; it may be answered at once. The table is asked for once the wait is known to its writer."""
        run = wait.run
        with self._lock:
            self._waits.setdefault((run.session_id, run.graph), []).append(wait)
            ended = self._ended.pop(run, None)
        recent = ended is not None and self._clock.steady() - ended < ENDED_MICROS_MAX
        if not self.look(run.session_id, run.graph, table()) and recent:
            self._answer([wait], None)

    def remove(self, wait: Wait) -> None:
        """Ends a wait, answered or not."""
        place = (wait.run.session_id, wait.run.graph)
        with self._lock:
            left = [other for other in self._waits.get(place, ()) if other is not wait]
            if left:
                self._waits[place] = left
            else:
                self._waits.pop(place, None)

    def look(self, session_id: str, graph: str, table: OverrideTable) -> bool:
        """Answers the waits of a session whose override is in the table; whether there was one."""
        found = False
        for wait in self._waits.get((session_id, graph), ()):
            record = self._override_for(wait.run, table)
            if record is not None:
                found = True
                self._answer([wait], Intervention(record, record.intervention_id))
        return found

    def look_all(self, table: OverrideTable) -> None:
        """``look`` for every session that waits: the table was replaced."""
        for session_id, graph in list(self._waits):
            self.look(session_id, graph, table)

    def ended(self, run: Run, intervention_id: str) -> None:
        """An intervention of this run ended without an override."""
        with self._lock:
            self._know(run, intervention_id)
            waiting = [wait for wait in self._waits.get((run.session_id, run.graph), ()) if wait.run == run]
            if not waiting:
                self._ended[run] = self._clock.steady()
                self._ended.move_to_end(run)
                if len(self._ended) > ENDED_MAX:
                    self._ended.popitem(last=False)
        self._answer(waiting, None)

    def answered(self, run: Run, override: Override) -> None:
        """The run has dealt with this override: its next wait is for a later one."""
        with self._lock:
            self._answered[run] = (override.override_id, override.attempt)
            self._answered.move_to_end(run)
            if len(self._answered) > ANSWERED_MAX:
                self._answered.popitem(last=False)
            if override.intervention_id is not None:
                self._know(run, override.intervention_id)

    def known(self, run: Run) -> str | None:
        """The last intervention that this run has heard of."""
        return self._known.get(run)

    def _know(self, run: Run, intervention_id: str) -> None:
        self._known[run] = intervention_id
        self._known.move_to_end(run)
        if len(self._known) > ANSWERED_MAX:
            self._known.popitem(last=False)

    @property
    def any(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waits)

    def _override_for(self, run: Run, table: OverrideTable) -> Override | None:
        last = self._answered.get(run)
        now = self._clock.now()
        usable = [
            entry
            for entry in table.of_session(run.graph, run.tenant, run.session_id)
            if not entry.command
            and entry.record.run_id == run.run_id
            and entry.expires_at > now
            and not (last is not None and last[0] == entry.record.override_id and entry.record.attempt <= last[1])
        ]
        return min(usable, key=lambda entry: entry.rank).record if usable else None

    def _answer(self, waits: list[Wait], answer: Intervention | None) -> None:
        for wait in waits:
            with self._lock:
                if wait.answered:
                    continue
                wait.answered = True
            wait.done(answer)
