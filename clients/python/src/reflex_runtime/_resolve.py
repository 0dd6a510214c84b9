"""What a runtime computes: which graph schema to run, from the live overrides, without a call to anybody.

Order of the winner: operator deny > operator force > session > cohort with more dimensions > dimension rank
(tenant > region > app_version > graph_version > attributes by name) > newer created_at > smaller id. Records that are
expired, of another tenant, or hold a word this version does not know are ignored; without a winner the answer is the
global schema.
"""

from typing import Any, NamedTuple

from ._bucket import selected
from ._context import Context
from ._records import Override
from ._table import Entry, OverrideTable


class Resolution(NamedTuple):
    """One answer of ``resolve``."""

    schema_ref: str
    """The schema to run, ``graph_name:version``."""
    entry_point: str | None = None
    """The node where a failed run goes on; phase failed only."""
    route: str = "primary"
    """primary, degraded or trial: the word to put on events."""
    shadow_schema_ref: str | None = None
    """The side-effect-free copy to run beside it."""
    override_id: str | None = None
    """The override that decided: the id to put on events."""
    override_attempt: int | None = None
    """Its attempt, to put on events."""
    kind: str = "replace"
    """replace, or pause: wait, and do not run the graph."""
    reason: str = "default"
    """What decided: default, deny, force, session, cohort, trial or current."""
    override: Override | None = None
    """The record that decided, with the conditions to resume."""

    def to_dict(self, losers: tuple[str, ...] = ()) -> dict[str, Any]:
        """The JSON form, the same in every language."""
        found = self._asdict()
        del found["override"]
        return {**found, "losers": list(losers)}


def resolve(table: OverrideTable, graph: str, context: Context, now: int) -> Resolution:
    """Which schema to run; ``now`` in microseconds, by the runtime's own clock corrected by the measured offset."""
    matching = table.matching(graph, context, now)
    if not matching:
        return without_override(graph, context)
    return _decide(matching, graph, context)


def explain(table: OverrideTable, graph: str, context: Context, now: int) -> tuple[Resolution, tuple[str, ...]]:
    """As ``resolve``, with the ids of the matching records that lost, best first."""
    matching = table.matching(graph, context, now)
    found = _decide(matching, graph, context) if matching else without_override(graph, context)
    # A kept schema was not chosen among records: nobody lost.
    if found.override_id is None or found.reason == "current":
        return found, ()
    ids = (entry.record.override_id for entry in sorted(matching, key=_rank))
    return found, tuple(other for other in ids if other != found.override_id)


def without_override(graph: str, context: Context) -> Resolution:
    """The answer where no record matches: the schema the run has, or the global one."""
    global_schema = f"{graph}:{context.graph_version or ''}"
    if context.phase == "start":
        return Resolution(global_schema)
    current = context.current_schema_ref
    if current is None:
        if context.phase == "resume":
            return Resolution(global_schema)
        current = global_schema
    return Resolution(current, route="primary" if current == global_schema else "degraded", reason="current")


def _rank(entry: Entry) -> tuple[Any, ...]:
    return entry.rank


def _decide(matching: list[Entry], graph: str, context: Context) -> Resolution:
    first = matching[0] if len(matching) == 1 else min(matching, key=_rank)
    global_schema = f"{graph}:{context.graph_version or ''}"
    phase = context.phase
    if phase == "start":
        return _follow(first, global_schema, context)
    if phase == "resume":
        started = _follow(first, global_schema, context)
        current = context.current_schema_ref
        if current is None:
            return started
        if current == started.schema_ref:
            return started._replace(reason="current")
        return without_override(graph, context)
    if first.record.mode == "deny":
        return _follow(first, global_schema, context)
    of_run = [e for e in matching if e.session and not e.command and e.record.run_id == context.run_id]
    if not of_run:
        return without_override(graph, context)
    record = min(of_run, key=_rank).record
    return Resolution(
        global_schema if record.schema_ref is None else record.schema_ref,
        record.entry_point,
        "degraded",
        None,
        record.override_id,
        record.attempt,
        record.kind,
        "session",
        record,
    )


def _follow(winner: Entry, global_schema: str, context: Context) -> Resolution:
    """What the winner says for a run that starts."""
    record = winner.record
    mode, winner_id, attempt = record.mode, record.override_id, record.attempt
    if mode == "deny":
        return Resolution(global_schema, None, "primary", None, winner_id, attempt, "replace", "deny", record)
    reason = "force" if mode == "force" else "session" if winner.session else "cohort"
    schema_ref = global_schema if record.schema_ref is None else record.schema_ref
    if record.kind == "pause":
        return Resolution(schema_ref, None, "degraded", None, winner_id, attempt, "pause", reason, record)
    if mode == "trial" and _selected("trial", record, context, record.trial_percentage or 0.0):
        candidate = global_schema if record.candidate_schema_ref is None else record.candidate_schema_ref
        return Resolution(candidate, None, "trial", None, winner_id, attempt, "replace", "trial", record)
    shadow = record.shadow
    runs = (
        shadow is not None
        and shadow.status == "active"
        and mode != "force"
        and _selected("shadow", record, context, shadow.probe_percentage)
    )
    beside = shadow.schema_ref if shadow is not None and runs else None
    return Resolution(schema_ref, None, "degraded", beside, winner_id, attempt, "replace", reason, record)


def _selected(purpose: str, record: Override, context: Context, percentage: float) -> bool:
    return selected(purpose, record.override_id, record.attempt_salt or "", context.session_id or "", percentage)
