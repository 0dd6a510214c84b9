"""What holds for every run, and how a run says who it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig

from reflex_runtime.langgraph.protocol import Resolution
from reflex_runtime.langgraph.scope import DIMENSIONS, Identity


class PausedError(Exception):
    """An override of kind `pause` covers this session: it waits, and the graph is not run."""

    def __init__(self, graph: str, resolution: Resolution) -> None:
        super().__init__(f"{graph} is paused by override {resolution.override_id}: {resolution.reason}")
        self.graph = graph
        self.resolution = resolution


@dataclass(frozen=True)
class Settings:
    """What holds for every run of a `ReflexGraph`."""

    budget_seconds: float = 5.0
    """How long a failed run waits for an intervention before it ends as it would without Reflex."""
    tenant: str | None = None
    region: str | None = None
    app_version: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """More cohort dimensions."""
    messages: bool = True
    """Whether events carry exceptions' texts; classes and codes they always do."""
    identify: Callable[[RunnableConfig], Identity] | None = None
    """Instead of `configurable`: session_id (else thread_id), tenant, region, app_version, attributes."""

    def identity(self, config: RunnableConfig, run_id: str) -> Identity:
        """Who runs, by a run's configuration."""
        if self.identify is not None:
            return self.identify(config)
        configurable = config.get("configurable") or {}
        session_id = configurable.get("session_id") or configurable.get("thread_id") or run_id
        said = {name: configurable.get(name) or getattr(self, name) for name in DIMENSIONS}
        attributes = {**self.attributes, **(configurable.get("attributes") or {})}
        return Identity(session_id=str(session_id), attributes=attributes, **said)
