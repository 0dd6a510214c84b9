"""A failed graph goes on elsewhere, with what it had collected, and nothing twice."""

from __future__ import annotations

import asyncio
import threading
import traceback
from dataclasses import replace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import ValidationError

from reflex_runtime.langgraph import Graphs, ReflexGraph

from .fakes import FakeClient, FakeOverride, FakeResolution, FakeResume
from .moving import CONFIG, SETTINGS, WAYS, Parent, root, run
from .samples import DEGRADE, RESCUED, Samples, State


@pytest.mark.parametrize("how", WAYS)
def test_the_root_goes_on_with_what_it_had(how: str) -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    result = run(root(samples, client), how, {"log": []})
    assert samples.ran == RESCUED
    assert result["order"] == {"id": 17} and result["evidence"] == {"photo": 1}
    assert result["refund_request"] == "order 17"
    assert client.story() == [
        "graph_started",
        "node_started identify_order",
        "node_completed identify_order",
        "node_started request_evidence",
        "node_completed request_evidence",
        "node_started evaluate_evidence",
        "node_failed evaluate_evidence",
        "node_started evaluate_evidence",
        "node_failed evaluate_evidence",
        "node_started evaluate_evidence",
        "node_failed evaluate_evidence",
        "graph_failed",
        "override_applied",
        "node_started log_refund_request",
        "node_completed log_refund_request",
        "node_started hand_to_person",
        "node_completed hand_to_person",
        "graph_completed",
    ]
    applied = client.of("override_applied")[0]
    assert applied["route"] == "degraded" and applied["schema_ref"] == "degraded_refund_graph:v1"
    assert applied["override_id"] == "ovr_1" and applied["override_attempt"] == 0
    assert {event["graph"] for event in client.events} == {"refund_graph"}
    assert {event["session_id"] for event in client.events} == {"sess_1"}
    assert {event["tenant"] for event in client.events} == {"t-7"}
    assert len({event["run_id"] for event in client.events}) == 1
    assert len({event["event_id"] for event in client.events}) == len(client.events)
    session_id, graph, run_id, budget, tenant = client.waits[0]
    assert (session_id, graph, tenant) == ("sess_1", "refund_graph", "t-7")
    assert run_id == applied["run_id"] and 0 < budget <= 0.2


@pytest.mark.parametrize("kind", ["subgraph", "as_node"])
@pytest.mark.parametrize("how", WAYS)
def test_a_subgraph_is_moved_inside_its_node(kind: str, how: str) -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    result = run(Parent(samples, client, kind).app, how, {"log": []})
    assert [name for name in samples.ran if name != "beside"] == ["before", *RESCUED, "after"]
    assert samples.ran.count("beside") == 1
    assert result["refund_request"] == "order 17"
    story = client.story("refund_graph")
    assert story.count("graph_started") == 1 and story[-1] == "graph_completed"
    assert not client.of("node_failed", graph="order_graph")
    if kind == "subgraph":
        assert client.story("order_graph")[-1] == "graph_completed"
        runs = {(event["graph"], event["run_id"]) for event in client.events}
        assert len(runs) == 2


@pytest.mark.parametrize("kind", ["subgraph", "as_node"])
def test_a_subgraph_is_moved_on_a_saver_that_serialises(kind: str) -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    with SqliteSaver.from_conn_string(":memory:") as saver:
        run(Parent(samples, client, kind, saver).app, "invoke", {"log": []})
    assert [name for name in samples.ran if name != "beside"] == ["before", *RESCUED, "after"]


@pytest.mark.parametrize("kind", ["root", "subgraph", "as_node"])
def test_an_asynchronous_saver_is_only_awaited(kind: str) -> None:
    async def go() -> None:
        async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            app = root(samples, client, saver) if kind == "root" else Parent(samples, client, kind, saver).app
            await app.ainvoke({"log": []}, CONFIG)

    samples, client = Samples(), FakeClient(DEGRADE)
    asyncio.run(go())
    assert [name for name in samples.ran if name in RESCUED] == RESCUED


