"""From an exception to the fields of an event: class, code, message, causes, and what became of the retries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from langgraph.errors import GraphRecursionError, InvalidUpdateError, NodeTimeoutError
from langgraph.types import RetryPolicy

CAUSES_MAX = 8
MESSAGE_CHARACTERS_MAX = 1000
PLACES_MAX = 16

# Nobody knows whether the far side acted: a mutating step that ends like this must not be run around.
_UNKNOWN_OUTCOME = (TimeoutError, asyncio.TimeoutError, asyncio.CancelledError, ConnectionError, NodeTimeoutError)
_UNKNOWN_OUTCOME_NAMES = ("timeout", "connecterror", "connectionerror", "remoteprotocolerror", "networkerror")


def describe(error: BaseException, *, messages: bool = True) -> dict[str, Any]:
    """`error` as events carry it; `causes` outermost first."""
    described = _one(error, messages)
    causes = [_one(cause, messages) for cause in _causes(error)]
    if causes:
        described["causes"] = causes
    return described


def _one(error: BaseException, messages: bool) -> dict[str, Any]:
    kind = type(error)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    one: dict[str, Any] = {"class": f"{module}{kind.__qualname__}"}
    code = _code(error)
    if code is not None:
        one["code"] = code
    message = _message(error) if messages else None
    if message:
        one["message"] = message[:MESSAGE_CHARACTERS_MAX]
    return one


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    for _ in range(CAUSES_MAX):
        cause = error.__cause__
        if cause is None and not error.__suppress_context__:
            cause = error.__context__
        if cause is None or id(cause) in seen:
            return
        seen.add(id(cause))
        yield cause
        error = cause


def _code(error: BaseException) -> str | int | None:
    if isinstance(error, GraphRecursionError):
        return "GRAPH_RECURSION_LIMIT"
    if isinstance(error, InvalidUpdateError):
        return "INVALID_GRAPH_NODE_RETURN_VALUE"
    for name in ("code", "error_code", "status_code"):
        value = getattr(error, name, None)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return value
    return None


def _message(error: BaseException) -> str:
    # A validation error's own text holds the values; where and why they did not fit is stable, and holds none.
    places = getattr(error, "errors", None)
    if callable(places) and hasattr(error, "error_count"):
        try:
            found = {f"{place['type']}@{_path(place['loc'])}" for place in places(include_input=False)}
        except Exception:
            return ""
        return " ".join(sorted(found)[:PLACES_MAX])
    return str(error)


def _path(location: Sequence[Any]) -> str:
    return ".".join("*" if isinstance(step, int) else str(step) for step in location)


def outcome_unknown(error: BaseException) -> bool:
    """Whether what was asked for may have happened: timeouts, cancellations, connections that broke."""
    said = getattr(error, "reflex_failure_class", None)
    if said is not None:
        return bool(said == "ambiguous")
    chain = [error, *_causes(error)]
    return any(
        isinstance(one, _UNKNOWN_OUTCOME) or any(name in type(one).__name__.lower() for name in _UNKNOWN_OUTCOME_NAMES)
        for one in chain
    )


def retry_state(policies: Sequence[RetryPolicy] | None, error: BaseException, attempt: int) -> tuple[str, int]:
    """What becomes of the retries after this failed attempt, and how many there are at most: as LangGraph decides."""
    timed_out = isinstance(error, NodeTimeoutError)
    if not policies:
        return ("timeout" if timed_out else "no_policy"), 1
    policy = next((policy for policy in policies if _retries_on(policy, error)), None)
    if policy is None:
        return ("timeout" if timed_out else "non_retryable"), max(attempt, 1)
    if attempt < policy.max_attempts:
        return "in_progress", policy.max_attempts
    return ("timeout" if timed_out else "max_attempts"), policy.max_attempts


def _retries_on(policy: RetryPolicy, error: BaseException) -> bool:
    rule = policy.retry_on
    if isinstance(rule, Sequence):
        return isinstance(error, tuple(rule))
    if isinstance(rule, type):
        return isinstance(error, rule)
    return isinstance(error, Exception) and bool(rule(error))
