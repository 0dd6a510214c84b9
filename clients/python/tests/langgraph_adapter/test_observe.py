"""What real graphs do, and what Reflex is told of it."""

from __future__ import annotations

import asyncio
import json
import logging
import operator
import time
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained, GraphRecursionError, NodeTimeoutError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import RunControl
from langgraph.types import Command, RetryPolicy, Send, TimeoutPolicy, interrupt

from reflex_runtime.langgraph import Graphs, Identity, Node, PausedError, ReflexGraph, Settings
from reflex_runtime.langgraph.quiet import forget_said

from .fakes import FakeClient, FakeOverride, FakeResolution
from .samples import DEGRADE, RESCUED, Samples, State

CONFIG: Any = {"configurable": {"thread_id": "sess_1", "tenant": "t-7", "region": "eu-west"}}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    forget_said()


def app_of(builder: Any, client: FakeClient, *, settings: Settings | None = None, **facts: Node) -> ReflexGraph:
    graphs = Graphs()
    graphs.register("g:v1", builder.compile(checkpointer=InMemorySaver()), nodes=facts)
    return ReflexGraph(client, graphs, "g:v1", settings or Settings(budget_seconds=0.2))


def chain(**nodes: Any) -> Any:
    """A graph whose nodes follow each other; a node is a function, or (function, keywords)."""
    builder = StateGraph(State)
    before = START
    for name, node in nodes.items():
        function, keywords = node if isinstance(node, tuple) else (node, {})
        builder.add_node(name, function, **keywords)
        builder.add_edge(before, name)
        before = name
    return builder


def ok(state: State) -> dict[str, Any]:
    return {"log": ["ok"]}


def fail(state: State) -> dict[str, Any]:
    raise ValueError("bad input")


RETRIES = RetryPolicy(max_attempts=3, initial_interval=0.001, jitter=False, retry_on=ValueError)


# Attempts


def test_an_attempt_that_will_be_tried_again_is_in_progress() -> None:
    tries: list[int] = []

    def third_time(state: State) -> dict[str, Any]:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return {"log": ["done"]}

    client = FakeClient()
    app_of(chain(work=(third_time, {"retry_policy": RETRIES})), client).invoke({"log": []}, CONFIG)
    failed = client.of("node_failed")
    assert [(e["attempt"], e["max_attempts"], e["retry_state"]) for e in failed] == [
        (1, 3, "in_progress"),
        (2, 3, "in_progress"),
    ]
    assert [event["attempt"] for event in client.of("node_started")] == [1, 2, 3]
    assert client.of("node_completed")[0]["attempt"] == 3
    assert not client.of("override_ignored")


@pytest.mark.parametrize(
    ("policy", "state", "attempts"),
    [
        (None, "no_policy", 1),
        (RETRIES, "max_attempts", 3),
        (RetryPolicy(max_attempts=3, retry_on=KeyError), "non_retryable", 1),
        ([RetryPolicy(retry_on=(KeyError,)), RETRIES], "max_attempts", 3),
        (RetryPolicy(max_attempts=2, initial_interval=0.001, jitter=False, retry_on=lambda _: True), "max_attempts", 2),
    ],
)
def test_retries_that_are_spent_say_how(policy: Any, state: str, attempts: int) -> None:
    client = FakeClient()
    with pytest.raises(ValueError, match="bad input"):
        app_of(chain(work=(fail, {"retry_policy": policy})), client).invoke({"log": []}, CONFIG)
    failed = client.of("node_failed")
    assert len(failed) == attempts
    assert (failed[-1]["retry_state"], failed[-1]["max_attempts"]) == (state, attempts)
    assert failed[-1]["error"] == {"class": "ValueError", "message": "bad input"}
    assert client.of("graph_failed")[0]["error"]["class"] == "ValueError"


def test_a_node_that_runs_out_of_time_is_known_by_its_error() -> None:
    async def slow(state: State) -> dict[str, Any]:
        await asyncio.sleep(5)
        return {}

    async def sibling(state: State) -> dict[str, Any]:
        await asyncio.sleep(5)
        return {}

    builder = StateGraph(State)
    policy = RetryPolicy(max_attempts=2, initial_interval=0.001, jitter=False)
    builder.add_node("slow", slow, timeout=TimeoutPolicy(run_timeout=0.05), retry_policy=policy)
    builder.add_node("sibling", sibling)
    builder.add_edge(START, "slow")
    builder.add_edge(START, "sibling")
    client = FakeClient()
    with pytest.raises(NodeTimeoutError):
        asyncio.run(app_of(builder, client).ainvoke({"log": []}, CONFIG))
    failed = client.of("node_failed")
    assert [(e["node"], e["attempt"], e["retry_state"]) for e in failed] == [
        ("slow", 1, "in_progress"),
        ("slow", 2, "timeout"),
    ]
    assert {event["error"]["class"] for event in failed} == {"langgraph.errors.NodeTimeoutError"}


