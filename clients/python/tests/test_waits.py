"""Waits by themselves, on a clock of the test."""

from typing import Any

import pytest

from records import session_override, text
from reflex_runtime import Client, Intervention
from reflex_runtime import _waits as module
from reflex_runtime._clock import BrokerClock
from reflex_runtime._records import decode_override
from reflex_runtime._table import OverrideTable
from reflex_runtime._waits import ENDED_MICROS_MAX, Run, Wait, Waits

RUN = Run("t-7", "s1", "refund_graph", "run_77")


class Bench:
    """Waits with a table."""

    def __init__(self) -> None:
        self.steady = 1_000_000
        self.waits = Waits(BrokerClock(steady=lambda: self.steady))
        self.table = OverrideTable()
        self.answers: list[Intervention | None] = []

    def wait(self, run: Run = RUN) -> Wait:
        begun = Wait(run, self.answers.append)
        self.waits.add(begun, lambda: self.table)
        return begun


def test_what_ended_just_before_the_wait_is_its_answer_once() -> None:
    bench = Bench()
    bench.waits.ended(RUN, "int_1")
    assert bench.wait().answered
    assert bench.answers == [None]
    assert bench.waits.known(RUN) == "int_1"
    assert not bench.wait().answered


def test_what_ended_long_ago_is_no_answer() -> None:
    bench = Bench()
    bench.waits.ended(RUN, "int_1")
    bench.steady += ENDED_MICROS_MAX
    assert not bench.wait().answered


def test_an_override_is_a_better_answer_than_an_end() -> None:
    bench = Bench()
    bench.waits.ended(RUN, "int_1")
    bench.table.apply("k", text(session_override()))
    bench.wait()
    assert [answer and answer.override.id for answer in bench.answers] == ["ovr_s1"]


def test_every_wait_of_a_run_is_answered_once_and_other_runs_are_not() -> None:
    bench = Bench()
    waits = [
        bench.wait(),
        bench.wait(),
        bench.wait(RUN._replace(run_id="other")),
        bench.wait(RUN._replace(tenant=None)),
    ]
    bench.waits.ended(RUN, "int_1")
    bench.table.apply("k", text(session_override()))
    bench.waits.look("s1", "refund_graph", bench.table)
    assert [wait.answered for wait in waits] == [True, True, False, False]
    assert bench.answers == [None, None]
    for wait in waits:
        bench.waits.remove(wait)
    assert not bench.waits.any


def test_a_record_for_every_tenant_answers_each() -> None:
    bench = Bench()
    bench.table.apply("k", text(session_override(tenant=None)))
    assert bench.wait().answered
    assert bench.wait(RUN._replace(tenant=None)).answered


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWERED_MAX", 3)
    monkeypatch.setattr(module, "ENDED_MAX", 3)
    bench = Bench()
    override = decode_override(text(session_override()))
    for number in range(10):
        run = RUN._replace(session_id=f"s{number}")
        bench.waits.answered(run, override)
        bench.waits.ended(run, "int_1")
    assert (len(bench.waits._answered), len(bench.waits._known), len(bench.waits._ended)) == (3, 3, 3)
    assert bench.waits.known(RUN._replace(session_id="s9")) == "int_1"


def test_what_makes_no_sense_is_counted_and_never_raised() -> None:
    client = Client(http="http://127.0.0.1:9", close_seconds=0.0)
    try:
        budgets: list[Any] = [None, "much", [], -1, 10**400]
        for budget in budgets:
            assert client.wait_for_intervention("s", "g", "r", budget) is None
        sessions: list[Any] = [None, [], {}, 7]
        for session_id in sessions:
            assert client.wait_for_intervention(session_id, "g", "r", 0.01) is None
        assert client.metrics()["waits_invalid"] == 4
        assert not client._core.waits._waits, "no wait is left behind"
        assert not client.override_applied(None, session_id="s", graph="g", run_id="r")  # type: ignore[arg-type]
        assert not client.runtime_started(5)  # type: ignore[arg-type]
        assert not client.runtime_started([None])  # type: ignore[list-item]
        context = {"graph_version": "v1", "region": 10**400, "attributes": {"a": 10**400}}
        assert client.resolve("g", context).schema_ref == "g:v1"
    finally:
        client.close(0.0)
