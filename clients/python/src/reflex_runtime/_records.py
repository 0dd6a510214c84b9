"""The records a runtime reads: overrides and interventions, as they stand on their topics in JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._time import MIN_MICROS, format_time, parse_time

RANKS = {"tenant": 0, "region": 1, "app_version": 2, "graph_version": 3}
"""Dimensions of a cohort by rank; ``attributes.NAME`` come after them, by name."""

_U32_MAX = 2**32 - 1


class UndecodableError(ValueError):
    """No override can be read from a value; the text says which field, and holds no value."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Conditions under which a failed run may continue on the degraded graph; the runtime checks them."""

    after: str | None = None
    """The node whose completion the degraded graph builds on."""
    requires_channels: tuple[str, ...] = ()
    """Channels that must hold collected state."""
    reset_channels: tuple[str, ...] = ()
    """Channels to clear first."""
    compatible_from: tuple[str, ...] = ()
    """Schemas a run may come from; empty: any."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """The shadow of a cohort override."""

    schema_ref: str
    status: str
    probe_percentage: float
    selection: str
    side_effects: str


@dataclass(frozen=True, slots=True)
class Override:
    """One live override; times are microseconds since the epoch."""

    override_id: str
    graph: str
    scope_kind: str
    """``session``, ``cohort`` (also a whole graph: no dimensions), or a word this version does not know."""
    session_id: str | None
    dimensions: Mapping[str, str]
    tenant: str | None
    run_id: str | None
    source: str
    kind: str
    """``replace``, or ``pause``: wait, do not run the graph."""
    status: str
    mode: str
    """``degraded``, ``trial``, ``force`` or ``deny``."""
    attempt: int
    revision: int
    reason: str
    created_at_micros: int
    expires_at_micros: int
    schema_ref: str | None = None
    entry_point: str | None = None
    resume: Resume | None = None
    primary_schema_ref: str | None = None
    shadow: Shadow | None = None
    shadow_schema_ref: str | None = None
    default_schema_ref: str | None = None
    candidate_schema_ref: str | None = None
    trial_percentage: float | None = None
    selection: str | None = None
    attempt_salt: str | None = None
    intervention_id: str | None = None
    author: str | None = None
    raw: str = field(default="", compare=False, repr=False)
    """The record as it was read, JSON on one line."""

    @property
    def id(self) -> str:
        """The override's id: ``override_id``."""
        return self.override_id

    @property
    def expires_at(self) -> str:
        """Hard end, RFC 3339."""
        return format_time(self.expires_at_micros)

    @property
    def created_at(self) -> str:
        """When it was first published, RFC 3339."""
        return format_time(self.created_at_micros)

    def to_dict(self) -> dict[str, Any]:
        """The record as it was read."""
        found: dict[str, Any] = json.loads(self.raw)
        return found


@dataclass(frozen=True, slots=True)
class Intervention:
    """What a failed run waits for: the override made for it, and the intervention that made it."""

    override: Override
    intervention_id: str | None


def decode_override(value: bytes | str | Mapping[str, Any]) -> Override:
    """Reads an override as a runtime does: what resolution does without may be missing.

    A record without ``created_at`` is the oldest; a shadow block that is not complete runs no shadow and does not cost
    the session its degraded route. Raises UndecodableError for anything else that is no override.
    """
    fields, raw = _parsed(value)
    take = _Fields(fields)
    scope_kind, session_id, dimensions = take.scope()
    created_at = fields.get("created_at")
    return Override(
        override_id=take.text("override_id"),
        graph=take.text("graph"),
        scope_kind=scope_kind,
        session_id=session_id,
        dimensions=dimensions,
        tenant=take.optional("tenant"),
        run_id=take.optional("run_id"),
        source=take.text("source"),
        kind=take.text("kind") if "kind" in fields else "replace",
        status=take.text("status"),
        mode=take.text("mode"),
        attempt=take.whole("attempt"),
        revision=take.whole("revision"),
        reason=take.text("reason"),
        created_at_micros=MIN_MICROS if created_at is None else take.time("created_at"),
        expires_at_micros=take.time("expires_at"),
        schema_ref=take.optional("schema_ref"),
        entry_point=take.optional("entry_point"),
        resume=take.resume(),
        primary_schema_ref=take.optional("primary_schema_ref"),
        shadow=_shadow(fields.get("shadow")),
        shadow_schema_ref=take.optional("shadow_schema_ref"),
        default_schema_ref=take.optional("default_schema_ref"),
        candidate_schema_ref=take.optional("candidate_schema_ref"),
        trial_percentage=take.number("trial_percentage"),
        selection=take.optional("selection"),
        attempt_salt=take.optional("attempt_salt"),
        intervention_id=take.optional("intervention_id"),
        author=take.optional("author"),
        raw=raw,
    )


