"""Graphs that are moved: a root, and a parent with the refund graph as a node."""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from reflex_runtime.langgraph import ReflexGraph, Settings

from .fakes import FakeClient
from .samples import Samples, State

CONFIG: Any = {"configurable": {"thread_id": "sess_1", "tenant": "t-7"}}
SETTINGS = Settings(budget_seconds=0.2)


def root(samples: Samples, client: FakeClient, saver: Any = None) -> ReflexGraph:
    return ReflexGraph(client, samples.graphs(checkpointer=saver or InMemorySaver()), "refund_graph:v1", SETTINGS)


class Parent:
    """An order graph: before, then (refund beside another branch), then after."""

    def __init__(self, samples: Samples, client: FakeClient, kind: str, saver: Any = None) -> None:
        graphs = samples.graphs()
        refund = graphs.get("refund_graph:v1")
        assert refund is not None
        node: Any = refund.compiled
        if kind == "as_node":
            node = ReflexGraph(client, graphs, "refund_graph:v1", SETTINGS).as_node()
        builder = StateGraph(State)
        builder.add_node("before", samples.node("before"))
        builder.add_node("refund", node)
        builder.add_node("beside", samples.node("beside"))
        builder.add_node("after", samples.node("after"))
        builder.add_edge(START, "before")
        builder.add_edge("before", "refund")
        builder.add_edge("before", "beside")
        builder.add_edge("refund", "after")
        compiled = builder.compile(name="order_graph", checkpointer=saver or InMemorySaver())
        self.app: Any = compiled
        if kind == "subgraph":
            graphs.register("order_graph:v1", compiled)
            self.app = ReflexGraph(client, graphs, "order_graph:v1", SETTINGS)


def run(app: Any, how: str, given: Any, config: Any = CONFIG) -> Any:
    async def collect() -> Any:
        return [chunk async for chunk in app.astream(given, config, stream_mode="values")][-1]

    if how == "invoke":
        return app.invoke(given, config)
    if how == "stream":
        return list(app.stream(given, config, stream_mode="values"))[-1]
    return asyncio.run(app.ainvoke(given, config) if how == "ainvoke" else collect())


WAYS = ["invoke", "ainvoke", "stream", "astream"]
