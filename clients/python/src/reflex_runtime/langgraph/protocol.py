"""What the adapter needs of a client, and nothing more: `reflex_runtime.Client` fits, and so does a fake in a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Resolution(Protocol):
    """Which schema a run is to use (`client.resolve`)."""

    @property
    def schema_ref(self) -> str:
        """The schema to run, `NAME:VERSION`."""

    @property
    def entry_point(self) -> str | None:
        """The node where a failed run goes on."""

    @property
    def route(self) -> str:
        """primary, degraded or trial."""

    @property
    def override_id(self) -> str | None:
        """The override that decided."""

    @property
    def override_attempt(self) -> int | None:
        """Its attempt."""

    @property
    def reason(self) -> str:
        """What decided."""

    @property
    def kind(self) -> str | None:
        """replace, or pause: wait, do not run the graph."""


class Resume(Protocol):
    """Conditions under which a failed run may continue on another graph."""

    @property
    def after(self) -> str | None:
        """The node whose completion it builds on."""

    @property
    def requires_channels(self) -> Sequence[str]:
        """Channels that must hold collected state."""

    @property
    def reset_channels(self) -> Sequence[str]:
        """Channels to clear first."""

    @property
    def compatible_from(self) -> Sequence[str]:
        """Schemas a run may come from; empty: any."""


class Override(Protocol):
    """The override an intervention published."""

    @property
    def id(self) -> str:
        """The override."""

    @property
    def attempt(self) -> int:
        """Its attempt."""

    @property
    def kind(self) -> str:
        """replace, or pause: wait, do not run the graph."""

    @property
    def schema_ref(self) -> str | None:
        """The schema to run, `NAME:VERSION`."""

    @property
    def entry_point(self) -> str | None:
        """The node where a failed run goes on."""

    @property
    def resume(self) -> Resume | None:
        """The conditions."""


class Intervention(Protocol):
    """An intervention that was applied."""

    @property
    def intervention_id(self) -> str | None:
        """The intervention."""

    @property
    def override(self) -> Override:
        """What it published."""


class Client(Protocol):
    """The client, as the adapter calls it."""

    def resolve(self, graph: str, context: Mapping[str, Any] | None = None) -> Resolution:
        """Which schema to run; never raises, never blocks."""

    def emit(self, event: Mapping[str, Any]) -> bool:
        """Queues an event; never raises, never blocks."""

    def wait_for_intervention(
        self, session_id: str, graph: str, run_id: str | None, budget_seconds: float, *, tenant: str | None = None
    ) -> Intervention | None:
        """Waits for the override made for exactly this run; None: over, or refused."""

    async def wait_for_intervention_async(
        self, session_id: str, graph: str, run_id: str | None, budget_seconds: float, *, tenant: str | None = None
    ) -> Intervention | None:
        """The same, without holding up the event loop."""

    def override_applied(
        self,
        override: Any,
        *,
        session_id: str,
        graph: str,
        run_id: str | None,
        tenant: str | None = None,
        **fields: Any,
    ) -> bool:
        """Says that the run goes on under the override."""

    def override_ignored(
        self,
        override: Any,
        reason: str,
        *,
        session_id: str,
        graph: str,
        run_id: str | None,
        tenant: str | None = None,
        **fields: Any,
    ) -> bool:
        """Says that it does not, and why."""
