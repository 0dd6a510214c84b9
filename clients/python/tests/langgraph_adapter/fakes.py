"""A client without Reflex: it keeps what was sent, and answers as a test says."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any


@dataclass(frozen=True)
class FakeResume:
    after: str | None = None
    requires_channels: Sequence[str] = ()
    reset_channels: Sequence[str] = ()
    compatible_from: Sequence[str] = ()


@dataclass(frozen=True)
class FakeOverride:
    schema_ref: str | None
    entry_point: str | None = None
    resume: FakeResume | None = None
    id: str = "ovr_1"
    attempt: int = 0
    kind: str = "replace"
    expires_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc) + timedelta(hours=24))


@dataclass(frozen=True)
class FakeIntervention:
    override: FakeOverride
    intervention_id: str = "int_1"


@dataclass(frozen=True)
class FakeResolution:
    schema_ref: str
    route: str = "primary"
    entry_point: str | None = None
    override_id: str | None = None
    override_attempt: int | None = None
    shadow_schema_ref: str | None = None
    reason: str = "default"
    kind: str | None = "replace"


Answer = Callable[["FakeClient", str, str], FakeOverride | None]


class FakeClient:
    """Answers a wait at once when the failing node spent its retries, as Reflex would, and by the whole budget else."""

    def __init__(self, answer: FakeOverride | Answer | None = None, *, sleeps: bool = False) -> None:
        self.events: list[dict[str, Any]] = []
        self.waits: list[tuple[str, str, str | None, float, str | None]] = []
        self.resolved: list[tuple[str, dict[str, Any]]] = []
        self.resolutions: dict[str, FakeResolution] = {}
        self.ignored: list[tuple[str, FakeOverride | None]] = []
        self._answer = answer
        self._sleeps = sleeps

    def resolve(self, graph: str, context: Mapping[str, Any] | None = None) -> FakeResolution:
        said = dict(context or {})
        self.resolved.append((graph, said))
        return self.resolutions.get(graph) or FakeResolution(f"{graph}:{said['graph_version']}")

    def emit(self, event: Mapping[str, Any]) -> bool:
        self.events.append({"event_id": str(len(self.events)), **event})
        return True

    def override_applied(self, override: FakeOverride, **fields: Any) -> bool:
        said = {"override_id": override.id, "override_attempt": override.attempt}
        return self.emit({**said, "type": "override_applied", **fields})

    def override_ignored(self, override: FakeOverride | None, reason: str, **fields: Any) -> bool:
        said = {"override_id": override.id, "override_attempt": override.attempt} if override is not None else {}
        self.ignored.append((reason, override))
        return self.emit({"type": "override_ignored", "reason": reason, **fields, **said})

    def wait_for_intervention(
        self, session_id: str, graph: str, run_id: str | None, budget_seconds: float, *, tenant: str | None = None
    ) -> FakeIntervention | None:
        self.waits.append((session_id, graph, run_id, budget_seconds, tenant))
        override = self._answer(self, session_id, graph) if callable(self._answer) else self._answer
        if override is None and self._sleeps:
            time.sleep(budget_seconds)
        return FakeIntervention(override) if override is not None else None

    async def wait_for_intervention_async(
        self, session_id: str, graph: str, run_id: str | None, budget_seconds: float, *, tenant: str | None = None
    ) -> FakeIntervention | None:
        return self.wait_for_intervention(session_id, graph, run_id, budget_seconds, tenant=tenant)

    def of(self, event_type: str, **fields: Any) -> list[dict[str, Any]]:
        """Events of a type whose fields are these."""
        return [
            event
            for event in self.events
            if event["type"] == event_type and all(event.get(name) == value for name, value in fields.items())
        ]

    def story(self, graph: str | None = None) -> list[str]:
        """Every event of a graph in short: type, then the node."""
        return [
            " ".join(str(part) for part in (event["type"], event.get("node")) if part)
            for event in self.events
            if graph is None or event.get("graph") == graph
        ]
