"""What stands in a node's input and output: state updates, tool messages, the names of acts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from reflex_runtime.langgraph.registry import Node


def updates_in(outputs: Any) -> Iterator[Mapping[str, Any]]:
    """The state updates in whatever a node returned."""
    if isinstance(outputs, Mapping):
        yield outputs
    elif isinstance(outputs, Command):
        yield from updates_in(outputs.update)
    elif isinstance(outputs, (list, tuple)):
        pairs = [one for one in outputs if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str)]
        if pairs:
            yield dict(pairs)
        messages = [one for one in outputs if isinstance(one, ToolMessage)]
        if messages:
            yield {"messages": messages}
        for one in outputs:
            if isinstance(one, (Mapping, Command)):
                yield from updates_in(one)


def failed_tools(updates: Sequence[Mapping[str, Any]]) -> Iterator[ToolMessage]:
    """Answers of tools that say that they failed."""
    for update in updates:
        for value in update.values():
            for one in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(one, ToolMessage) and one.status == "error":
                    yield one


def action_of(node: str, facts: Node, state: Any) -> dict[str, Any]:
    """The fields of the events of an act."""
    action: dict[str, Any] = {"operation": node, "side_effect": True}
    if facts.dependency is not None:
        action["dependency"] = facts.dependency
    key = _filled(facts.idempotency_key, state)
    if key is not None:
        action["idempotency_key"] = key
        action["operation"] = key
    return action


def _filled(template: str | None, state: Any) -> str | None:
    """The key with every `{name}` from the state, also one level down; None where something is missing."""
    if template is None:
        return None
    values = state if isinstance(state, Mapping) else getattr(state, "__dict__", {})

    def value_of(name: str) -> Any:
        if name in values:
            return values[name]
        inside = (one[name] for one in values.values() if isinstance(one, Mapping) and name in one)
        found = next(inside, None)
        if found is None and "_" in name:
            # `{order_id}` of {"order": {"id": ...}}.
            whole, _, part = name.rpartition("_")
            one = values.get(whole)
            found = one.get(part) if isinstance(one, Mapping) else None
        return found

    names = re.findall(r"\{(\w+)\}", template)
    found = {name: value_of(name) for name in names}
    if any(value is None for value in found.values()):
        return None
    return re.sub(r"\{(\w+)\}", lambda match: str(found[match.group(1)]), template)
