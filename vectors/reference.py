"""Override resolution as the contract has it, straight and slow: the reference of the vectors."""

import datetime
import json
import re
from fractions import Fraction


# ---------------------------------------------------------------- murmur3, buckets

MASK = 0xFFFFFFFF
BUCKETS = 100_000


def rotl(x, r):
    return ((x << r) | (x >> (32 - r))) & MASK


def scramble(k):
    return rotl(k * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK


def murmur3_x86_32(data, seed=0):
    h = seed
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        h = rotl(h ^ scramble(int.from_bytes(data[i : i + 4], "little")), 13)
        h = (h * 5 + 0xE6546B64) & MASK
    if whole < len(data):
        h ^= scramble(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    h = (h ^ (h >> 16)) * 0x85EBCA6B & MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & MASK
    return h ^ (h >> 16)


def selection_hash(purpose, override_id, attempt_salt, session_id):
    key = "\x1f".join((purpose, override_id, attempt_salt, session_id))
    return murmur3_x86_32(key.encode("utf-8"))


def bucket(purpose, override_id, attempt_salt, session_id):
    return selection_hash(purpose, override_id, attempt_salt, session_id) * BUCKETS >> 32


def threshold(percentage):
    """How many buckets a percentage covers: the nearest whole number of thousandths.

    In floating point 2.007 * 1000 is a hair above 2007, which would let in bucket 2007.
    """
    return round(percentage * 1000)


def selected(purpose, record, context, percentage):
    session_id = context.get("session_id") or ""
    if session_id == "":
        return False
    salt = record.get("attempt_salt") or ""
    return bucket(purpose, record["override_id"], salt, session_id) < threshold(percentage or 0)


# ---------------------------------------------------------------- reference

RANKS = ("tenant", "region", "app_version", "graph_version")
RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))"
)


def instant(text):
    """Seconds as an exact fraction; None if missing or not RFC 3339."""
    found = RFC3339.fullmatch(text) if isinstance(text, str) else None
    if not found:
        return None
    year, month, day, hour, minute, second, fraction, sign, off_h, off_m = found.groups()
    try:
        days = datetime.date(int(year), int(month), int(day)).toordinal()
    except ValueError:
        return None
    seconds = days * 86400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    offset = int(off_h) * 3600 + int(off_m) * 60 if sign else 0
    seconds -= -offset if sign == "-" else offset
    return seconds + Fraction("0" + fraction if fraction else 0)


