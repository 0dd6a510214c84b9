"""Whatever breaks, the agent runs as without Reflex; errors and manifests say what they must and no more."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from reflex_runtime.langgraph import Graphs, Node, ReflexGraph, Settings

from .fakes import FakeClient, FakeOverride
from .helpers import CONFIG, app_of, chain, ok
from .samples import DEGRADE, RESCUED, Samples, State

# What events carry


def test_a_validation_error_says_where_and_why_without_the_input() -> None:
    samples, client = Samples(total="secret-4711"), FakeClient()
    with pytest.raises(Exception, match="secret-4711"):
        ReflexGraph(client, samples.graphs(), "refund_graph:v1").invoke({"log": []}, CONFIG)
    error = client.of("node_failed")[0]["error"]
    assert error["class"] == "pydantic_core._pydantic_core.ValidationError"
    assert error["message"] == "int_parsing@total"
    assert "secret-4711" not in json.dumps(client.events)


def test_causes_stand_outermost_first_and_messages_can_be_withheld() -> None:
    def wrap(state: State) -> dict[str, Any]:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise RuntimeError("outer") from error

    client = FakeClient()
    with pytest.raises(RuntimeError):
        app_of(chain(work=wrap), client).invoke({"log": []}, CONFIG)
    error = client.of("node_failed")[0]["error"]
    assert (error["class"], [cause["class"] for cause in error["causes"]]) == ("RuntimeError", ["KeyError"])
    client = FakeClient()
    with pytest.raises(RuntimeError):
        app_of(chain(work=wrap), client, settings=Settings(messages=False)).invoke({"log": []}, CONFIG)
    assert "message" not in json.dumps(client.events)


# Quietness


class Broken(FakeClient):
    """Every call raises."""

    def __init__(self, *calls: str) -> None:
        super().__init__(DEGRADE)
        self._calls = calls
        for call in calls:
            setattr(self, call, self._raise)

    def _raise(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("the client is broken")


@pytest.mark.parametrize(
    "call", ["emit", "resolve", "wait_for_intervention", "override_applied", "override_ignored", "everything"]
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_broken_client_changes_nothing(call: str, nested: bool, caplog: pytest.LogCaptureFixture) -> None:
    calls = ["emit", "resolve", "wait_for_intervention", "override_applied", "override_ignored"]
    for total in (3, "many"):
        samples, client = Samples(total), Broken(*(calls if call == "everything" else [call]))
        graphs = samples.graphs(checkpointer=None if nested else InMemorySaver())
        name = "refund_graph:v1"
        if nested:
            refund = graphs.get(name)
            assert refund is not None
            name = "outer:v1"
            graphs.register(name, chain(refund=refund.compiled).compile(checkpointer=InMemorySaver()))
        app = ReflexGraph(client, graphs, name)
        with caplog.at_level(logging.WARNING, "reflex_runtime.langgraph"):
            if total == 3:
                assert app.invoke({"log": []}, CONFIG)["evidence_analysis"] == {"total": 3}
            elif call in ("emit", "override_applied", "override_ignored"):
                app.invoke({"log": []}, CONFIG)
                assert samples.ran == RESCUED
            else:
                with pytest.raises(Exception) as raised:
                    app.invoke({"log": []}, CONFIG)
                assert raised.value is samples.error
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(set(said))
    assert said or call == "override_ignored"


def test_an_observer_that_breaks_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from reflex_runtime.langgraph import observer

    def broken(*args: Any) -> Any:
        raise RuntimeError("own fault")

    monkeypatch.setattr(observer, "updates_in", broken)
    samples = Samples(total=3)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            ReflexGraph(FakeClient(), samples.graphs(), "refund_graph:v1").invoke({"log": []}, CONFIG)
    assert samples.ran.count("issue_refund") == 2
    assert len([record for record in caplog.records if record.name == "reflex_runtime.langgraph"]) == 1


def test_a_move_that_breaks_half_way_leaves_the_thread_as_it_was() -> None:
    samples = Samples()

    def route(state: State) -> str:
        raise RuntimeError("no way on")

    builder = StateGraph(State)
    builder.add_node("request_evidence", samples.node("degraded request_evidence"))
    builder.add_node("log_refund_request", samples.node("log_refund_request"))
    builder.add_edge(START, "request_evidence")
    builder.add_conditional_edges("request_evidence", route, ["log_refund_request"])
    saver = InMemorySaver()
    graphs = Graphs()
    graphs.register("refund_graph:v1", samples.refund(checkpointer=saver))
    graphs.register("degraded_refund_graph:v1", builder.compile(), graph="refund_graph")
    client = FakeClient(FakeOverride("degraded_refund_graph:v1", None, DEGRADE.resume))
    app = ReflexGraph(client, graphs, "refund_graph:v1")
    with pytest.raises(Exception) as raised:
        app.invoke({"log": []}, CONFIG)
    assert raised.value is samples.error
    samples.total = 3
    samples.ran.clear()
    app.invoke(None, CONFIG)
    assert samples.ran == ["evaluate_evidence", "issue_refund"]


# Manifest


def test_the_manifest_has_what_the_registry_reads(tmp_path: Any) -> None:
    graphs = Samples().graphs()
    path = tmp_path / "graphs.json"
    graphs.write_manifest(path)
    first = path.read_bytes()
    graphs.write_manifest(path)
    assert path.read_bytes() == first
    assert graphs.names() == ["refund_graph"]
    degraded, refund = json.loads(first)["graphs"]
    assert refund == {
        "name": "refund_graph",
        "version": "v1",
        "entry_points": ["identify_order"],
        "nodes": [
            {"name": "identify_order"},
            {"name": "request_evidence"},
            {"name": "evaluate_evidence", "artifact": "evidence_analysis", "required": True},
            {
                "name": "issue_refund",
                "mutating": True,
                "irreversible": True,
                "idempotency_key": "refund_{order_id}",
            },
        ],
        "edges": [
            ["evaluate_evidence", "issue_refund"],
            ["identify_order", "request_evidence"],
            ["request_evidence", "evaluate_evidence"],
        ],
        "channels": ["evidence", "evidence_analysis", "log", "order", "refund_request"],
    }
    assert degraded["entry_points"] == ["identify_order", "log_refund_request"]
    assert [path.name for path in tmp_path.iterdir()] == ["graphs.json"]


def test_what_cannot_be_registered_says_why() -> None:
    graphs = Samples().graphs()
    compiled = chain(one=ok).compile()
    with pytest.raises(ValueError, match="NAME:VERSION"):
        graphs.register("refund_graph", compiled)
    with pytest.raises(ValueError, match="registered already"):
        graphs.register("refund_graph:v1", compiled)
    with pytest.raises(ValueError, match="no node two"):
        graphs.register("g:v1", compiled, nodes={"two": Node()})
    with pytest.raises(ValueError, match="artefact"):
        graphs.register("g:v1", chain(one=(ok, {"metadata": {"reflex": {"artefact": "x"}}})).compile())
    with pytest.raises(LookupError, match="degraded_refund_graph:v1"):
        ReflexGraph(FakeClient(), graphs, "nothing:v1")


def test_latencies_are_of_what_completed() -> None:
    begun: list[float] = []

    def slow(state: State) -> dict[str, Any]:
        begun.append(time.monotonic())
        time.sleep(0.05)
        return {"log": ["slow"]}

    client = FakeClient()
    app = app_of(chain(quick=ok, slow=slow), client)
    begun.append(time.monotonic())
    app.invoke({"log": []}, CONFIG)
    node = {event["node"]: event["latency_ms"] for event in client.of("node_completed")}
    # However slow the machine is: what the quick one took was over when the slow one began.
    assert node["quick"] <= (begun[1] - begun[0]) * 1000 + 1
    assert node["slow"] >= 50
    assert client.of("graph_completed")[0]["latency_ms"] >= node["slow"]