def test_a_failure_that_the_graph_handles_is_not_the_end() -> None:
    def handler(state: State) -> dict[str, Any]:
        return {"log": ["handled"]}

    client = FakeClient(DEGRADE)
    result = app_of(chain(work=(fail, {"error_handler": handler}), after=ok), client).invoke({"log": []}, CONFIG)
    assert "handled" in result["log"]
    assert [event["retry_state"] for event in client.of("node_failed")] == ["in_progress"]
    # Failures alone may have made an override; it must not meet the session's next run.
    assert client.story()[-2:] == ["graph_completed", "override_ignored"]
    assert client.ignored == [("budget_expired", None)]
    assert not client.waits


def test_the_recursion_limit_is_the_graphs_failure() -> None:
    builder = StateGraph(State)
    builder.add_node("again", ok)
    builder.add_edge(START, "again")
    builder.add_edge("again", "again")
    client = FakeClient()
    with pytest.raises(GraphRecursionError):
        app_of(builder, client).invoke({"log": []}, CONFIG | {"recursion_limit": 3})
    assert not client.of("node_failed")
    error = client.of("graph_failed")[0]["error"]
    assert (error["class"], error["code"]) == ("langgraph.errors.GraphRecursionError", "GRAPH_RECURSION_LIMIT")
    assert len(client.waits) == 1


# What is no failure


@pytest.mark.parametrize("how", ["interrupt", "before", "after"])
def test_an_interrupted_run_has_neither_failed_nor_completed(how: str) -> None:
    def ask(state: State) -> dict[str, Any]:
        return {"log": [interrupt("?") if how == "interrupt" else "asked"]}

    graphs = Graphs()
    halts: dict[str, Any] = {"before": {"interrupt_before": ["ask"]}, "after": {"interrupt_after": ["ask"]}}
    compiled = chain(ask=ask, then=ok).compile(checkpointer=InMemorySaver(), **halts.get(how, {}))
    graphs.register("g:v1", compiled)
    client = FakeClient(DEGRADE)
    app = ReflexGraph(client, graphs, "g:v1")
    app.invoke({"log": []}, CONFIG)
    assert not client.of("node_failed")
    assert not client.of("graph_failed")
    assert not client.of("graph_completed")
    assert not client.waits
    result = app.invoke(Command(resume="yes") if how == "interrupt" else None, CONFIG)
    assert result["log"][-1] == "ok"
    assert len(client.of("graph_started")) == 1
    assert len(client.of("graph_completed")) == 1
    assert len({event["run_id"] for event in client.events}) == 1


def test_a_command_for_the_parent_completes_the_subgraph() -> None:
    def leave(state: State) -> Any:
        return Command(goto="after", update={"log": ["left"]}, graph=Command.PARENT)

    graphs = Graphs()
    inner = chain(leave=leave).compile()
    graphs.register("inner:v1", inner)
    builder = StateGraph(State)
    builder.add_node("inner", inner)
    builder.add_node("after", ok)
    builder.add_edge(START, "inner")
    graphs.register("outer:v1", builder.compile(checkpointer=InMemorySaver()))
    client = FakeClient(DEGRADE)
    result = ReflexGraph(client, graphs, "outer:v1").invoke({"log": []}, CONFIG)
    assert result["log"] == ["left", "ok"]
    assert len(client.of("graph_completed", graph="inner")) == 1
    assert not client.of("graph_failed")


def test_a_cancelled_run_is_not_waited_for() -> None:
    async def slow(state: State) -> dict[str, Any]:
        await asyncio.sleep(5)
        return {}

    client = FakeClient(DEGRADE)

    async def cancel() -> None:
        task = asyncio.create_task(app_of(chain(slow=slow), client).ainvoke({"log": []}, CONFIG))
        await asyncio.sleep(0.1)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
    assert not client.waits
    assert not client.of("node_failed")


