"""What goes wrong in the adapter is logged once a place, and never reaches the agent."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

LOG = logging.getLogger("reflex_runtime.langgraph")

P = ParamSpec("P")
T = TypeVar("T")

_said: set[str] = set()
_lock = threading.Lock()


def say_once(place: str, error: BaseException | None, words: str) -> None:
    """Logs at one place once a process: an agent's log must not fill up with what is not its own."""
    with _lock:
        if place in _said:
            return
        _said.add(place)
    LOG.warning("%s (said once; the graph runs on as without Reflex)", words, exc_info=error)


def forget_said() -> None:
    """Lets every place speak again: for tests."""
    with _lock:
        _said.clear()


def quietly(otherwise: T) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """The function, with `otherwise` instead of any exception of its own."""

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def quiet(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                say_once(function.__qualname__, error, f"{function.__qualname__} failed")
                return otherwise

        return quiet

    return wrap
