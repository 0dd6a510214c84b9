"""What real graphs do, and what Reflex is told of it."""

from __future__ import annotations

import asyncio
import operator
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

from reflex_runtime.langgraph import Graphs, Node, ReflexGraph

from .fakes import FakeClient
from .helpers import CONFIG, RETRIES, app_of, chain, fail, ok
from .samples import DEGRADE, Samples, State

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