def _parsed(value: bytes | str | Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    if isinstance(value, Mapping):
        return value, json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, bytes) and value[:1] in (b"\x00", b"\xc3"):
        raise UndecodableError("Avro, which this client does not read: write overrides as JSON")
    try:
        text = value.decode("utf-8") if isinstance(value, bytes) else value
        fields = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise UndecodableError("not JSON") from None
    if not isinstance(fields, dict):
        raise UndecodableError("not an object")
    if "\n" in text or "\r" in text:
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return fields, text


def _no_constant(word: str) -> object:
    raise ValueError(word)


class _Fields:
    """Fields of a record by their type; what has another type is an error with the field's name."""

    __slots__ = ("fields",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise UndecodableError(f"{name} is not text")
        return value

    def optional(self, name: str) -> str | None:
        value = self.fields.get(name)
        if value is not None and not isinstance(value, str):
            raise UndecodableError(f"{name} is not text")
        return value

    def whole(self, name: str) -> int:
        value = self.fields.get(name)
        if type(value) is not int or not 0 <= value <= _U32_MAX:
            raise UndecodableError(f"{name} is not a whole number")
        return value

    def number(self, name: str) -> float | None:
        value = self.fields.get(name)
        if value is None:
            return None
        if type(value) not in (int, float):
            raise UndecodableError(f"{name} is not a number")
        return _as_float(value)

    def time(self, name: str) -> int:
        value = self.fields.get(name)
        micros = parse_time(value) if isinstance(value, str) else None
        if micros is None:
            raise UndecodableError(f"{name} is not an RFC 3339 time")
        return micros

    def scope(self) -> tuple[str, str | None, Mapping[str, str]]:
        scope = self.fields.get("scope")
        if not isinstance(scope, Mapping) or not all(isinstance(value, str) for value in scope.values()):
            raise UndecodableError("scope is not a map of text")
        kind = scope.get("kind", "cohort")
        if kind == "session":
            if "session_id" not in scope:
                raise UndecodableError("scope has no session_id")
            return "session", scope["session_id"], {}
        if kind == "cohort":
            return "cohort", None, {name: value for name, value in scope.items() if name != "kind"}
        # A graph with dimensions contradicts itself: nobody is meant rather than everybody.
        return ("cohort" if kind == "graph" and len(scope) == 1 else kind), None, {}

    def resume(self) -> Resume | None:
        value = self.fields.get("resume")
        if value is None:
            return None
        # A condition that is not known cannot be checked: the record is not used, as if it were malformed.
        if not isinstance(value, Mapping) or value.keys() - _RESUME_LISTS - {"after"}:
            raise UndecodableError("resume holds what this version does not know")
        after = value.get("after")
        if after is not None and not isinstance(after, str):
            raise UndecodableError("resume.after is not text")
        lists: dict[str, tuple[str, ...]] = {}
        for name in _RESUME_LISTS & value.keys():
            if not isinstance(value[name], list) or not all(isinstance(item, str) for item in value[name]):
                raise UndecodableError(f"resume.{name} is not a list of text")
            lists[name] = tuple(value[name])
        return Resume(after=after, **lists)


_RESUME_LISTS = frozenset(("requires_channels", "reset_channels", "compatible_from"))


def _shadow(value: object) -> Shadow | None:
    if not isinstance(value, Mapping):
        return None
    texts = [value.get(name) for name in ("schema_ref", "status", "selection", "side_effects")]
    percentage = value.get("probe_percentage")
    if not all(isinstance(text, str) for text in texts) or type(percentage) not in (int, float):
        return None
    schema_ref, status, selection, side_effects = map(str, texts)
    return Shadow(schema_ref, status, _as_float(percentage), selection, side_effects)


def _as_float(value: int | float | None) -> float:
    try:
        return float(value or 0)
    except OverflowError:
        return float("inf")


def unusable(record: Override) -> str | None:
    """Why a record can match nobody, whatever the context and the time: the first of these; None: it is usable."""
    if record.status != "active":
        return "status"
    if record.mode not in ("degraded", "trial", "force", "deny"):
        return "mode"
    if record.kind not in ("replace", "pause"):
        return "kind"
    if record.mode in ("force", "deny") and record.source != "operator":
        return "source"
    if record.mode != "deny" and record.kind != "pause" and record.schema_ref is None:
        return "schema"
    if not _copies_agree(record):
        return "copies"
    if record.scope_kind not in ("session", "cohort"):
        return "scope"
    if not all(name in RANKS or name.startswith("attributes.") for name in record.dimensions):
        return "scope"
    return None


def _copies_agree(record: Override) -> bool:
    shadow = record.shadow.schema_ref if record.shadow else None
    if not _agree(shadow, record.shadow_schema_ref):
        return False
    if record.mode != "trial":
        return True
    candidate = record.candidate_schema_ref
    return (
        record.default_schema_ref == record.schema_ref
        and candidate is not None
        and _agree(candidate, record.primary_schema_ref)
    )


def _agree(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other