@pytest.mark.parametrize("kind", ["root", "subgraph", "as_node"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_is_moved_however_late_its_checkpoints_are_written(kind: str, durability: Any) -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    app = root(samples, client) if kind == "root" else Parent(samples, client, kind).app
    result = app.invoke({"log": []}, CONFIG, durability=durability)
    assert [name for name in samples.ran if name in RESCUED] == RESCUED
    assert result["refund_request"] == "order 17"


@pytest.mark.parametrize("kind", ["root", "subgraph", "as_node"])
@pytest.mark.parametrize("own", [InMemorySaver(), False, True])
def test_a_run_goes_on_on_its_own_checkpoints_whatever_the_other_graph_has(kind: str, own: Any) -> None:
    samples, client, saver = Samples(), FakeClient(DEGRADE), InMemorySaver()
    degraded = samples.degraded(checkpointer=own)
    samples.degraded = lambda **compile: degraded  # type: ignore[method-assign]
    app = root(samples, client, saver) if kind == "root" else Parent(samples, client, kind, saver).app
    result = app.invoke({"log": []}, CONFIG)
    assert [name for name in samples.ran if name in RESCUED] == RESCUED
    assert result["refund_request"] == "order 17"


@pytest.mark.parametrize("own", [False, True])
def test_a_subgraph_that_keeps_its_checkpoints_elsewhere_fails_as_without_reflex(own: bool) -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    refund = samples.refund(checkpointer=own)
    samples.refund = lambda **compile: refund  # type: ignore[method-assign]
    with pytest.raises(ValidationError) as raised:
        Parent(samples, client, "subgraph").app.invoke({"log": []}, CONFIG)
    assert raised.value is samples.error
    assert not client.of("override_applied")


@pytest.mark.parametrize("kind", ["subgraph", "as_node"])
def test_a_stream_of_subgraphs_goes_on_in_the_same_namespace(kind: str) -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    app = Parent(samples, client, kind).app
    chunks = list(app.stream({"log": []}, CONFIG, stream_mode="updates", subgraphs=True))
    inside = {namespace for namespace, update in chunks if set(update) & set(RESCUED)}
    assert len(inside) == 1
    assert [next(iter(update)) for namespace, update in chunks if namespace] == [
        "identify_order",
        "request_evidence",
        "log_refund_request",
        "hand_to_person",
    ]


@pytest.mark.parametrize("kind", ["root", "subgraph", "as_node"])
@pytest.mark.parametrize("how", WAYS)
def test_without_an_intervention_the_original_exception_comes_out(kind: str, how: str) -> None:
    samples, client = Samples(), FakeClient(None)
    app = root(samples, client) if kind == "root" else Parent(samples, client, kind).app
    with pytest.raises(Exception) as raised:
        run(app, how, {"log": []})
    assert raised.value is samples.error
    frames = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert frames[-2] == "evaluate" and "_rescue" not in frames
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    ignored = client.of("override_ignored", graph="refund_graph")
    assert [event["reason"] for event in ignored] == ["budget_expired"]


@pytest.mark.parametrize("sleeps", [True, False])
def test_a_failure_on_its_way_up_is_waited_for_once(sleeps: bool) -> None:
    """Whether nothing came, or the answer was no at once."""
    samples, client = Samples(), FakeClient(None, sleeps=sleeps)
    with pytest.raises(Exception):
        run(Parent(samples, client, "subgraph").app, "invoke", {"log": []})
    assert [wait[1] for wait in client.waits] == ["refund_graph"]


def test_the_processor_sees_why_it_is_ignored() -> None:
    resume = DEGRADE.resume
    assert resume is not None
    cases = {
        "unknown_schema": replace(DEGRADE, schema_ref="other_graph:v9"),
        "incompatible unknown_entry_point": replace(DEGRADE, entry_point="nowhere"),
        "incompatible compatible_from": replace(DEGRADE, resume=replace(resume, compatible_from=["refund_graph:v0"])),
        "incompatible missing_channels": replace(
            DEGRADE, resume=replace(resume, requires_channels=["evidence_analysis"])
        ),
        "incompatible not_reached": replace(DEGRADE, resume=replace(resume, after="issue_refund")),
    }
    for reason, override in cases.items():
        samples, client, saver = Samples(), FakeClient(override), InMemorySaver()
        with pytest.raises(Exception) as raised:
            root(samples, client, saver).invoke({"log": []}, CONFIG)
        assert raised.value is samples.error
        event = client.of("override_ignored")[0]
        assert " ".join(filter(None, (event["reason"], event.get("detail")))) == reason
        assert event["override_id"] == "ovr_1" and event["schema_ref"] == "refund_graph:v1"
        # The thread is as without Reflex: the failed node runs again, and nothing before it.
        state = samples.refund(checkpointer=saver).get_state(CONFIG)
        assert state.next == ("evaluate_evidence",)


def test_after_a_node_where_no_entry_point_is_given() -> None:
    for kind in ("root", "subgraph", "as_node"):
        samples = Samples()
        client = FakeClient(replace(DEGRADE, entry_point=None))
        app = root(samples, client) if kind == "root" else Parent(samples, client, kind).app
        run(app, "invoke", {"log": []})
        assert [name for name in samples.ran if name in RESCUED] == RESCUED


def test_channels_are_reset_where_the_override_says_so() -> None:
    resume = DEGRADE.resume
    assert resume is not None
    for entry_point in ("log_refund_request", None):
        samples = Samples()
        override = replace(DEGRADE, entry_point=entry_point, resume=replace(resume, reset_channels=["log", "evidence"]))
        result = root(samples, FakeClient(override)).invoke({"log": ["given"]}, CONFIG)
        assert result["log"] == ["log_refund_request", "hand_to_person"]
        assert result["evidence"] is None and result["order"] == {"id": 17}


@pytest.mark.parametrize("kind", ["root", "subgraph"])
def test_a_failure_on_the_degraded_graph_goes_on_to_the_chained_one(kind: str) -> None:
    samples = Samples(fails_in_degraded=True)
    chained = FakeOverride("manual_refund_graph:v1", "open_support_case", FakeResume(None, ["order"]), attempt=1)

    def answer(client: FakeClient, session_id: str, graph: str) -> FakeOverride:
        return chained if client.of("node_failed", node="log_refund_request", route="degraded") else DEGRADE

    client = FakeClient(answer)
    app = root(samples, client) if kind == "root" else Parent(samples, client, kind).app
    builder = StateGraph(State)
    builder.add_node("open_support_case", samples.node("open_support_case"))
    builder.add_edge(START, "open_support_case")
    app._graphs.register("manual_refund_graph:v1", builder.compile(), graph="refund_graph")
    result = run(app, "invoke", {"log": []})
    assert [name for name in samples.ran if name not in ("before", "beside", "after")] == [
        *RESCUED[:-1],
        "open_support_case",
    ]
    assert result["order"] == {"id": 17}
    assert [event["override_attempt"] for event in client.of("override_applied")] == [0, 1]
    assert client.of("graph_completed", graph="refund_graph")[0]["schema_ref"] == "manual_refund_graph:v1"


def test_a_failing_degraded_graph_without_another_raises_its_own_exception() -> None:
    samples, client = Samples(fails_in_degraded=True), FakeClient(DEGRADE)
    with pytest.raises(RuntimeError, match="no case system"):
        root(samples, client).invoke({"log": []}, CONFIG)
    assert len(client.of("override_applied")) == 1
    assert samples.ran.count("log_refund_request") == 1


def test_nothing_is_waited_for_where_nothing_could_be_moved() -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    app = ReflexGraph(client, samples.graphs(), "refund_graph:v1", SETTINGS)
    with pytest.raises(Exception) as raised:
        app.invoke({"log": []}, CONFIG)
    assert raised.value is samples.error and not client.waits


def test_what_finished_beside_the_failed_node_is_kept() -> None:
    samples, client = Samples(), FakeClient(FakeOverride("degraded:v1", "late"))
    finished = threading.Event()

    class Saver(InMemorySaver):
        """Tells when what the quick node wrote is kept."""

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            super().put_writes(config, writes, task_id, task_path)
            if any(channel == "evidence" for channel, _ in writes):
                finished.set()

    def fail(state: State) -> dict[str, Any]:
        assert finished.wait(60)
        raise ValueError("bad")

    def graph(**compile: Any) -> Any:
        builder = StateGraph(State)
        builder.add_node("quick", samples.node("quick", evidence={"photo": 2}))
        builder.add_node("failing", fail)
        builder.add_edge(START, "quick")
        builder.add_edge(START, "failing")
        return builder.compile(**compile)

    late = StateGraph(State)
    late.add_node("late", samples.node("late"))
    late.add_edge(START, "late")
    for kind in ("root", "nested"):
        samples.ran.clear()
        finished.clear()
        graphs = Graphs()
        graphs.register("original:v1", graph(checkpointer=Saver() if kind == "root" else None))
        graphs.register("degraded:v1", late.compile(), graph="original")
        app: Any = ReflexGraph(client, graphs, "original:v1", SETTINGS)
        if kind == "nested":
            parent = StateGraph(State)
            parent.add_node("inner", app.as_node())
            parent.add_edge(START, "inner")
            app = parent.compile(checkpointer=Saver())
        result = app.invoke({"log": []}, CONFIG)
        assert samples.ran == ["quick", "late"]
        assert result["evidence"] == {"photo": 2}


def test_an_interrupted_degraded_graph_is_resumed_by_another_process() -> None:
    def ask(state: State) -> dict[str, Any]:
        return {"log": [interrupt("may I?")]}

    def graphs(samples: Samples) -> Graphs:
        asking = StateGraph(State)
        asking.add_node("request_evidence", samples.node("degraded request_evidence"))
        asking.add_node("log_refund_request", ask)
        asking.add_node("hand_to_person", samples.node("hand_to_person"))
        asking.add_edge(START, "request_evidence")
        asking.add_edge("request_evidence", "log_refund_request")
        asking.add_edge("log_refund_request", "hand_to_person")
        graphs = Graphs()
        graphs.register("refund_graph:v1", samples.refund())
        graphs.register("degraded_refund_graph:v1", asking.compile(), graph="refund_graph")
        return graphs

    for kind in ("root", "subgraph", "as_node"):
        saver = InMemorySaver()

        def process(client: FakeClient, samples: Samples, kind: str = kind, saver: Any = saver) -> Any:
            known = graphs(samples)
            refund = known.get("refund_graph:v1")
            assert refund is not None
            if kind == "root":
                rooted = Graphs()
                rooted.register("refund_graph:v1", samples.refund(checkpointer=saver))
                degraded = known.get("degraded_refund_graph:v1")
                assert degraded is not None
                rooted.register("degraded_refund_graph:v1", degraded.compiled, graph="refund_graph")
                return ReflexGraph(client, rooted, "refund_graph:v1", SETTINGS)
            builder = StateGraph(State)
            inner: Any = refund.compiled
            if kind == "as_node":
                inner = ReflexGraph(client, known, "refund_graph:v1", SETTINGS).as_node()
            builder.add_node("refund", inner)
            builder.add_edge(START, "refund")
            compiled = builder.compile(checkpointer=saver)
            if kind == "as_node":
                return compiled
            known.register("order_graph:v1", compiled)
            return ReflexGraph(client, known, "order_graph:v1", SETTINGS)

        first, samples = FakeClient(DEGRADE), Samples()
        result = process(first, samples).invoke({"log": []}, CONFIG)
        assert [one.value for one in result["__interrupt__"]] == ["may I?"]
        assert not first.of("graph_completed") and not first.of("node_failed", node="log_refund_request")
        second, later = FakeClient(None), Samples()
        result = process(second, later).invoke(Command(resume="yes"), CONFIG)
        assert later.ran == ["hand_to_person"], kind
        assert result["log"][-2:] == ["yes", "hand_to_person"]
        completed = second.of("graph_completed", graph="refund_graph")
        assert [event["schema_ref"] for event in completed] == ["degraded_refund_graph:v1"]
        assert completed[0]["route"] == "degraded" and completed[0]["override_id"] == "ovr_1"
        assert not second.of("graph_started", graph="refund_graph")
        assert {e["run_id"] for e in second.of("graph_completed")} <= {e["run_id"] for e in first.events}


def test_the_next_run_of_the_thread_is_a_new_run() -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    app = root(samples, client)
    app.invoke({"log": []}, CONFIG)
    samples.total = 3
    samples.ran.clear()
    app.invoke({"log": []}, CONFIG)
    assert samples.ran == ["identify_order", "request_evidence", "evaluate_evidence", "issue_refund"]
    started = client.of("graph_started")
    assert len({event["run_id"] for event in started}) == 2
    assert [event["schema_ref"] for event in client.of("graph_completed")] == [
        "degraded_refund_graph:v1",
        "refund_graph:v1",
    ]


def test_a_failed_run_can_be_tried_again_as_without_reflex() -> None:
    samples, client = Samples(), FakeClient(None)
    app = root(samples, client)
    with pytest.raises(Exception):
        app.invoke({"log": []}, CONFIG)
    samples.total = 3
    samples.ran.clear()
    app.invoke(None, CONFIG)
    assert samples.ran == ["evaluate_evidence", "issue_refund"]
    assert len({event["run_id"] for event in client.events}) == 1
    assert len(client.of("graph_started")) == 2


def test_a_run_on_a_graph_that_is_not_there_any_more_goes_on_with_the_original() -> None:
    saver, samples = InMemorySaver(), Samples()
    builder = StateGraph(State)
    builder.add_node("request_evidence", samples.node("old request_evidence"))
    builder.add_edge(START, "request_evidence")
    old = Graphs()
    old.register("refund_graph:v0", builder.compile(checkpointer=saver, interrupt_before=["request_evidence"]))
    ReflexGraph(FakeClient(), old, "refund_graph:v0").invoke({"log": []}, CONFIG)
    samples.total, client = 3, FakeClient()
    root(samples, client, saver).invoke(None, CONFIG)
    assert samples.ran == ["request_evidence", "evaluate_evidence", "issue_refund"]
    assert {event["schema_ref"] for event in client.events} == {"refund_graph:v1"}


def test_a_subgraph_on_its_own_graph_does_not_inherit_its_parents_override() -> None:
    samples, saver = Samples(total=3), InMemorySaver()
    graphs = samples.graphs()
    refund = graphs.get("refund_graph:v1")
    assert refund is not None
    stop = StateGraph(State)
    stop.add_node("refund", refund.compiled)
    stop.add_edge(START, "refund")
    for version in ("v1", "v2"):
        graphs.register(f"order_graph:{version}", stop.compile(checkpointer=saver), graph="order_graph")
    client = FakeClient()
    client.resolutions["order_graph"] = FakeResolution("order_graph:v2", "degraded", override_id="ovr_c")
    ReflexGraph(client, graphs, "order_graph:v1", SETTINGS).invoke({"log": []}, CONFIG)
    config: Any = {"configurable": {"thread_id": "sess_1"}}
    nested = [saved for saved in saver.list(config) if saved.config["configurable"]["checkpoint_ns"]]
    said: list[Any] = [saved.metadata for saved in nested]
    assert said
    assert {one["reflex_override_id"] for one in said} == {""}
    assert {event.get("override_id") for event in client.events if event["graph"] == "refund_graph"} == {None}
