"""What the adapter needs of a client, and nothing more: `reflex_runtime.Client` fits, and so does a fake in a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Resolution(Protocol):
    """Which schema a run is to use (`client.resolve`)."""

    @property
    def schema_ref(self) -> str: ...
    @property
    def entry_point(self) -> str | None: ...
    @property
    def route(self) -> str: ...
    @property
    def override_id(self) -> str | None: ...
    @property
    def override_attempt(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def kind(self) -> str | None: ...


class Resume(Protocol):
    """Conditions under which a failed run may continue on another graph."""

    @property
    def after(self) -> str | None: ...
    @property
    def requires_channels(self) -> Sequence[str]: ...
    @property
    def reset_channels(self) -> Sequence[str]: ...
    @property
    def compatible_from(self) -> Sequence[str]: ...


class Override(Protocol):
    """The override an intervention published."""

    @property
    def id(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def schema_ref(self) -> str | None: ...
    @property
    def entry_point(self) -> str | None: ...
    @property
    def resume(self) -> Resume | None: ...


class Intervention(Protocol):
    """An intervention that was applied."""

    @property
    def intervention_id(self) -> str: ...
    @property
    def override(self) -> Override: ...


class Client(Protocol):
    """The client, as the adapter calls it."""

    def resolve(self, graph: str, context: Mapping[str, Any] | None = None) -> Resolution: ...

    def emit(self, event: Mapping[str, Any]) -> bool: ...

    def wait_for_intervention(
        self, session_id: str, graph: str, run_id: str | None, budget_seconds: float, *, tenant: str | None = None
    ) -> Intervention | None: ...

    async def wait_for_intervention_async(
        self, session_id: str, graph: str, run_id: str | None, budget_seconds: float, *, tenant: str | None = None
    ) -> Intervention | None: ...

    def override_applied(
        self,
        override: Any,
        *,
        session_id: str,
        graph: str,
        run_id: str | None,
        tenant: str | None = None,
        **fields: Any,
    ) -> bool: ...

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
    ) -> bool: ...

    def runtime_started(self, schemas: Sequence[str]) -> Any: ...
