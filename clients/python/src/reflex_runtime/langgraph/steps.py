"""Steps that wait, written once: a generator yields them, and a driver does them now or awaits them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """One thing to do that may wait, in both ways."""

    now: Callable[[], Any]
    later: Callable[[], Awaitable[Any]]


Steps = Generator[Step, Any, T]


def drive(steps: Steps[T]) -> T:
    """Does every step at once; what a step raises is raised where it was yielded."""
    try:
        step = next(steps)
        while True:
            try:
                value = step.now()
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(value)
    except StopIteration as done:
        result: T = done.value
        return result


async def adrive(steps: Steps[T]) -> T:
    """The same, awaiting every step."""
    try:
        step = next(steps)
        while True:
            try:
                value = await step.later()
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(value)
    except StopIteration as done:
        result: T = done.value
        return result
