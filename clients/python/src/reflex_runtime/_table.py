"""The overrides a runtime holds, indexed so that a question costs a few map probes.

    key -> record                                           every record, usable or not
    graph -> (tenant, session_id) -> entries                usable session records
          -> [dimension set] -> values -> entries           usable cohort records: one probe a dimension set

One thread writes; any thread reads without a lock: readers see tuples that are replaced whole, never changed.
"""

from collections.abc import Callable, Hashable, Iterator
from operator import itemgetter
from typing import TypeVar

from ._context import OWNER, Context, Values
from ._records import RANKS, Override, UndecodableError, decode_override, unusable

STORED, IGNORED, REMOVED, ABSENT = "stored", "ignored", "removed", "absent"
UNCHANGED, OLDER, CONFLICT, UNDECODABLE = "unchanged", "older", "conflict", "undecodable"

_Slot = TypeVar("_Slot", bound=Hashable)
Rank = tuple[int, bool, int, tuple[tuple[int, str], ...], int, str, str]


class Entry:
    """A usable record and what is asked of it again and again."""

    __slots__ = ("command", "dimensions", "expires_at", "key", "rank", "record", "session", "values")

    def __init__(self, key: str, record: Override) -> None:
        named = sorted((RANKS.get(name, len(RANKS)), name) for name in record.dimensions)
        tier = {"deny": 0, "force": 1}.get(record.mode, 2)
        self.key = key
        self.record = record
        self.session = record.scope_kind == "session"
        self.command = tier < 2
        self.expires_at = record.expires_at_micros
        self.dimensions = tuple(name for _, name in named)
        self.values = tuple(record.dimensions[name] for name in self.dimensions)
        # Best first: deny, force or neither; session or cohort; more dimensions; higher dimensions; newer; smaller id.
        # The key stands last, so that two records of one id do not depend on the order of reading.
        self.rank: Rank = (
            tier,
            not self.session,
            -len(named),
            tuple(named),
            -record.created_at_micros,
            record.override_id,
            key,
        )


class _Group:
    """Cohort records with the same dimensions that all are, or all are not, for one tenant."""

    __slots__ = ("asked", "names", "slots")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        # The values asked for, taken out of a context's without a step of the interpreter for each.
        self.asked: Callable[[Values], Hashable] = itemgetter(*names) if names else _no_values
        self.slots: dict[Hashable, tuple[Entry, ...]] = {}


def _no_values(_: Values) -> Hashable:
    return ()


