"""One invocation: what runs, in which configuration, and where its checkpoint is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph._internal._constants import (
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_RESUMING,
    CONFIG_KEY_SCRATCHPAD,
    CONFIG_KEY_TASK_ID,
)
from langgraph.checkpoint.base import BaseCheckpointSaver

from reflex_runtime.langgraph.observer import Observer
from reflex_runtime.langgraph.registry import AnyGraph
from reflex_runtime.langgraph.scope import Scope


@dataclass(frozen=True)
class Run:
    """What is invoked next."""

    graph: AnyGraph
    input: Any
    config: RunnableConfig
    place: Place
    observer: Observer | None = None
    scope: Scope | None = None
    """None: the adapter could not watch this run, and leaves it alone."""
    moves: int = 0
    cause: BaseException | None = None
    """What failed before the last move."""


@dataclass(frozen=True)
class Place:
    """Where the graph's checkpoints are: the root of a thread, or the namespace of a node of a parent."""

    nested: bool
    namespace: str
    thread_id: str | None
    checkpointer: BaseCheckpointSaver[Any] | None
    resuming: bool

    @property
    def can_move(self) -> bool:
        """Whether what was collected is kept somewhere."""
        return self.checkpointer is not None and self.thread_id is not None

    def config(self, metadata: Mapping[str, Any] | None = None) -> RunnableConfig:
        """Addresses the latest checkpoint: no checkpoint_id. What is written there bears the metadata."""
        configurable: dict[str, Any] = {"thread_id": self.thread_id, "checkpoint_ns": self.namespace}
        if self.nested:
            configurable[CONFIG_KEY_CHECKPOINTER] = self.checkpointer
        return {"configurable": configurable, "metadata": dict(metadata or {})}


def locate(compiled: AnyGraph, config: RunnableConfig) -> tuple[Place, RunnableConfig]:
    """Where a graph runs that is invoked with this configuration, and the configuration that keeps it there.

    LangGraph numbers the graphs that one node invokes: the second has a namespace of its own. A graph that goes on
    after a move must have the namespace it had, so its number is taken once and held.
    """
    configurable = config.get("configurable") or {}
    thread_id = configurable.get("thread_id")
    if CONFIG_KEY_TASK_ID not in configurable:
        own = compiled.checkpointer
        checkpointer = own if isinstance(own, BaseCheckpointSaver) else None
        return Place(False, "", _text(thread_id), checkpointer, False), config
    namespace = str(configurable.get("checkpoint_ns") or "")
    scratchpad = configurable.get(CONFIG_KEY_SCRATCHPAD)
    if scratchpad is not None:
        number = scratchpad.subgraph_counter()
        config = _with(config, {CONFIG_KEY_SCRATCHPAD: replace(scratchpad, subgraph_counter=lambda: number)})
        namespace = f"{namespace}|{number}" if number else namespace
    # A parent's checkpointer goes before a subgraph's own. False wants none; True keeps one history for all runs.
    lent = not isinstance(compiled.checkpointer, bool)
    inherited = configurable.get(CONFIG_KEY_CHECKPOINTER) if lent else None
    checkpointer = inherited if isinstance(inherited, BaseCheckpointSaver) else None
    resuming = bool(configurable.get(CONFIG_KEY_RESUMING))
    return Place(True, namespace, _text(thread_id), checkpointer, resuming), config


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _with(config: RunnableConfig, configurable: Mapping[str, Any]) -> RunnableConfig:
    changed = config.copy()
    changed["configurable"] = {**(config.get("configurable") or {}), **configurable}
    return changed


def watched(config: RunnableConfig, observer: Observer, scope: Scope) -> RunnableConfig:
    """The configuration with the observer in it, and with what the checkpoints must say."""
    changed = config.copy()
    if observer_in(config) is not observer:
        callbacks = config.get("callbacks")
        if isinstance(callbacks, BaseCallbackManager):
            manager = callbacks.copy()
            manager.add_handler(observer, inherit=True)
            changed["callbacks"] = manager
        else:
            changed["callbacks"] = [*(callbacks or []), observer]
    changed["metadata"] = {**(config.get("metadata") or {}), **scope.metadata()}
    return changed


def observer_in(config: RunnableConfig) -> Observer | None:
    """The observer of the graph around this one."""
    callbacks = config.get("callbacks")
    handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks or []
    return next((one for one in handlers if isinstance(one, Observer)), None)


def going_on(run: Run) -> RunnableConfig:
    """The configuration that continues the latest checkpoint of the run's place."""
    if run.place.nested:
        return _with(run.config, {CONFIG_KEY_RESUMING: True})
    changed = run.config.copy()
    changed["configurable"] = {
        name: value for name, value in run.config.get("configurable", {}).items() if name != "checkpoint_id"
    }
    return changed


def runnable_at(place: Place, compiled: AnyGraph, before: AnyGraph) -> AnyGraph:
    """The graph on the checkpoints, and with the store, of the one it goes on for: whatever it was compiled with."""
    wanted: dict[str, Any] = {"checkpointer": None if place.nested else before.checkpointer}
    if compiled.store is None:
        wanted["store"] = before.store
    changed = {name: value for name, value in wanted.items() if getattr(compiled, name) is not value}
    return compiled.copy(update=changed) if changed else compiled


@contextmanager
def outside_the_node() -> Iterator[None]:
    """Within it, calls on a graph's state do not inherit the configuration of the node that is running."""
    token = var_child_runnable_config.set(None)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