def test_a_drained_run_is_no_failure() -> None:
    control = RunControl()

    def drain(state: State) -> dict[str, Any]:
        control.request_drain("deploy")
        return {"log": ["drained"]}

    client = FakeClient(DEGRADE)
    app = app_of(chain(one=drain, two=ok), client)
    with pytest.raises(GraphDrained):
        app.invoke({"log": []}, CONFIG, control=control)
    assert not client.of("graph_failed")
    assert not client.of("graph_completed")
    assert not client.waits
    assert app.invoke(None, CONFIG)["log"] == ["drained", "ok"]
    assert len(client.of("graph_started")) == len(client.of("graph_completed")) == 1


def test_a_stream_that_is_left_is_not_a_failure() -> None:
    client = FakeClient(DEGRADE)
    stream = app_of(chain(one=ok, two=ok), client).stream({"log": []}, CONFIG, stream_mode="updates")
    assert next(iter(stream)) == {"one": {"log": ["ok"]}}
    stream.close()  # type: ignore[attr-defined]
    assert not client.of("graph_failed")
    assert not client.waits


# Tools and models


@tool
def broken(x: int) -> str:
    """Never works."""
    raise ConnectionError("no route")


@tool
def works(x: int) -> str:
    """Always works."""
    return "fine"


def test_tools_that_fail_are_told_once_whether_they_raise_or_say_so() -> None:
    calls = [
        {"name": "broken", "args": {"x": 1}, "id": "c1"},
        {"name": "works", "args": {"x": 1}, "id": "c2"},
        {"name": "broken", "args": {"x": "text"}, "id": "c3"},
        {"name": "nowhere", "args": {}, "id": "c4"},
    ]
    builder = StateGraph(MessagesState)
    builder.add_node("call", lambda state: {"messages": [AIMessage("", tool_calls=calls)]})
    builder.add_node("tools", ToolNode([broken, works], handle_tool_errors=True))
    builder.add_edge(START, "call")
    builder.add_edge("call", "tools")
    client = FakeClient()
    result = app_of(builder, client).invoke({"messages": []}, CONFIG)
    assert [message.status for message in result["messages"][1:]] == ["error", "success", "error", "error"]
    assert {(e["node"], e["operation"]) for e in client.of("tool_call_completed")} == {("tools", "works")}
    failed = {event["error"].get("class") or event["error"]["code"]: event for event in client.of("tool_call_failed")}
    assert len(client.of("tool_call_failed")) == 3
    assert failed["ConnectionError"]["operation"] == "broken"
    assert failed["tool_message_error"]["operation"] == "nowhere"
    assert any("ValidationError" in name for name in failed)
    assert all(event["attempt"] == 1 and event["node"] == "tools" for event in client.of("tool_call_failed"))
    assert client.of("node_completed", node="tools")


def test_a_model_that_fails_is_told_with_the_attempt_of_its_node() -> None:
    class Down(FakeListChatModel):
        def _call(self, *args: Any, **kwargs: Any) -> str:
            raise TimeoutError("model")

    def ask(state: State) -> dict[str, Any]:
        return {"log": [str(Down(responses=["x"]).invoke([HumanMessage("?")]).content)]}

    client = FakeClient()
    with pytest.raises(TimeoutError):
        app_of(chain(ask=ask), client).invoke({"log": []}, CONFIG)
    failed = client.of("model_call_failed")
    assert [(e["node"], e["attempt"], e["error"]["class"]) for e in failed] == [("ask", 1, "TimeoutError")]
    assert client.of("node_failed")[0]["attempt"] == 1


# Artifacts and acts


def test_artifacts_are_told_when_they_are_there_and_when_they_are_not() -> None:
    facts = Node(artifact="evidence", required=True)
    for update, present in (({"evidence": {"photo": 1}}, True), ({"evidence": None}, False), ({}, False)):
        client = FakeClient()
        app_of(chain(work=lambda state, update=update: update or {"log": []}), client, work=facts).invoke(
            {"log": []}, CONFIG
        )
        produced = [event["artifact"] for event in client.of("artifact_produced")]
        assert produced == ([{"name": "evidence", "present": True}] if present else [])
    client = FakeClient()
    with pytest.raises(ValueError, match="bad"):
        app_of(chain(work=fail), client, work=facts).invoke({"log": []}, CONFIG)
    assert client.of("node_failed")[0]["artifact"] == {"name": "evidence", "present": False}


def test_an_artifact_in_a_command_counts() -> None:
    client = FakeClient()
    builder = chain(work=lambda state: Command(update={"evidence": {"photo": 1}}, goto=END))
    app_of(builder, client, work=Node(artifact="evidence")).invoke({"log": []}, CONFIG)
    assert len(client.of("artifact_produced")) == 1


