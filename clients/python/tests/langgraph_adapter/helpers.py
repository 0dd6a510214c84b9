"""Small graphs, and what runs them."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy

from reflex_runtime.langgraph import Graphs, Node, ReflexGraph, Settings

from .fakes import FakeClient
from .samples import State

CONFIG: Any = {"configurable": {"thread_id": "sess_1", "tenant": "t-7", "region": "eu-west"}}


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
