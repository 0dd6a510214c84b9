"""Moves a failed run to another graph on its own checkpoint: checks, settles what is pending, says where to go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from langgraph.channels import BinaryOperatorAggregate
from langgraph.constants import END
from langgraph.types import Command, Overwrite

from reflex_runtime.langgraph.protocol import Override, Resume
from reflex_runtime.langgraph.registry import AnyGraph, Registered
from reflex_runtime.langgraph.run import Run, going_on, outside_the_node, watched
from reflex_runtime.langgraph.scope import Scope
from reflex_runtime.langgraph.steps import Step, Steps


@dataclass(frozen=True)
class Refused:
    """The override is not for this run: the reason that `override_ignored` gives."""

    reason: str
    detail: str | None = None


def state_step(call: Callable[[], Any], acall: Callable[[], Any]) -> Step:
    """A step on a graph's state."""

    def now() -> Any:
        with outside_the_node():
            return call()

    async def later() -> Any:
        with outside_the_node():
            return await acall()

    return Step(now, later)


def check(scope: Scope, override: Override, target: Registered | None) -> Refused | None:
    """What can be known without looking at the thread."""
    resume = override.resume
    if target is None:
        return Refused("unknown_schema")
    if resume is not None and resume.compatible_from and scope.running.schema_ref not in resume.compatible_from:
        return Refused("incompatible", "compatible_from")
    if _entry(override, target) is None:
        return Refused("incompatible", "unknown_entry_point")
    return None


def _entry(override: Override, target: Registered) -> tuple[str, str] | None:
    """Where the run enters the target: at a node, or after one."""
    if override.entry_point is not None:
        return ("at", override.entry_point) if override.entry_point in target.compiled.nodes else None
    after = override.resume.after if override.resume is not None else None
    return ("after", after) if after is not None and after in target.compiled.nodes else None


def move(run: Run, scope: Scope, override: Override, target: Registered, to: AnyGraph) -> Steps[Run | Refused]:
    """The run on the target, ready to be invoked, or why not. Nothing is changed unless it can be.

    The order is LangGraph's: settling on the *old* graph keeps what finished siblings of the failed node wrote, and
    drops what is pending; a goto to a node that does not exist would silently do nothing.
    """
    place, old = run.place, scope.running.compiled
    address = place.config()
    state_of = run.graph if not place.nested else old
    state = yield state_step(lambda: state_of.get_state(address), lambda: state_of.aget_state(address))
    resume = override.resume
    if resume is not None:
        refused = yield from _conditions(run, scope, resume, state.values)
        if refused is not None:
            return refused
    moved = replace(
        scope,
        running=target,
        route="degraded",
        override_id=override.id,
        override_attempt=override.attempt,
        interrupted=False,
        exhausted=False,
        completed=set(),
    )
    written = place.config(moved.metadata())
    before = state.config
    yield state_step(
        lambda: state_of.update_state(written, None, as_node=END),
        lambda: state_of.aupdate_state(written, None, as_node=END),
    )
    values = _reset(target.compiled, resume)
    entry = _entry(override, target)
    going: Any = None
    if entry is not None and entry[0] == "at":
        going = Command(goto=entry[1], update=values) if values else Command(goto=entry[1])
    elif entry is not None:
        after = entry[1]
        try:
            yield state_step(
                lambda: to.update_state(written, values, as_node=after),
                lambda: to.aupdate_state(written, values, as_node=after),
            )
        except Exception:
            yield from _put_back(state_of, before)
            raise
    config = going_on(run)
    if run.observer is not None:
        config = watched(config, run.observer, moved)
    return replace(run, graph=to, input=going, config=config, scope=moved, moves=run.moves + 1)


def _put_back(graph: AnyGraph, before: Any) -> Steps[None]:
    """Makes the checkpoint from before the move the latest again: the thread is as without Reflex."""
    yield state_step(
        lambda: graph.update_state(before, None, as_node="__copy__"),
        lambda: graph.aupdate_state(before, None, as_node="__copy__"),
    )


def _conditions(run: Run, scope: Scope, resume: Resume, values: Mapping[str, Any]) -> Steps[Refused | None]:
    held = values if isinstance(values, Mapping) else getattr(values, "__dict__", {})
    if any(held.get(channel) is None for channel in resume.requires_channels):
        return Refused("incompatible", "missing_channels")
    after = resume.after
    if after is None or after in scope.completed:
        return None
    checkpointer = run.place.checkpointer
    address = run.place.config()
    if checkpointer is None:
        return Refused("incompatible", "no_checkpointer")
    saved = yield state_step(lambda: checkpointer.get_tuple(address), lambda: checkpointer.aget_tuple(address))
    # A node stands here once a superstep of its was written.
    done = saved is not None and after in saved.checkpoint["versions_seen"]
    return None if done else Refused("incompatible", "not_reached")


def _reset(target: AnyGraph, resume: Resume | None) -> dict[str, Any] | None:
    values: dict[str, Any] = {}
    for name in resume.reset_channels if resume is not None else ():
        channel = target.channels.get(name)
        if isinstance(channel, BinaryOperatorAggregate):
            values[name] = Overwrite(channel.typ())
        elif channel is not None:
            values[name] = None
    return values or None