def test_acts_are_intended_then_confirmed_failed_or_ambiguous() -> None:
    facts = Node(mutating=True, irreversible=True, idempotency_key="pay_{order_id}", dependency="payments")

    def timeout(state: State) -> dict[str, Any]:
        raise TimeoutError

    for function, end in ((ok, "action_confirmed"), (fail, "action_failed"), (timeout, "action_ambiguous")):
        client = FakeClient()
        app = app_of(chain(order=lambda state: {"order": {"id": 17}}, pay=function), client, pay=facts)
        if end == "action_confirmed":
            app.invoke({"log": []}, CONFIG)
        else:
            with pytest.raises((ValueError, TimeoutError)):
                app.invoke({"log": []}, CONFIG)
        acts = [event for event in client.events if event["type"].startswith("action_")]
        assert [act["type"] for act in acts] == ["action_intended", end]
        for act in acts:
            assert act["idempotency_key"] == act["operation"] == "pay_17"
            assert act["dependency"] == "payments"
            assert act["side_effect"] is True
        failed = client.of("node_failed")
        if end == "action_ambiguous":
            assert failed[0]["failure"] == {"class": "ambiguous"}
            assert failed[0]["side_effect"] is True
        elif end == "action_failed":
            assert "failure" not in failed[0]
            assert failed[0]["side_effect"] is True
        else:
            assert client.of("node_completed", node="pay")


# Branches


@pytest.mark.parametrize(("word", "told"), [("ambiguous", True), ("permanent", False)])
def test_an_exception_may_know_better_whether_it_happened(word: str, told: bool) -> None:
    class ChargeError(TimeoutError):
        reflex_failure_class = word

    def charge(state: State) -> dict[str, Any]:
        raise ChargeError

    client = FakeClient()
    with pytest.raises(ChargeError):
        app_of(chain(charge=charge), client, charge=Node(mutating=True)).invoke({"log": []}, CONFIG)
    assert ("failure" in client.of("node_failed")[0]) is told


def test_parallel_branches_have_attempts_of_their_own() -> None:
    seen: list[int] = []

    def flaky(state: Any) -> dict[str, Any]:
        seen.append(state["n"])
        if seen.count(state["n"]) == 1 and state["n"] % 2:
            raise ValueError("odd")
        return {"log": [str(state["n"])]}

    builder = StateGraph(State)
    builder.add_node("flaky", flaky, retry_policy=RETRIES)
    builder.add_conditional_edges(START, lambda state: [Send("flaky", {"n": n}) for n in range(6)], ["flaky"])
    client = FakeClient()
    app_of(builder, client).invoke({"log": []}, CONFIG)
    assert [event["attempt"] for event in client.of("node_failed")] == [1, 1, 1]
    assert sorted(event["attempt"] for event in client.of("node_completed")) == [1, 1, 1, 2, 2, 2]


def test_one_subgraph_in_two_branches_is_two_runs() -> None:
    samples = Samples()
    graphs = samples.graphs()
    refund = graphs.get("refund_graph:v1")
    assert refund is not None

    class Log(TypedDict, total=False):
        log: Annotated[list[str], operator.add]

    builder = StateGraph(Log)
    builder.add_node("left", refund.compiled)
    builder.add_node("right", refund.compiled)
    builder.add_edge(START, "left")
    builder.add_edge(START, "right")
    graphs.register("outer:v1", builder.compile(checkpointer=InMemorySaver()))
    client = FakeClient(DEGRADE)
    ReflexGraph(client, graphs, "outer:v1").invoke({"log": []}, CONFIG)
    runs = {event["run_id"] for event in client.of("graph_completed", graph="refund_graph")}
    assert len(runs) == 2
    assert samples.ran.count("identify_order") == 2
    assert samples.ran.count("log_refund_request") == 2


def test_a_failure_in_a_graph_that_is_not_registered_is_its_nodes() -> None:
    inner = chain(deep=fail).compile()
    client = FakeClient()
    with pytest.raises(ValueError, match="bad"):
        app_of(chain(inner=inner), client).invoke({"log": []}, CONFIG)
    assert {event.get("node") for event in client.events} <= {None, "inner"}
    assert len(client.of("node_failed")) == 1


# Resolution


def cohort(schema_ref: str, **said: Any) -> FakeResolution:
    return FakeResolution(schema_ref, "degraded", override_id="ovr_c", override_attempt=2, reason="cohort", **said)


