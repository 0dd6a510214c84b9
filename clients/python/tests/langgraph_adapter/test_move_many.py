"""Many runs, many graphs, many moves: each by itself."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from pydantic import ValidationError

from reflex_runtime.langgraph import ReflexGraph
from reflex_runtime.langgraph.run import going_on

from .fakes import FakeClient, FakeOverride
from .moving import CONFIG, SETTINGS, Parent, root, run
from .samples import DEGRADE, RESCUED, Samples, State


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
def test_a_node_may_call_graphs_by_itself_and_each_call_is_moved_alone(how: str) -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    refund = ReflexGraph(client, samples.graphs(), "refund_graph:v1", SETTINGS)

    def twice(state: State) -> dict[str, Any]:
        results = [refund.invoke({"log": [name]}) for name in ("first", "second")]
        return {"log": [result["log"][0] for result in results], "refund_request": results[1]["refund_request"]}

    async def atwice(state: State) -> dict[str, Any]:
        results = [await refund.ainvoke({"log": [name]}) for name in ("first", "second")]
        return {"log": [result["log"][0] for result in results], "refund_request": results[1]["refund_request"]}

    builder = StateGraph(State)
    builder.add_node("twice", twice if how == "invoke" else atwice)
    builder.add_edge(START, "twice")
    result = run(builder.compile(checkpointer=InMemorySaver()), how, {"log": []})
    assert samples.ran == RESCUED * 2
    assert result == {"log": ["first", "second"], "refund_request": "order 17"}
    assert len({event["run_id"] for event in client.of("override_applied")}) == 2
    assert len(client.of("graph_completed")) == 2


@pytest.mark.parametrize("kind", ["root", "subgraph", "as_node"])
@pytest.mark.parametrize("how", ["threads", "async"])
def test_sessions_side_by_side_do_not_touch_each_other(kind: str, how: str) -> None:
    samples, client = Samples(), FakeClient(DEGRADE)
    app = root(samples, client) if kind == "root" else Parent(samples, client, kind).app
    configs: list[Any] = [{"configurable": {"thread_id": f"s-{number}"}} for number in range(12)]

    async def together() -> list[Any]:
        return list(await asyncio.gather(*(app.ainvoke({"log": []}, config) for config in configs)))

    if how == "async":
        results = asyncio.run(together())
    else:
        with ThreadPoolExecutor(12) as pool:
            results = list(pool.map(lambda config: app.invoke({"log": []}, config), configs))
    assert all(result["refund_request"] == "order 17" for result in results)
    assert samples.ran.count("identify_order") == samples.ran.count("hand_to_person") == 12
    for number in range(12):
        of_session = [event for event in client.events if event["session_id"] == f"s-{number}"]
        assert [event["attempt"] for event in of_session if event["type"] == "node_failed"] == [1, 2, 3]
        assert len([event for event in of_session if event["type"] == "override_applied"]) == 1


def test_a_run_is_not_moved_for_ever() -> None:
    attempts = iter(range(100))

    def answer(client: FakeClient, session_id: str, graph: str) -> FakeOverride:
        return FakeOverride("degraded_refund_graph:v1", "log_refund_request", attempt=next(attempts))

    samples, client = Samples(fails_in_degraded=True), FakeClient(answer)
    with pytest.raises(RuntimeError, match="no case system"):
        root(samples, client).invoke({"log": []}, CONFIG)
    assert len(client.of("override_applied")) == 4
    assert client.ignored[-1] == ("budget_expired", None)


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
def test_a_graph_that_cannot_even_begin_after_a_move_leaves_the_first_exception(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reflex_runtime.langgraph.move.going_on", lambda run: {**going_on(run), "recursion_limit": 0})
    samples, client = Samples(), FakeClient(DEGRADE)
    with pytest.raises(ValidationError) as raised:
        run(root(samples, client), how, {"log": []})
    assert raised.value is samples.error
    assert client.ignored == [("budget_expired", None)]
