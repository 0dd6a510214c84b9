"""Fixtures of all tests of the adapter."""

import pytest

from reflex_runtime.langgraph.quiet import forget_said


@pytest.fixture(autouse=True)
def _fresh() -> None:
    forget_said()