class _Graph:
    __slots__ = ("groups", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[tuple[str | None, str], tuple[Entry, ...]] = {}
        self.groups: tuple[_Group, ...] = ()


class OverrideTable:
    """Live overrides by key, with the index over the usable ones."""

    __slots__ = ("_entries", "_graphs", "_records")

    def __init__(self) -> None:
        self._records: dict[str, Override] = {}
        self._entries: dict[str, Entry] = {}
        self._graphs: dict[str, _Graph] = {}

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> Override | None:
        """The record of a key, usable or not."""
        return self._records.get(key)

    def records(self) -> list[tuple[str, Override]]:
        """Every key with its record."""
        return list(self._records.items())

    def apply(self, key: str, value: bytes | str | None) -> tuple[str, Override | None]:
        """Takes the next record of the topic as it stands there; None is a tombstone.

        The later in the log wins, unless it is an older or an unequal copy of the same publication, or is none at all.
        Answers what became of it (one of the words above) and the record.
        """
        if value is None:
            return (REMOVED if self.remove(key) else ABSENT), None
        try:
            record = decode_override(value)
        except UndecodableError:
            return UNDECODABLE, None
        return self.put(key, record), record

    def put(self, key: str, record: Override) -> str:
        """``apply`` for a record that was decoded already."""
        held = self._records.get(key)
        if held is not None and held.override_id == record.override_id:
            newer, older = (record.attempt, record.revision), (held.attempt, held.revision)
            if newer < older:
                return OLDER
            if newer == older:
                return UNCHANGED if record == held else CONFLICT
        self._records[key] = record
        if unusable(record) is not None:
            self._drop_entry(key)
            return IGNORED
        self._place(Entry(key, record))
        return STORED

    def remove(self, key: str) -> bool:
        """Forgets a key; whether it was held."""
        self._drop_entry(key)
        return self._records.pop(key, None) is not None

    def matching(self, graph: str, context: Context, now: int) -> list[Entry]:
        """The live entries that match, in no particular order; ``now`` in microseconds."""
        found: list[Entry] = []
        tables = self._graphs.get(graph)
        if tables is None:
            return found
        tenant, session_id = context.tenant, context.session_id
        if session_id is not None:
            sessions = tables.sessions
            found.extend(sessions.get((None, session_id), ()))
            if tenant is not None:
                found.extend(sessions.get((tenant, session_id), ()))
        values = context._values
        for group in tables.groups:
            entries = group.slots.get(group.asked(values))
            if entries is not None:
                found.extend(entries)
        return [entry for entry in found if entry.expires_at > now]

    def of_session(self, graph: str, tenant: str | None, session_id: str) -> Iterator[Entry]:
        """The usable records of one session that its tenant may see, expired ones included."""
        tables = self._graphs.get(graph)
        if tables is not None:
            yield from tables.sessions.get((None, session_id), ())
            if tenant is not None:
                yield from tables.sessions.get((tenant, session_id), ())

    def _place(self, entry: Entry) -> None:
        """Puts an entry where it is found; an earlier one of its key goes in the same step."""
        last = self._entries.get(entry.key)
        if last is not None and _place_of(last) != _place_of(entry):
            self._drop_entry(entry.key)
            last = None
        self._entries[entry.key] = entry
        record = entry.record
        graph = self._graphs.get(record.graph)
        if graph is None:
            graph = self._graphs[record.graph] = _Graph()
        if entry.session:
            slot = (record.tenant, record.session_id or "")
            graph.sessions[slot] = _with(graph.sessions.get(slot, ()), entry)
            return
        names, values = _asked_of(entry)
        for group in graph.groups:
            if group.names == names:
                group.slots[values] = _with(group.slots.get(values, ()), entry)
                return
        group = _Group(names)
        group.slots[values] = (entry,)
        graph.groups = (*graph.groups, group)

    def _drop_entry(self, key: str) -> None:
        """Nothing empty stays behind: it would cost a probe for each question."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        record = entry.record
        graph = self._graphs[record.graph]
        if entry.session:
            _without(graph.sessions, (record.tenant, record.session_id or ""), key)
        else:
            names, values = _asked_of(entry)
            for group in graph.groups:
                if group.names == names:
                    _without(group.slots, values, key)
            graph.groups = tuple(group for group in graph.groups if group.slots)
        if not graph.sessions and not graph.groups:
            del self._graphs[record.graph]


def _place_of(entry: Entry) -> tuple[object, ...]:
    record = entry.record
    return (record.graph, record.tenant, record.session_id, entry.dimensions, entry.values)


def _asked_of(entry: Entry) -> tuple[tuple[str, ...], Hashable]:
    """The names of a record's group, and its place in it as ``itemgetter`` gives it: a single value stands alone."""
    tenant, names, values = entry.record.tenant, entry.dimensions, entry.values
    if tenant is not None:
        names, values = (OWNER, *names), (tenant, *values)
    return names, values[0] if len(values) == 1 else values


def _with(entries: tuple[Entry, ...], entry: Entry) -> tuple[Entry, ...]:
    return (*(held for held in entries if held.key != entry.key), entry)


def _without(slots: dict[_Slot, tuple[Entry, ...]], slot: _Slot, key: str) -> None:
    left = tuple(entry for entry in slots.get(slot, ()) if entry.key != key)
    if left:
        slots[slot] = left
    else:
        slots.pop(slot, None)
