"""`ReflexGraph`: a compiled graph that asks Reflex which schema to run, tells what happens, and is moved on failure."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.types import Command

from reflex_runtime.langgraph.move import Refused, check, move, state_step
from reflex_runtime.langgraph.observer import Observer
from reflex_runtime.langgraph.protocol import Client, Override, Resolution
from reflex_runtime.langgraph.quiet import quietly, say_once
from reflex_runtime.langgraph.registry import AnyGraph, Graphs, Registered
from reflex_runtime.langgraph.run import Place, Run, locate, observer_in, runnable_at, watched
from reflex_runtime.langgraph.scope import Scope
from reflex_runtime.langgraph.settings import PausedError, Settings
from reflex_runtime.langgraph.steps import Step, Steps, adrive, drive

MOVES_MAX = 4
"""Moves of one run; the processor's own limit of interventions of a session is lower by default."""


class ReflexGraph:
    """Runs the graph that `schema_ref` names, or what Reflex resolves instead; call it as the compiled graph.

    Registered graphs that are nodes of this one are resolved, watched and moved by themselves, inside their node: the
    parent never sees their failure. `as_node` does the same in a parent that is not run by a `ReflexGraph`.
    A failed run can be moved only where a checkpointer keeps what it collected.
    """

    def __init__(self, client: Client, graphs: Graphs, schema_ref: str, settings: Settings | None = None) -> None:
        primary = graphs.get(schema_ref)
        if primary is None:
            raise LookupError(f"{schema_ref} is not registered; registered are {', '.join(graphs.schema_refs())}")
        self._client = client
        self._graphs = graphs
        self._primary = primary
        self._settings = settings or Settings()
        self._runnable: dict[str, AnyGraph] = {}

    @property
    def compiled(self) -> AnyGraph:
        """The original graph, with registered subgraphs resolved at run time."""
        return self._runnable_of(self._primary)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """As the compiled graph's, moved where Reflex says so; otherwise its exception as it is."""
        run = self._begin(input, config)
        while True:
            try:
                result = run.graph.invoke(run.input, run.config, **kwargs)
            except BaseException as error:
                moved = self._failed(run, error)
                if moved is None:
                    raise
            else:
                self._completed(run)
                return result
            run = moved

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """As `invoke`."""
        run = await self._abegin(input, config)
        while True:
            try:
                result = await run.graph.ainvoke(run.input, run.config, **kwargs)
            except BaseException as error:
                moved = await self._afailed(run, error)
                if moved is None:
                    raise
            else:
                self._completed(run)
                return result
            run = moved

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        """As the compiled graph's; after a move the stream goes on with what the other graph gives."""
        run = self._begin(input, config)
        while True:
            try:
                yield from run.graph.stream(run.input, run.config, **kwargs)
            except BaseException as error:
                moved = self._failed(run, error)
                if moved is None:
                    raise
            else:
                self._completed(run)
                return
            run = moved

    async def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        """As `stream`."""
        run = await self._abegin(input, config)
        while True:
            try:
                async for chunk in run.graph.astream(run.input, run.config, **kwargs):
                    yield chunk
            except BaseException as error:
                moved = await self._afailed(run, error)
                if moved is None:
                    raise
            else:
                self._completed(run)
                return
            run = moved

    def as_node(self) -> RunnableLambda[Any, Any]:
        """This graph as a node of a parent: `builder.add_node("refund", refund.as_node())`."""
        # A closure over the compiled graph is how LangGraph finds a node's subgraph, for `get_state(subgraphs=True)`.
        subgraph = self._primary.compiled

        def node(state: Any, config: RunnableConfig) -> Any:
            return self.invoke(state, config) if subgraph is not None else state

        async def anode(state: Any, config: RunnableConfig) -> Any:
            return await self.ainvoke(state, config)

        return RunnableLambda(node, anode, name=self._primary.graph)

    # Beginnings.

    def _begin(self, input: Any, config: RunnableConfig | None) -> Run:
        plain = self._plain(input, config)
        try:
            return drive(self._start(plain))
        except PausedError:
            raise
        except Exception as error:
            say_once("begin", error, "a run could not be watched")
            return plain

    async def _abegin(self, input: Any, config: RunnableConfig | None) -> Run:
        plain = self._plain(input, config)
        try:
            return await adrive(self._start(plain))
        except PausedError:
            raise
        except Exception as error:
            say_once("begin", error, "a run could not be watched")
            return plain

    def _plain(self, input: Any, config: RunnableConfig | None) -> Run:
        """The run as it is without Reflex."""
        compiled = self._primary.compiled
        full = ensure_config(config)
        try:
            place, full = locate(compiled, full)
            compiled = self._runnable_of(self._primary)
        except Exception as error:
            say_once("locate", error, "a graph's place could not be found")
            place = Place(False, "", None, None, False)
        return Run(compiled, input, full, place)

    def _start(self, plain: Run) -> Steps[Run]:
        place, primary = plain.place, self._primary
        observer = observer_in(plain.config) or Observer(messages=self._settings.messages)
        saved, failed_before = yield from self._saved(plain)
        run_id = str(saved.get("reflex_run_id") or self._new_run_id(plain))
        running = self._graphs.get(saved.get("reflex_schema_ref"))
        if saved and running is None:
            say_once("resume", None, f"{saved.get('reflex_schema_ref')}, which a run is on, is not registered here")
            saved = {"reflex_run_id": run_id}
        override_id = saved.get("reflex_override_id") or None
        scope = Scope(
            client=self._client,
            identity=self._settings.identity(plain.config, run_id),
            running=running or primary,
            run_id=run_id,
            namespace=place.namespace,
            graph_version=primary.version,
            route=saved.get("reflex_route") or "primary",
            override_id=override_id,
            override_attempt=saved.get("reflex_override_attempt") if override_id is not None else None,
        )
        unknown: Resolution | None = None
        if not saved:
            resolution = self._client.resolve(primary.graph, scope.context("start"))
            if resolution.kind == "pause":
                raise PausedError(primary.graph, resolution)
            scope, unknown = self._on(scope, resolution)
        observer.enter(scope)
        if not saved or failed_before:
            scope.emit("graph_started")
        if unknown is not None:
            scope.emit(
                "override_ignored",
                reason="unknown_schema",
                override_id=unknown.override_id,
                override_attempt=unknown.override_attempt,
            )
        graph = plain.graph
        if scope.running is not primary:
            graph = runnable_at(place, self._runnable_of(scope.running), plain.graph)
        config = watched(plain.config, observer, scope)
        return replace(plain, graph=graph, config=config, observer=observer, scope=scope)

    def _on(self, scope: Scope, resolution: Resolution) -> tuple[Scope, Resolution | None]:
        """The scope on what was resolved; with the resolution where its schema is not known here."""
        if resolution.override_id is None:
            return scope, None
        target = self._graphs.get(resolution.schema_ref)
        if target is None:
            return scope, resolution
        on = replace(
            scope,
            running=target,
            route=resolution.route,
            override_id=resolution.override_id,
            override_attempt=resolution.override_attempt,
        )
        return on, None

    def _new_run_id(self, plain: Run) -> str:
        if plain.place.nested:
            # The task's id is in it: the same when the node runs again, another in the next run of the thread.
            return plain.place.namespace
        return str(plain.config.get("run_id") or uuid.uuid4())

    def _saved(self, plain: Run) -> Steps[tuple[Mapping[str, Any], bool]]:
        """What the checkpoint says of the run that goes on here, and whether it failed; empty for a new run."""
        place = plain.place
        goes_on = place.resuming if place.nested else plain.input is None or isinstance(plain.input, Command)
        checkpointer = place.checkpointer
        if not goes_on or checkpointer is None or place.thread_id is None:
            return {}, False
        address = place.config()
        found = yield state_step(lambda: checkpointer.get_tuple(address), lambda: checkpointer.aget_tuple(address))
        if found is None or "reflex_run_id" not in found.metadata:
            return {}, False
        failed = any(write[1] == "__error__" for write in found.pending_writes or ())
        return found.metadata, failed

    # Ends.

    @quietly(None)
    def _completed(self, run: Run) -> None:
        scope = run.scope
        if scope is None or scope.interrupted:
            return
        scope.emit("graph_completed", latency_ms=scope.elapsed_ms())
        if scope.exhausted:
            # The graph helped itself: an override that was made for it must not meet the session's next run.
            self._give_up(scope)

    def _failed(self, run: Run, error: BaseException) -> Run | None:
        if self._passes(run, error):
            return None
        self._not_begun(run, error)
        try:
            moved = drive(self._rescue(run, error))
        except Exception as own:
            say_once("rescue", own, "a failed run could not be moved")
            return None
        return moved

    async def _afailed(self, run: Run, error: BaseException) -> Run | None:
        if self._passes(run, error):
            return None
        self._not_begun(run, error)
        try:
            moved = await adrive(self._rescue(run, error))
        except Exception as own:
            say_once("rescue", own, "a failed run could not be moved")
            return None
        return moved

    def _passes(self, run: Run, error: BaseException) -> bool:
        """Whether this is no failure: an interrupt, a command for the parent, a cancellation."""
        if isinstance(error, ParentCommand):
            self._completed(run)
        return run.scope is None or isinstance(error, GraphBubbleUp) or not isinstance(error, Exception)

    def _not_begun(self, run: Run, error: BaseException) -> None:
        """Raises what failed before the move where the graph it moved to never began: that is the adapter's failure."""
        if run.cause is None or run.observer is None or run.scope is None or run.observer.began(run.scope):
            return
        say_once("not_begun", error, f"{run.scope.running.schema_ref} could not be begun after a move")
        run.observer.graph_failed(run.scope, error)
        self._give_up(run.scope)
        raise run.cause

    def _rescue(self, run: Run, error: BaseException) -> Steps[Run | None]:
        scope, observer = run.scope, run.observer
        if scope is None or observer is None:
            return None
        observer.graph_failed(scope, error)
        budget = self._settings.budget_seconds - observer.waited_within(scope.namespace)
        if not run.place.can_move or run.moves >= MOVES_MAX or budget <= 0:
            self._give_up(scope)
            return None
        override = yield from self._wait(run, scope, budget)
        if override is None:
            # Over, or refused: the failure is not waited for again on its way up through the parents.
            observer.waited(scope.namespace, budget)
            self._give_up(scope)
            return None
        target = self._graphs.get(override.schema_ref)
        refused = check(scope, override, target)
        if override.kind == "pause":
            return None
        if refused is not None or target is None:
            self._refuse(scope, override, refused or Refused("unknown_schema"))
            return None
        to = runnable_at(run.place, self._runnable_of(target), run.graph)
        moved = yield from move(run, scope, override, target, to)
        if isinstance(moved, Refused):
            self._refuse(scope, override, moved)
            return None
        if moved.scope is not None:
            observer.enter(moved.scope)
            observer.moved(scope.namespace)
            self._applied(moved.scope, override)
        return replace(moved, cause=error)

    @quietly(None)
    def _applied(self, scope: Scope, override: Override) -> None:
        self._client.override_applied(override, **scope.report())

    def _refuse(self, scope: Scope, override: Override, refused: Refused) -> None:
        said = {"detail": refused.detail} if refused.detail is not None else {}
        self._client.override_ignored(override, refused.reason, **scope.report(), **said)

    def _give_up(self, scope: Scope) -> None:
        """The run will not come back for an override, and none must meet the session's next run."""
        self._client.override_ignored(None, "budget_expired", **scope.report())

    def _wait(self, run: Run, scope: Scope, budget: float) -> Steps[Override | None]:
        client, identity = self._client, scope.identity
        asked = (identity.session_id, scope.graph, scope.run_id)
        began = time.monotonic()
        intervention = yield Step(
            lambda: client.wait_for_intervention(*asked, budget, tenant=identity.tenant),
            lambda: client.wait_for_intervention_async(*asked, budget, tenant=identity.tenant),
        )
        if run.observer is not None:
            run.observer.waited(scope.namespace, time.monotonic() - began)
        if intervention is None:
            return None
        override: Override = intervention.override
        # An operator's deny is above everything: the original path, whatever it does.
        denied = client.resolve(scope.graph, scope.context("failed")).reason == "deny"
        return None if denied else override

    def _runnable_of(self, registered: Registered) -> AnyGraph:
        """The graph with every registered graph among its nodes replaced by one that resolves for itself."""
        known = self._runnable.get(registered.schema_ref)
        if known is not None:
            return known
        compiled = registered.compiled
        nodes = dict(compiled.nodes)
        for name, node in compiled.nodes.items():
            inner = self._graphs.holding(node.bound)
            if inner is not None:
                child = ReflexGraph(self._client, self._graphs, inner.schema_ref, self._settings)
                nodes[name] = node.copy({"bound": child.as_node(), "subgraphs": [inner.compiled]})
        if nodes != compiled.nodes:
            compiled = compiled.copy(update={"nodes": nodes})
        self._runnable[registered.schema_ref] = compiled
        return compiled
