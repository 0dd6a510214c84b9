"""Who asks: the run and the dimensions of its session."""

import json
from collections.abc import Mapping
from typing import Any

PHASES = ("start", "resume", "failed")


def json_text(value: object) -> str | None:
    """What a dimension is compared as: text as it is, anything else as its JSON text; None where there is none."""
    if value is None or isinstance(value, str):
        return value
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return str(int(value))
    if isinstance(value, (int, float)):
        return _float_text(float(value))
    try:
        return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None


def _float_text(value: float) -> str | None:
    """Shortest digits, spelled as Reflex spells them: 100.0, 1e+16, 1e-7, but 0.00001."""
    if value != value or value in (float("inf"), float("-inf")):
        return None
    text = repr(value)
    digits, e, exponent = text.partition("e")
    if not e:
        return text
    power = int(exponent)
    if power == -5:
        sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
        return sign + "0.0000" + digits.replace(".", "")
    return f"{digits}e{power:+d}"


def _plain(value: object) -> object:
    """Lists and maps as JSON has them; a map's names are text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


OWNER = "\0owner"
"""Name under which a context holds its tenant for records that are for one tenant; no dimension has it."""
_NOBODY = "\0nobody"


class Values(dict[str, str]):
    """Dimensions of a context by name; a missing one is empty, and matches an empty value only."""

    __slots__ = ()

    def __missing__(self, _: str) -> str:
        return ""


def _text(value: object) -> str | None:
    """As ``json_text``; what has no JSON form is absent."""
    try:
        return json_text(value)
    except (ArithmeticError, ValueError, TypeError, RecursionError):
        return None


class Context:
    """One question to ``resolve``; what is None is absent.

    ``phase`` is ``start`` (also what an unknown one means), ``resume`` or ``failed``; ``current_schema_ref`` is the
    schema the run has already, unused at start; ``tenant``, ``region``, ``app_version``, ``graph_version`` and
    ``attributes`` are the dimensions a cohort is made of. Not changed after it was made.
    """

    __slots__ = ("_values", "current_schema_ref", "graph_version", "phase", "run_id", "session_id", "tenant")

    session_id: str | None
    run_id: str | None
    phase: str
    current_schema_ref: str | None
    tenant: str | None
    graph_version: str | None

    def __init__(
        self,
        session_id: str | None = None,
        run_id: str | None = None,
        phase: str = "start",
        *,
        current_schema_ref: str | None = None,
        tenant: str | None = None,
        region: str | None = None,
        app_version: str | None = None,
        graph_version: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.session_id = json_text(session_id)
        self.run_id = json_text(run_id)
        self.phase = phase if phase in PHASES else "start"
        self.current_schema_ref = json_text(current_schema_ref)
        self.tenant = tenant = json_text(tenant)
        self.graph_version = graph_version = json_text(graph_version)
        values = Values()
        values[OWNER] = _NOBODY if tenant is None else tenant
        values["tenant"] = tenant or ""
        values["graph_version"] = graph_version or ""
        values["region"] = _text(region) or ""
        values["app_version"] = _text(app_version) or ""
        if attributes:
            for name, value in attributes.items():
                text = value if isinstance(value, str) else _text(value)
                if text:
                    values[f"attributes.{name}"] = text
        self._values = values

    @property
    def region(self) -> str | None:
        """Dimension ``region``."""
        return self._values["region"] or None

    @property
    def app_version(self) -> str | None:
        """Dimension ``app_version``."""
        return self._values["app_version"] or None

    def value(self, dimension: str) -> str:
        """Value of ``tenant``, ``region``, ``app_version``, ``graph_version`` or ``attributes.NAME``, or empty text."""
        return self._values[dimension]

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> "Context":
        """From the JSON form; unknown names are ignored."""
        get = mapping.get
        phase, attributes = get("phase"), get("attributes")
        return cls(
            get("session_id"),
            get("run_id"),
            phase if isinstance(phase, str) else "start",
            current_schema_ref=get("current_schema_ref"),
            tenant=get("tenant"),
            region=get("region"),
            app_version=get("app_version"),
            graph_version=get("graph_version"),
            attributes=attributes if isinstance(attributes, Mapping) else None,
        )

    def __repr__(self) -> str:
        return (
            f"Context(session_id={self.session_id!r}, run_id={self.run_id!r}, phase={self.phase!r}, "
            f"current_schema_ref={self.current_schema_ref!r}, dimensions={dict(self._values)!r})"
        )
