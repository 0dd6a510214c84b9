"""Whose events they are: one run of one graph, and the fields that every event of it carries."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reflex_runtime.langgraph.protocol import Client
from reflex_runtime.langgraph.quiet import say_once
from reflex_runtime.langgraph.registry import Registered

DIMENSIONS = ("tenant", "region", "app_version")


@dataclass(frozen=True)
class Identity:
    """Who runs: the session and its cohort dimensions."""

    session_id: str
    tenant: str | None = None
    region: str | None = None
    app_version: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """Its cohort dimensions, as events have them."""
        said = {name: getattr(self, name) for name in DIMENSIONS}
        if self.attributes:
            said["attributes"] = dict(self.attributes)
        return {name: value for name, value in said.items() if value is not None}


@dataclass
class Scope:
    """One run of one graph on one schema. A move makes another scope of the same run."""

    client: Client
    identity: Identity
    running: Registered
    run_id: str
    namespace: str
    """Checkpoint namespace of the graph: empty at the root, `NODE:TASK` in a node of a parent."""
    graph_version: str
    route: str = "primary"
    override_id: str | None = None
    override_attempt: int | None = None
    began: float = field(default_factory=time.monotonic)
    interrupted: bool = False
    exhausted: bool = False
    """Whether some node of it spent its retries: an override may be on its way."""
    completed: set[str] = field(default_factory=set)

    @property
    def graph(self) -> str:
        """The name the run resolves by."""
        return self.running.graph

    def context(self, phase: str) -> dict[str, Any]:
        """As `resolve` takes it."""
        context = {
            "session_id": self.identity.session_id,
            "run_id": self.run_id,
            "phase": phase,
            "graph_version": self.graph_version,
            **self.identity.fields(),
        }
        if phase != "start":
            context["current_schema_ref"] = self.running.schema_ref
        return context

    def metadata(self) -> dict[str, Any]:
        """What a checkpoint must say, so that another process goes on where this one stopped."""
        # All of it, always: a subgraph inherits what its parent's configuration says.
        return {
            "reflex_run_id": self.run_id,
            "reflex_schema_ref": self.running.schema_ref,
            "reflex_route": self.route,
            "reflex_override_id": self.override_id or "",
            "reflex_override_attempt": self.override_attempt or 0,
        }

    def report(self) -> dict[str, Any]:
        """The fields of every event of this run; also what the client's reports take."""
        said: dict[str, Any] = {
            "session_id": self.identity.session_id,
            "run_id": self.run_id,
            "graph": self.graph,
            "graph_version": self.graph_version,
            "schema_ref": self.running.schema_ref,
            "route": self.route,
            **self.identity.fields(),
        }
        if self.override_id is not None:
            said["override_id"] = self.override_id
            said["override_attempt"] = self.override_attempt or 0
        return said

    def emit(self, event_type: str, **said: Any) -> None:
        """Sends one event; nothing that goes wrong reaches the caller."""
        try:
            known = {name: value for name, value in said.items() if value is not None}
            self.client.emit({"type": event_type, **self.report(), **known})
        except Exception as error:
            say_once("emit", error, "an event could not be sent")

    def elapsed_ms(self) -> int:
        """Since the run began."""
        return round((time.monotonic() - self.began) * 1000)
