import json
from typing import Any

import pytest

from cases import NOW, Generator
from records import cohort_override, session_override, text
from reflex_runtime import Context
from reflex_runtime._records import UndecodableError, decode_override, unusable
from reflex_runtime._table import Entry, OverrideTable


def test_of_one_override_an_older_record_changes_nothing() -> None:
    table = OverrideTable()
    assert table.apply("k", text(session_override(attempt=1, revision=3)))[0] == "stored"
    for attempt, revision, became in ((1, 2, "older"), (0, 9, "older"), (1, 3, "unchanged"), (1, 4, "stored")):
        assert table.apply("k", text(session_override(attempt=attempt, revision=revision)))[0] == became
    assert table.apply("k", text(session_override(attempt=1, revision=4, entry_point="other")))[0] == "conflict"
    held = table.get("k")
    assert held is not None
    assert (held.attempt, held.revision, held.entry_point) == (1, 4, "log_refund_request")


def test_another_override_under_the_key_replaces_whatever_its_numbers() -> None:
    table = OverrideTable()
    table.apply("k", text(session_override(attempt=5, revision=9)))
    assert table.apply("k", text(session_override(override_id="ovr_2")))[0] == "stored"
    assert [entry.record.override_id for entry in table.of_session("refund_graph", "t-7", "s1")] == ["ovr_2"]


def test_a_tombstone_removes_and_leaves_nothing_behind() -> None:
    table = OverrideTable()
    table.apply("k", text(session_override()))
    table.apply("c", text(cohort_override()))
    assert table.apply("k", None)[0] == "removed"
    assert table.apply("k", None)[0] == "absent"
    assert table.apply("c", None)[0] == "removed"
    assert (len(table), table._graphs, table._entries) == (0, {}, {})


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\x00\x00\x00\x00\x07abc",
        b"\xc3\x01abc",
        b"\xff\xfe",
        b'{"override_id":"x"}',
        b'{"a":' * 3000,
        text(session_override(attempt=-1)).encode(),
        text(session_override(attempt=True)).encode(),
        text(session_override(expires_at="tomorrow")).encode(),
        text(session_override(resume={"after": "x", "not_before": "y"})).encode(),
        text(session_override(scope={"kind": "session"})).encode(),
        text(session_override(trial_percentage=1.5)).replace("1.5", "NaN").encode(),
    ],
)
def test_what_is_no_override_keeps_the_last_good_one(value: bytes) -> None:
    table = OverrideTable()
    table.apply("k", text(session_override()))
    before = table.get("k")
    assert table.apply("k", value) == ("undecodable", None)
    assert table.get("k") is before
    with pytest.raises(UndecodableError):
        decode_override(value)


def test_a_record_no_longer_usable_takes_the_place_of_the_usable_one() -> None:
    table = OverrideTable()
    table.apply("k", text(session_override()))
    assert table.apply("k", text(session_override(revision=2, mode="sideways")))[0] == "ignored"
    assert list(table.of_session("refund_graph", "t-7", "s1")) == []


def test_while_a_record_is_replaced_a_reader_sees_one_of_the_two() -> None:
    """A replacement in place is one assignment: a tuple taken before holds the old one, one taken after the new."""
    table = OverrideTable()
    table.apply("k", text(session_override()))
    slots = table._graphs["refund_graph"].sessions
    seen: list[int] = []

    class Watched(dict[Any, tuple[Entry, ...]]):
        def __setitem__(self, slot: Any, entries: tuple[Entry, ...]) -> None:
            super().__setitem__(slot, entries)
            seen.append(len(entries))

        def pop(self, *_: Any) -> Any:
            raise AssertionError("emptied in between")

    table._graphs["refund_graph"].sessions = Watched(slots)
    table.apply("k", text(session_override(revision=2)))
    assert seen == [1]


def scan(table: OverrideTable, graph: str, context: Context) -> set[str]:
    """Every record of the table, matched one by one."""
    found = set()
    for key, record in table.records():
        entry = Entry(key, record)
        in_scope = (
            record.session_id == context.session_id
            if entry.session
            else all(context.value(name) == value for name, value in record.dimensions.items())
        )
        own = record.tenant is None or record.tenant == context.tenant
        live = record.expires_at_micros > NOW and unusable(record) is None
        if record.graph == graph and own and in_scope and live:
            found.add(key)
    return found


def test_the_index_finds_what_a_scan_finds() -> None:
    generator, table, found_some = Generator(99), OverrideTable(), 0
    for _ in range(2000):
        case = generator.one()
        # One log over all cases, so that keys are replaced and removed over and over.
        for keyed in case["overrides"]:
            table.apply(keyed["key"], None if keyed["value"] is None else json.dumps(keyed["value"]))
        context = Context.of(case["context"])
        indexed = {entry.key for entry in table.matching("g", context, NOW)}
        assert indexed == scan(table, "g", context)
        found_some += bool(indexed)
    assert found_some > 500