@pytest.mark.parametrize("nested", [False, True])
def test_a_cohort_override_chooses_the_graph_at_the_start(nested: bool) -> None:
    samples, client = Samples(), FakeClient()
    client.resolutions["refund_graph"] = cohort("degraded_refund_graph:v1")
    graphs = samples.graphs(checkpointer=None if nested else InMemorySaver())
    name = "refund_graph:v1"
    if nested:
        refund = graphs.get(name)
        assert refund is not None
        name = "outer:v1"
        graphs.register(name, chain(refund=refund.compiled).compile(checkpointer=InMemorySaver()))
    settings = Settings(app_version="6.4.1", attributes={"model": "m-1"})
    result = ReflexGraph(client, graphs, name, settings).invoke({"log": []}, CONFIG)
    assert samples.ran == [
        "degraded identify_order",
        "degraded request_evidence",
        "log_refund_request",
        "hand_to_person",
    ]
    assert result["refund_request"] == "order 17"
    context = next(context for graph, context in client.resolved if graph == "refund_graph")
    assert context.pop("run_id")
    assert context == {
        "session_id": "sess_1",
        "phase": "start",
        "graph_version": "v1",
        "tenant": "t-7",
        "region": "eu-west",
        "app_version": "6.4.1",
        "attributes": {"model": "m-1"},
    }
    for event in client.events:
        if event["graph"] == "refund_graph":
            assert event["route"] == "degraded"
            assert event["schema_ref"] == "degraded_refund_graph:v1"
            assert (event["override_id"], event["override_attempt"]) == ("ovr_c", 2)
            assert event["graph_version"] == "v1"


def test_a_schema_that_is_not_there_leaves_the_original() -> None:
    samples, client = Samples(total=3), FakeClient()
    client.resolutions["refund_graph"] = cohort("other:v7")
    ReflexGraph(client, samples.graphs(), "refund_graph:v1").invoke({"log": []}, CONFIG)
    assert samples.ran[-1] == "issue_refund"
    ignored = client.of("override_ignored")
    assert [(e["reason"], e["override_id"], e["route"]) for e in ignored] == [("unknown_schema", "ovr_c", "primary")]


def test_a_paused_session_waits() -> None:
    samples, client = Samples(), FakeClient()
    client.resolutions["refund_graph"] = cohort("refund_graph:v1", kind="pause")
    with pytest.raises(PausedError, match="ovr_c"):
        ReflexGraph(client, samples.graphs(), "refund_graph:v1").invoke({"log": []}, CONFIG)
    assert samples.ran == []


def test_a_pause_at_a_failure_leaves_the_failure() -> None:
    samples, client = Samples(), FakeClient(FakeOverride(None, kind="pause"))
    with pytest.raises(Exception) as raised:
        ReflexGraph(client, samples.graphs(checkpointer=InMemorySaver()), "refund_graph:v1").invoke({"log": []}, CONFIG)
    assert raised.value is samples.error


def test_an_operators_deny_is_above_the_override() -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    resolutions = iter([FakeResolution("refund_graph:v1"), FakeResolution("refund_graph:v1", reason="deny")])
    client.resolve = lambda graph, context=None: next(resolutions)  # type: ignore[method-assign]
    with pytest.raises(Exception) as raised:
        ReflexGraph(client, samples.graphs(checkpointer=InMemorySaver()), "refund_graph:v1").invoke({"log": []}, CONFIG)
    assert raised.value is samples.error
    assert not client.of("override_applied")


def test_who_runs_can_be_said_otherwise() -> None:
    client = FakeClient()
    settings = Settings(identify=lambda config: Identity("s-9", tenant="t-1", attributes={"plan": "free"}))
    app_of(chain(one=ok), client, settings=settings).invoke({"log": []}, CONFIG)
    assert {(e["session_id"], e["tenant"], e["attributes"]["plan"]) for e in client.events} == {("s-9", "t-1", "free")}


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
    def slow(state: State) -> dict[str, Any]:
        time.sleep(0.05)
        return {"log": ["slow"]}

    client = FakeClient()
    app_of(chain(quick=ok, slow=slow), client).invoke({"log": []}, CONFIG)
    node = {event["node"]: event["latency_ms"] for event in client.of("node_completed")}
    assert node["slow"] >= 50 > node["quick"]
    assert client.of("graph_completed")[0]["latency_ms"] >= node["slow"]