def text(value):
    """A dimension's value as compared: missing is "", what is not a string its JSON text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def dimension_rank(name):
    return (RANKS.index(name), "") if name in RANKS else (len(RANKS), name)


def dimensions(record):
    """The dimensions of a cohort scope, {} of a graph scope, None of any other."""
    scope = record.get("scope")
    if not isinstance(scope, dict):
        return None
    kind = scope.get("kind", "cohort")
    rest = {name: value for name, value in scope.items() if name != "kind"}
    if kind == "graph" and not rest:
        return {}
    if kind != "cohort":
        return None
    if all(name in RANKS or name.startswith("attributes.") for name in rest):
        return rest
    return None


def is_session(record):
    scope = record.get("scope")
    return isinstance(scope, dict) and scope.get("kind") == "session"


def value_of(context, name):
    if name in RANKS:
        return text(context.get(name))
    return text((context.get("attributes") or {}).get(name.removeprefix("attributes.")))


def in_scope(record, context):
    if is_session(record):
        session_id = record["scope"].get("session_id")
        return session_id is not None and session_id == context.get("session_id")
    dims = dimensions(record)
    return dims is not None and all(text(v) == value_of(context, n) for n, v in dims.items())


def copies_agree(record):
    if record.get("mode") == "trial":
        candidate = record.get("candidate_schema_ref")
        primary = record.get("primary_schema_ref")
        if record.get("default_schema_ref") != record.get("schema_ref"):
            return False
        if candidate is None or primary not in (None, candidate):
            return False
    copies = {(record.get("shadow") or {}).get("schema_ref"), record.get("shadow_schema_ref")}
    return len(copies - {None}) < 2


def kind_of(record):
    return record.get("kind") or "replace"


def matches(record, graph, context, now):
    mode, kind, tenant = record.get("mode"), kind_of(record), record.get("tenant")
    expires_at = instant(record.get("expires_at"))
    return (
        record.get("graph") == graph
        and record.get("status") == "active"
        and mode in ("degraded", "trial", "force", "deny")
        and kind in ("replace", "pause")
        and (mode not in ("force", "deny") or record.get("source") == "operator")
        and (mode == "deny" or kind == "pause" or record.get("schema_ref") is not None)
        and expires_at is not None
        and expires_at > instant(now)
        and copies_agree(record)
        and tenant in (None, context.get("tenant"))
        and in_scope(record, context)
    )


def precedence(record):
    """Sort key: the winner comes first."""
    tier = {"deny": 0, "force": 1}.get(record["mode"], 2)
    dims = [] if is_session(record) else sorted(map(dimension_rank, dimensions(record)))
    created_at = instant(record.get("created_at"))
    age = (1, 0) if created_at is None else (0, -created_at)
    return (tier, not is_session(record), -len(dims), dims, age, record["override_id"])


def result(schema_ref, route, reason, record=None, **more):
    record = record or {}
    found = {
        "schema_ref": schema_ref,
        "entry_point": None,
        "route": route,
        "shadow_schema_ref": None,
        "override_id": record.get("override_id"),
        "override_attempt": record.get("attempt"),
        "kind": "replace",
        "reason": reason,
        "losers": [],
    }
    found.update(more)
    return found


def ids(records, winner):
    return [r["override_id"] for r in records if r is not winner]


def schema_of(record, global_schema):
    return record.get("schema_ref") or global_schema


def shadow_of(record, context):
    shadow = record.get("shadow") or {}
    if record["mode"] not in ("degraded", "trial") or shadow.get("status") != "active":
        return None
    if not selected("shadow", record, context, shadow.get("probe_percentage")):
        return None
    return shadow.get("schema_ref")


def at_start(matching, context, global_schema):
    if not matching:
        return result(global_schema, "primary", "default")
    winner = matching[0]
    losers = ids(matching, winner)
    mode = winner["mode"]
    if mode == "deny":
        return result(global_schema, "primary", "deny", winner, losers=losers)
    reason = "force" if mode == "force" else "session" if is_session(winner) else "cohort"
    if kind_of(winner) == "pause":
        schema_ref = schema_of(winner, global_schema)
        return result(schema_ref, "degraded", reason, winner, kind="pause", losers=losers)
    if mode == "trial" and selected("trial", winner, context, winner.get("trial_percentage")):
        return result(winner["candidate_schema_ref"], "trial", "trial", winner, losers=losers)
    schema_ref = winner["default_schema_ref"] if mode == "trial" else winner["schema_ref"]
    shadow = shadow_of(winner, context)
    return result(
        schema_ref, "degraded", reason, winner, shadow_schema_ref=shadow, losers=losers
    )


def as_it_runs(current, global_schema):
    return result(current, "primary" if current == global_schema else "degraded", "current")


def at_resume(matching, context, global_schema):
    started = at_start(matching, context, global_schema)
    current = context.get("current_schema_ref")
    if current is None:
        return started
    if current == started["schema_ref"]:
        return {**started, "reason": "current", "losers": []}
    return as_it_runs(current, global_schema)


def at_failure(matching, context, global_schema):
    if matching and matching[0]["mode"] == "deny":
        return at_start(matching, context, global_schema)
    for record in matching:
        same_run = record.get("run_id") == context.get("run_id")
        if is_session(record) and record["mode"] != "force" and same_run:
            return result(
                schema_of(record, global_schema),
                "degraded",
                "session",
                record,
                entry_point=record.get("entry_point"),
                kind=kind_of(record),
                losers=ids(matching, record),
            )
    current = context.get("current_schema_ref")
    return as_it_runs(global_schema if current is None else current, global_schema)


def resolve(graph, context, overrides, now):
    global_schema = graph + ":" + (context.get("graph_version") or "")
    matching = [r for r in overrides if matches(r, graph, context, now)]
    matching.sort(key=precedence)
    phase = {"resume": at_resume, "failed": at_failure}.get(context.get("phase"), at_start)
    return phase(matching, context, global_schema)
