"""What LangGraph's callbacks tell, as runtime events.

LangGraph names no attempt: a node that is started again under the same checkpoint namespace is the next one. The error
callback has no name: it is known by the run it belongs to. Interrupts (the `GraphBubbleUp` family) are no failures.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.messages import ToolMessage
from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent
from langgraph.errors import GraphBubbleUp, NodeTimeoutError

from reflex_runtime.langgraph import failures
from reflex_runtime.langgraph.output import action_of, failed_tools, updates_in
from reflex_runtime.langgraph.quiet import quietly
from reflex_runtime.langgraph.registry import Node
from reflex_runtime.langgraph.scope import Scope

_STEP = "graph:step:"


@dataclass
class Attempt:
    """One attempt at one node."""

    scope: Scope
    node: str
    facts: Node
    namespace: str
    number: int
    action: dict[str, Any] | None
    began: float
    state: str = "running"
    """running, completed, in_progress (failed, will be tried again), cancelled, or an exhausted retry state."""

    def elapsed_ms(self) -> int:
        """Since it began."""
        return round((time.monotonic() - self.began) * 1000)


@dataclass
class Call:
    """One tool call or model call."""

    attempt: Attempt
    name: str | None
    began: float
    tool_call_id: str | None = None


class Observer(GraphCallbackHandler):
    """Watches one invocation: the root graph and every registered graph inside it."""

    # Threads of a pool would put events out of order.
    run_inline = True
    raise_error = False

    def __init__(self, *, messages: bool = True) -> None:
        self._messages = messages
        self._lock = threading.Lock()
        self._scopes: dict[str, Scope] = {}
        self._attempts: dict[str, Attempt] = {}
        self._by_run: dict[UUID, Attempt] = {}
        self._calls: dict[UUID, Call] = {}
        self._failed_tool_calls: set[str] = set()
        self._waited: dict[str, float] = {}

    # The adapter's own side.

    def enter(self, scope: Scope) -> None:
        """From now on, nodes of this checkpoint namespace are this scope's."""
        with self._lock:
            self._scopes[scope.namespace] = scope

    def began(self, scope: Scope) -> bool:
        """Whether any node of it was started."""
        with self._lock:
            return any(attempt.scope is scope for attempt in self._attempts.values())

    def waited(self, namespace: str, seconds: float) -> None:
        """Notes time spent waiting for an intervention in a graph."""
        with self._lock:
            self._waited[namespace] = self._waited.get(namespace, 0.0) + seconds

    def waited_within(self, namespace: str) -> float:
        """The longest wait of a graph or of one inside it: a failure on its way up is waited for once."""
        with self._lock:
            inside = (
                seconds
                for name, seconds in self._waited.items()
                if namespace in ("", name) or name.startswith(f"{namespace}|")
            )
            return max(inside, default=0.0)

    def moved(self, namespace: str) -> None:
        """The graph goes on elsewhere: its waits so far do not count."""
        with self._lock:
            self._waited.pop(namespace, None)

    @quietly(None)
    def graph_failed(self, scope: Scope, error: BaseException) -> None:
        """The graph failed; a node that ran out of time is known only now, by the error."""
        if isinstance(error, NodeTimeoutError):
            late = [one for one in self._attempts.values() if one.scope is scope and one.state == "cancelled"]
            for attempt in late:
                if attempt.node == error.node:
                    self._node_failed(attempt, error)
        described = failures.describe(error, messages=self._messages)
        scope.emit("graph_failed", error=described, latency_ms=scope.elapsed_ms())

    # LangChain's side.

    @quietly(None)
    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A node begins, or something inside one."""
        if not metadata or not any(tag.startswith(_STEP) for tag in tags or ()):
            return
        namespace = metadata.get("langgraph_checkpoint_ns")
        node = metadata.get("langgraph_node")
        if not isinstance(namespace, str) or not isinstance(node, str):
            return
        scope = self._scopes.get(namespace.rpartition("|")[0])
        if scope is None or node.startswith("__"):
            return
        with self._lock:
            before = self._attempts.get(namespace)
        number = 1
        if before is not None and before.state == "cancelled":
            # Only a node that ran out of time is cancelled and tried again.
            number = before.number + 1
            self._timed_out(before)
        elif before is not None and before.state == "in_progress":
            number = before.number + 1
        facts = scope.running.node(node)
        action = action_of(node, facts, inputs) if facts.acts else None
        attempt = Attempt(scope, node, facts, namespace, number, action, time.monotonic())
        with self._lock:
            self._attempts[namespace] = attempt
            self._by_run[run_id] = attempt
        scope.emit("node_started", node=node, attempt=number)
        if action is not None:
            scope.emit("action_intended", node=node, attempt=number, **action)

    @quietly(None)
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A node completed."""
        with self._lock:
            attempt = self._by_run.pop(run_id, None)
        if attempt is None:
            return
        attempt.state = "completed"
        scope, node = attempt.scope, attempt.node
        updates = list(updates_in(outputs))
        for message in failed_tools(updates):
            self._soft_failure(attempt, message)
        artifact = attempt.facts.artifact
        if artifact is not None and any(update.get(artifact) is not None for update in updates):
            scope.emit("artifact_produced", node=node, artifact={"name": artifact, "present": True})
        if attempt.action is not None:
            scope.emit("action_confirmed", node=node, attempt=attempt.number, **attempt.action)
        scope.completed.add(node)
        scope.emit("node_completed", node=node, attempt=attempt.number, latency_ms=attempt.elapsed_ms())

    @quietly(None)
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """An attempt at a node failed, or was interrupted or cancelled."""
        with self._lock:
            attempt = self._by_run.pop(run_id, None)
        if attempt is None:
            return
        if isinstance(error, GraphBubbleUp):
            attempt.state = "interrupted"
        elif isinstance(error, asyncio.CancelledError):
            # A sibling failed, the caller went away, or the node ran out of time: the next callback tells.
            attempt.state = "cancelled"
        else:
            self._node_failed(attempt, error)

    @quietly(None)
    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A tool is called."""
        attempt = self._attempt_of(metadata)
        if attempt is None:
            return
        name = (serialized or {}).get("name") or kwargs.get("name")
        call = Call(attempt, name, time.monotonic(), kwargs.get("tool_call_id"))
        with self._lock:
            self._calls[run_id] = call
        attempt.scope.emit("tool_call_started", node=attempt.node, attempt=attempt.number, **_tool(name))

    @quietly(None)
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool returned."""
        with self._lock:
            call = self._calls.pop(run_id, None)
        if call is None:
            return
        if isinstance(output, ToolMessage) and output.status == "error":
            self._soft_failure(call.attempt, output)
            return
        call.attempt.scope.emit(
            "tool_call_completed",
            node=call.attempt.node,
            attempt=call.attempt.number,
            latency_ms=round((time.monotonic() - call.began) * 1000),
            **_tool(call.name),
        )

    @quietly(None)
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool raised."""
        with self._lock:
            call = self._calls.pop(run_id, None)
            if call is not None and call.tool_call_id is not None and not isinstance(error, GraphBubbleUp):
                self._failed_tool_calls.add(call.tool_call_id)
        if call is None or isinstance(error, GraphBubbleUp):
            return
        self._call_failed("tool_call_failed", call, error, _tool(call.name))

    @quietly(None)
    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A model is called."""
        self._model_started(run_id, metadata)

    @quietly(None)
    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A model is called."""
        self._model_started(run_id, metadata)

    @quietly(None)
    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A model answered."""
        with self._lock:
            self._calls.pop(run_id, None)

    @quietly(None)
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A model call failed."""
        with self._lock:
            call = self._calls.pop(run_id, None)
        if call is not None and not isinstance(error, (GraphBubbleUp, asyncio.CancelledError)):
            said = {"dependency": call.name} if call.name else {}
            self._call_failed("model_call_failed", call, error, said)

    @quietly(None)
    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """A graph waits for somebody: it has neither completed nor failed."""
        scope = self._scopes.get("|".join(event.checkpoint_ns))
        if scope is not None:
            scope.interrupted = True

    # What they have in common.

    def _attempt_of(self, metadata: Mapping[str, Any] | None) -> Attempt | None:
        namespace = (metadata or {}).get("langgraph_checkpoint_ns")
        while isinstance(namespace, str) and namespace:
            with self._lock:
                found = self._attempts.get(namespace)
            if found is not None:
                return found
            namespace = namespace.rpartition("|")[0]
        return None

    def _model_started(self, run_id: UUID, metadata: Mapping[str, Any] | None) -> None:
        attempt = self._attempt_of(metadata)
        if attempt is not None:
            provider = (metadata or {}).get("ls_provider")
            with self._lock:
                self._calls[run_id] = Call(attempt, provider if isinstance(provider, str) else None, time.monotonic())

    def _timed_out(self, attempt: Attempt) -> None:
        attempt.state = "in_progress"
        error = {"class": "langgraph.errors.NodeTimeoutError"}
        self._report(attempt, error, "in_progress", None, unknown_outcome=True)

    def _node_failed(self, attempt: Attempt, error: BaseException) -> None:
        spec = attempt.scope.running.compiled.nodes.get(attempt.node)
        policies = _policies(spec.retry_policy if spec is not None else None)
        if policies is None:
            policies = _policies(attempt.scope.running.compiled.retry_policy)
        state, attempts_max = failures.retry_state(policies, error, attempt.number)
        attempt.state = state
        if state != "in_progress":
            attempt.scope.exhausted = True
            if spec is not None and spec.error_handler_node is not None:
                # The graph answers this failure by itself.
                state = "in_progress"
        described = failures.describe(error, messages=self._messages)
        unknown = attempt.facts.acts and failures.outcome_unknown(error)
        self._report(attempt, described, state, attempts_max, unknown_outcome=unknown)

    def _report(
        self, attempt: Attempt, error: Mapping[str, Any], state: str, attempts_max: int | None, *, unknown_outcome: bool
    ) -> None:
        facts = attempt.facts
        said: dict[str, Any] = {"node": attempt.node, "attempt": attempt.number, "error": error}
        unknown_outcome = unknown_outcome and facts.acts
        if attempt.action is not None:
            kind = "action_ambiguous" if unknown_outcome else "action_failed"
            attempt.scope.emit(kind, **said, **attempt.action)
        attempt.scope.emit(
            "node_failed",
            **said,
            max_attempts=attempts_max,
            retry_state=state,
            latency_ms=attempt.elapsed_ms(),
            artifact={"name": facts.artifact, "present": False} if facts.artifact is not None else None,
            side_effect=True if facts.acts else None,
            failure={"class": "ambiguous"} if unknown_outcome else None,
            dependency=facts.dependency,
        )

    def _call_failed(self, event_type: str, call: Call, error: BaseException, said: Mapping[str, Any]) -> None:
        call.attempt.scope.emit(
            event_type,
            node=call.attempt.node,
            # With the attempt, the node's own report of the same failure is known as a repetition.
            attempt=call.attempt.number,
            error=failures.describe(error, messages=self._messages),
            latency_ms=round((time.monotonic() - call.began) * 1000),
            **said,
        )

    def _soft_failure(self, attempt: Attempt, message: ToolMessage) -> None:
        """A tool that returned, and says that it failed."""
        with self._lock:
            if message.tool_call_id in self._failed_tool_calls:
                return
            self._failed_tool_calls.add(message.tool_call_id)
        error: dict[str, Any] = {"code": "tool_message_error"}
        if self._messages and isinstance(message.content, str):
            error["message"] = message.content[: failures.MESSAGE_CHARACTERS_MAX]
        attempt.scope.emit(
            "tool_call_failed", node=attempt.node, attempt=attempt.number, error=error, **_tool(message.name)
        )


def _policies(rule: Any) -> Sequence[Any] | None:
    if not rule:
        return None
    # One policy is a tuple as well.
    return (rule,) if hasattr(rule, "max_attempts") else list(rule)


def _tool(name: str | None) -> dict[str, Any]:
    return {"dependency": name, "operation": name} if name else {}
