"""Test vectors of override resolution: what every runtime must compute, in every language.

    python3 resolve.py            writes resolve.json beside this file
    python3 resolve.py --check    exits 1 if resolve.json differs

Inputs and the expected core of every case are written by hand. The whole expected
value comes from the reference below, which must agree with the hand-written part.
"""

import datetime
import json
import pathlib
import re
import sys
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


# ---------------------------------------------------------------- hashes and buckets, by hand

HASHES = [  # text, seed, hash
    ("", 0, 0x00000000),
    ("", 1, 0x514E28B7),
    ("test", 0, 0xBA6BD213),
    ("Hello, world!", 0, 0xC0363E43),
    ("", 0xFFFFFFFF, 0x81F16F39),
    ("a", 0x9747B28C, 0x7FA09EA6),
    ("aa", 0x9747B28C, 0x5D211726),
    ("aaa", 0x9747B28C, 0x283E0130),
    ("aaaa", 0x9747B28C, 0x5A97808A),
    ("ab", 0x9747B28C, 0x74875592),
    ("abc", 0x9747B28C, 0xC84A62DD),
    ("abcd", 0x9747B28C, 0xF0478627),
    ("Hello, world!", 0x9747B28C, 0x24884CBA),
    ("ππππππππ", 0x9747B28C, 0xD58063C1),
    ("The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
]

TABLE = [  # purpose, session_id, hash, bucket; override iv-001, no salt
    ("shadow", "sess-000001", 0x22E8EB68, 13636),
    ("trial", "sess-000001", 0x1D0FF5D3, 11352),
    ("shadow", "sess-000002", 0x9D8C87ED, 61542),
    ("trial", "sess-000002", 0x6CCD200F, 42500),
    ("shadow", "s", 0x32248714, 19586),
    ("trial", "s", 0x95C19731, 58498),
    ("shadow", "日本", 0x9CB6D566, 61216),
    ("trial", "日本", 0xC6E161E0, 77687),
]

BUCKET_INPUTS = [  # purpose, override_id, attempt_salt, session_id
    ("trial", "iv-001", "1", "sess-000001"),
    ("trial", "iv-001", "2", "sess-000001"),
    ("shadow", "iv-001", "1", "sess-000001"),
    ("shadow", "iv-001", "2", "sess-000001"),
    ("trial", "iv-002", "", "sess-000001"),
    ("shadow", "iv-002", "", "sess-000001"),
    ("trial", "5f0c9a52-6c1e-5d0a-9a50-2f0f3a1f9a11", "", "sess-000001"),
    ("trial", "5f0c9a52-6c1e-5d0a-9a50-2f0f3a1f9a11", "attempt-1", "sess-000001"),
    ("trial", "iv-001", "", "sess-106662"),
    ("trial", "iv-001", "", "sess-002554"),
    ("trial", "iv-001", "", "sess-009483"),
    ("trial", "iv-001", "", "sess-077910"),
    ("trial", "iv-001", "", "sess-056425"),
    ("trial", "iv-001", "", "sess-084897"),
    ("shadow", "iv-001", "", "sess-006160"),
    ("shadow", "iv-001", "", "sess-034532"),
    ("shadow", "iv-001", "", "sess-211826"),
    ("shadow", "iv-001", "", "sess-058046"),
    ("trial", "iv-001", "", ""),
    ("trial", "", "", "sess-000001"),
    ("trial", "iv-001", "", "сессия-42"),
    ("trial", "iv-001", "", "\u00e9"),
    ("trial", "iv-001", "", "e\u0301"),
    ("trial", "iv-001", "", "\U0001f600"),
    ("shadow", "iv-001", "", "\U0001f600"),
    ("trial", "iv-001", "日本", "日本"),
    ("trial", "iv-001", "", " sess-000001"),
    ("trial", "iv-001", "", "SESS-000001"),
]

# ---------------------------------------------------------------- records and contexts

GRAPH = "refund_graph"
NOW = "2026-11-30T07:00:00Z"
GLOBAL = "refund_graph:v1"
DEGRADED = "degraded_refund_graph:v1"
MINIMAL = "minimal_refund_graph:v1"
SHADOW = "shadow_refund_graph:v1"
FIXED = "refund_graph:v2"
ENTRY = "log_refund_request"
EARLY, LATE = "2026-11-30T05:00:00Z", "2026-11-30T06:00:00Z"
ALL = {"kind": "graph"}
MINE = {"kind": "session", "session_id": "sess_1234"}
OMIT = object()


def changed(base, changes):
    return {k: v for k, v in {**base, **changes}.items() if v is not OMIT}


def session(override_id, **changes):
    base = {
        "override_id": override_id,
        "graph": GRAPH,
        "scope": MINE,
        "tenant": "t-7",
        "run_id": "run_77",
        "source": "auto",
        "kind": "replace",
        "schema_ref": DEGRADED,
        "entry_point": ENTRY,
        "resume": {
            "after": "request_evidence",
            "requires_channels": ["order", "evidence"],
            "reset_channels": [],
            "compatible_from": [GLOBAL],
        },
        "status": "active",
        "mode": "degraded",
        "attempt": 0,
        "revision": 1,
        "intervention_id": "int_1",
        "reason": "evidence_analysis_no_progress",
        "created_at": EARLY,
        "expires_at": "2026-12-01T05:00:00Z",
    }
    return changed(base, changes)


def scoped(override_id, scope, **changes):
    base = {
        "override_id": override_id,
        "graph": GRAPH,
        "scope": scope,
        "tenant": None,
        "source": "auto",
        "kind": "replace",
        "schema_ref": DEGRADED,
        "primary_schema_ref": GLOBAL,
        "status": "active",
        "mode": "degraded",
        "attempt": 0,
        "revision": 1,
        "intervention_id": "int_2",
        "reason": "evidence_analysis_no_progress",
        "created_at": EARLY,
        "expires_at": "2026-12-01T05:00:00Z",
    }
    return changed(base, changes)


def cohort(override_id, dims, **changes):
    return scoped(override_id, {"kind": "cohort", **dims}, **changes)


def operator(override_id, mode, scope, **changes):
    base = {
        "override_id": override_id,
        "graph": GRAPH,
        "scope": scope,
        "tenant": None,
        "source": "operator",
        "kind": "replace",
        "schema_ref": MINIMAL if mode == "force" else OMIT,
        "status": "active",
        "mode": mode,
        "attempt": 0,
        "revision": 1,
        "reason": "payments provider maintenance",
        "author": "refunds-oncall",
        "created_at": EARLY,
        "expires_at": "2026-12-01T05:00:00Z",
    }
    return changed(base, changes)


def deny(override_id, scope, **changes):
    return operator(override_id, "deny", scope, **changes)


def force(override_id, scope, **changes):
    return operator(override_id, "force", scope, **changes)


def trial_fields(percentage, **changes):
    base = {
        "mode": "trial",
        "default_schema_ref": DEGRADED,
        "candidate_schema_ref": GLOBAL,
        "trial_percentage": percentage,
        "selection": "deterministic",
        "attempt_salt": "",
    }
    return {**base, **changes}


def trial(percentage, **changes):
    return cohort("iv-001", {"region": "eu-west"}, **trial_fields(percentage, **changes))


def shadow_block(percentage, **changes):
    base = {
        "schema_ref": SHADOW,
        "status": "active",
        "probe_percentage": percentage,
        "selection": "deterministic",
        "side_effects": "disabled",
    }
    return changed(base, changes)


def shadowed(percentage, **changes):
    fields = {"shadow": shadow_block(percentage), **changes}
    return cohort("iv-001", {"region": "eu-west"}, **fields)


def ctx(phase="start", **changes):
    base = {
        "session_id": "sess_1234",
        "run_id": "run_77",
        "phase": phase,
        "tenant": "t-7",
        "region": "eu-west",
        "app_version": "6.4.1",
        "graph_version": "v1",
        "attributes": {"model": "m-1"},
    }
    return changed(base, changes)


def resume(current, **changes):
    return ctx("resume", current_schema_ref=current, **changes)


def failed(current, **changes):
    return ctx("failed", current_schema_ref=current, **changes)


def one(session_id, phase="start", **changes):
    return ctx(phase, session_id=session_id, **changes)


# ---------------------------------------------------------------- cases

CASES = []


def topic_key(record):
    scope = record.get("scope") or {}
    dims = {k: v for k, v in scope.items() if (k, v) not in (("kind", "cohort"), ("kind", "graph"))}
    owner = "operator" if record.get("source") == "operator" else "auto"
    return json.dumps([record.get("graph"), dims, owner, record.get("tenant")], sort_keys=True)


def case(name, overrides, context, core, override_id=None, *, losers=(), entry_point=None,
         shadow=None, kind="replace", attempt=0, now=NOW):
    """`core` = (schema_ref, route, reason); the rest of the expected value is by hand too."""
    schema_ref, route, reason = core
    by_hand = {
        "schema_ref": schema_ref,
        "entry_point": entry_point,
        "route": route,
        "shadow_schema_ref": shadow,
        "override_id": override_id,
        "override_attempt": None if override_id is None else attempt,
        "kind": kind,
        "reason": reason,
        "losers": list(losers),
    }
    expected = resolve(GRAPH, context, overrides, now)
    assert expected == by_hand, f"{name}: computed {expected}, by hand {by_hand}"
    other_way = resolve(GRAPH, context, overrides[::-1], now)
    assert expected == other_way, f"{name}: depends on the order of the records"
    keys = [topic_key(r) for r in overrides]
    assert len(set(keys)) == len(keys), f"{name}: two records with one key"
    assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", name), name
    assert all(name != c["name"] for c in CASES), f"{name}: twice"
    CASES.append({"name": name, "now": now, "graph": GRAPH, "overrides": overrides,
                  "context": context, "expected": expected})


def both(name, overrides, *rest, **more):
    """The same records listed both ways: the order on the topic decides nothing."""
    case(name, overrides, *rest, **more)
    case(name + "_listed_the_other_way", overrides[::-1], *rest, **more)


DEFAULT = (GLOBAL, "primary", "default")
DENIED = (GLOBAL, "primary", "deny")
FORCED = (MINIMAL, "degraded", "force")
BY_SESSION = (DEGRADED, "degraded", "session")
BY_COHORT = (DEGRADED, "degraded", "cohort")
TRIED = (GLOBAL, "trial", "trial")
RUNS_GLOBAL = (GLOBAL, "primary", "current")
RUNS_DEGRADED = (DEGRADED, "degraded", "current")


def cases_of_the_default():
    case("no_record_gives_the_global_schema", [], ctx(), DEFAULT)
    case("the_global_schema_has_the_graph_version_of_the_context", [], ctx(graph_version="v2"),
         ("refund_graph:v2", "primary", "default"))
    case("start_does_not_look_at_current_schema_ref", [], ctx(current_schema_ref=DEGRADED),
         DEFAULT)
    # the record's run is another one: failed would not take it, resume would keep the current
    other_run = [session("ovr_s", run_id="run_1")]
    case("missing_phase_is_start", other_run, ctx(OMIT, current_schema_ref=MINIMAL),
         BY_SESSION, "ovr_s")
    case("null_phase_is_start", other_run, ctx(None, current_schema_ref=MINIMAL),
         BY_SESSION, "ovr_s")
    case("unknown_phase_is_start", other_run, ctx("paused", current_schema_ref=MINIMAL),
         BY_SESSION, "ovr_s")
    case("start_takes_a_session_record_of_any_run", other_run, ctx(), BY_SESSION, "ovr_s")
    case("start_gives_no_entry_point", [session("ovr_s")], ctx(), BY_SESSION, "ovr_s")
    case("the_attempt_of_the_record_is_carried", [session("ovr_s", attempt=2)], ctx(),
         BY_SESSION, "ovr_s", attempt=2)


def cases_of_the_precedence():
    both("deny_on_the_graph_beats_force_on_the_session",
         [deny("ovr_d", ALL), force("ovr_f", MINE, created_at=LATE)], ctx(), DENIED, "ovr_d",
         losers=["ovr_f"])
    both("deny_beats_force_on_the_same_scope",
         [deny("ovr_z", ALL), force("ovr_f", ALL, tenant="t-7", created_at=LATE)], ctx(),
         DENIED, "ovr_z", losers=["ovr_f"])
    both("deny_beats_session", [deny("ovr_z", ALL), session("ovr_s", created_at=LATE)], ctx(),
         DENIED, "ovr_z", losers=["ovr_s"])
    both("deny_beats_cohort",
         [deny("ovr_z", ALL), cohort("ovr_c", {"region": "eu-west"}, created_at=LATE)], ctx(),
         DENIED, "ovr_z", losers=["ovr_c"])
    both("deny_on_the_session_beats_deny_on_a_cohort",
         [deny("ovr_z", MINE, attempt=1),
          deny("ovr_d", {"kind": "cohort", "region": "eu-west"}, created_at=LATE)],
         ctx(), DENIED, "ovr_z", losers=["ovr_d"], attempt=1)
    both("force_on_the_graph_beats_session",
         [force("ovr_z", ALL), session("ovr_s", created_at=LATE)], ctx(), FORCED, "ovr_z",
         losers=["ovr_s"])
    both("force_beats_cohort_with_more_dimensions",
         [force("ovr_z", ALL), cohort("ovr_c", {"region": "eu-west", "app_version": "6.4.1"},
                                      created_at=LATE)],
         ctx(), FORCED, "ovr_z", losers=["ovr_c"])
    both("force_on_the_session_beats_force_on_a_cohort",
         [force("ovr_z", MINE),
          force("ovr_f", {"kind": "cohort", "region": "eu-west"}, schema_ref=DEGRADED,
                created_at=LATE)],
         ctx(), FORCED, "ovr_z", losers=["ovr_f"])
    both("force_with_more_dimensions_beats_force_with_fewer",
         [force("ovr_z", {"kind": "cohort", "region": "eu-west"}),
          force("ovr_f", ALL, schema_ref=DEGRADED, created_at=LATE)],
         ctx(), FORCED, "ovr_z", losers=["ovr_f"])
    both("session_beats_a_cohort_of_four_dimensions",
         [session("ovr_z"),
          cohort("ovr_c", {"tenant": "t-7", "region": "eu-west", "app_version": "6.4.1",
                           "graph_version": "v1"}, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_SESSION, "ovr_z", losers=["ovr_c"])
    both("session_beats_a_degraded_cohort_of_an_operator",
         [session("ovr_z"),
          operator("ovr_o", "degraded", ALL, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_SESSION, "ovr_z", losers=["ovr_o"])
    both("a_newer_degraded_record_of_an_operator_beats_the_automatic_one",
         [session("ovr_a"),
          operator("ovr_o", "degraded", MINE, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), (MINIMAL, "degraded", "session"), "ovr_o", losers=["ovr_a"])
    both("an_older_degraded_record_of_an_operator_loses_to_the_automatic_one",
         [session("ovr_z", created_at=LATE),
          operator("ovr_o", "degraded", MINE, schema_ref=MINIMAL)],
         ctx(), BY_SESSION, "ovr_z", losers=["ovr_o"])
    both("two_dimensions_beat_one",
         [cohort("ovr_z", {"app_version": "6.4.1", "region": "eu-west"}),
          cohort("ovr_c", {"region": "eu-west"}, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("two_low_dimensions_beat_the_tenant",
         [cohort("ovr_z", {"graph_version": "v1", "attributes.model": "m-1"}),
          cohort("ovr_c", {"tenant": "t-7"}, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("three_dimensions_beat_two",
         [cohort("ovr_z", {"app_version": "6.4.1", "graph_version": "v1",
                           "attributes.model": "m-1"}),
          cohort("ovr_c", {"tenant": "t-7", "region": "eu-west"}, schema_ref=MINIMAL,
                 created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("one_dimension_beats_the_graph_scope",
         [cohort("ovr_z", {"attributes.model": "m-1"}),
          scoped("ovr_c", ALL, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("the_tenant_of_the_record_is_not_a_dimension",
         [cohort("ovr_z", {"app_version": "6.4.1"}),
          scoped("ovr_c", ALL, tenant="t-7", schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    rich = ctx(attributes={"model": "m-1", "tier": "gold", "tenant": "t-7"})
    steps = [
        ("tenant", "t-7", "region", "eu-west"),
        ("region", "eu-west", "app_version", "6.4.1"),
        ("app_version", "6.4.1", "graph_version", "v1"),
        ("graph_version", "v1", "attributes.model", "m-1"),
        ("attributes.model", "m-1", "attributes.tier", "gold"),
        ("graph_version", "v1", "attributes.tenant", "t-7"),
        ("attributes.model", "m-1", "attributes.tenant", "t-7"),
    ]
    for high, high_value, low, low_value in steps:
        both(f"{high}_ranks_above_{low}".replace(".", "_"),
             [cohort("ovr_z", {high: high_value}),
              cohort("ovr_c", {low: low_value}, schema_ref=MINIMAL, created_at=LATE)],
             rich, BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("the_first_dimension_in_rank_decides_between_pairs",
         [cohort("ovr_z", {"graph_version": "v1", "tenant": "t-7"}),
          cohort("ovr_c", {"region": "eu-west", "app_version": "6.4.1"}, schema_ref=MINIMAL,
                 created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("the_second_dimension_decides_where_the_first_is_equal",
         [cohort("ovr_z", {"app_version": "6.4.1", "region": "eu-west"}),
          cohort("ovr_c", {"region": "eu-west", "graph_version": "v1"}, schema_ref=MINIMAL,
                 created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    both("the_third_dimension_decides_where_two_are_equal",
         [cohort("ovr_z", {"attributes.model": "m-1", "tenant": "t-7", "region": "eu-west"}),
          cohort("ovr_c", {"tenant": "t-7", "region": "eu-west", "attributes.tier": "gold"},
                 schema_ref=MINIMAL, created_at=LATE)],
         rich, BY_COHORT, "ovr_z", losers=["ovr_c"])


def cases_of_the_last_ties():
    eu = {"region": "eu-west"}

    def pair(first_id, first_at, second_id, second_at):
        return [cohort(first_id, eu, created_at=first_at),
                cohort(second_id, eu, tenant="t-7", schema_ref=MINIMAL, created_at=second_at)]

    minimal = (MINIMAL, "degraded", "cohort")
    both("the_newer_record_wins_over_the_smaller_id", pair("ovr_b", LATE, "ovr_a", EARLY), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("the_newer_record_wins_when_it_is_the_other_one", pair("ovr_a", EARLY, "ovr_b", LATE),
         ctx(), minimal, "ovr_b", losers=["ovr_a"])
    both("equal_created_at_the_smaller_id_wins", pair("ovr_a", LATE, "ovr_b", LATE), ctx(),
         BY_COHORT, "ovr_a", losers=["ovr_b"])
    both("equal_created_at_the_smaller_id_wins_when_it_is_the_other_one",
         pair("ovr_b", LATE, "ovr_a", LATE), ctx(), minimal, "ovr_a", losers=["ovr_b"])
    both("ids_are_compared_as_text_not_as_numbers", pair("ovr_9", LATE, "ovr_10", LATE), ctx(),
         minimal, "ovr_10", losers=["ovr_9"])
    both("ids_are_compared_with_capitals_first", pair("ovr_a", LATE, "ovr_B", LATE), ctx(),
         minimal, "ovr_B", losers=["ovr_a"])
    both("a_prefix_is_the_smaller_id", pair("ovr_a1", LATE, "ovr_a", LATE), ctx(),
         minimal, "ovr_a", losers=["ovr_a1"])
    both("created_at_east_of_utc_is_compared_as_an_instant",
         pair("ovr_b", "2026-11-30T06:00:00Z", "ovr_a", "2026-11-30T07:30:00+02:00"), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("created_at_west_of_utc_is_compared_as_an_instant",
         pair("ovr_b", "2026-11-30T01:00:00-05:30", "ovr_a", "2026-11-30T06:00:00Z"), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("created_at_equal_in_two_offsets_falls_to_the_id",
         pair("ovr_b", "2026-11-30T06:00:00Z", "ovr_a", "2026-11-30T08:00:00+02:00"), ctx(),
         minimal, "ovr_a", losers=["ovr_b"])
    both("created_at_across_midnight_is_compared_as_an_instant",
         pair("ovr_b", "2026-11-29T23:30:00-02:00", "ovr_a", "2026-11-30T01:00:00Z"), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("a_fraction_is_newer_than_none",
         pair("ovr_b", "2026-11-30T06:00:00.000001Z", "ovr_a", "2026-11-30T06:00:00Z"), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("fractions_are_compared_by_value_not_by_digits",
         pair("ovr_b", "2026-11-30T06:00:00.1Z", "ovr_a", "2026-11-30T06:00:00.09Z"), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("fractions_of_different_length_may_be_equal",
         pair("ovr_b", "2026-11-30T06:00:00.5Z", "ovr_a", "2026-11-30T06:00:00.500000Z"), ctx(),
         minimal, "ovr_a", losers=["ovr_b"])
    both("nine_fraction_digits_may_equal_six",
         pair("ovr_b", "2026-11-30T06:00:00.123456000Z", "ovr_a", "2026-11-30T06:00:00.123456Z"),
         ctx(), minimal, "ovr_a", losers=["ovr_b"])
    both("one_microsecond_is_newer",
         pair("ovr_b", "2026-11-30T06:00:00.123457Z", "ovr_a", "2026-11-30T06:00:00.123456Z"),
         ctx(), BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("a_record_without_created_at_is_the_oldest", pair("ovr_b", EARLY, "ovr_a", OMIT), ctx(),
         BY_COHORT, "ovr_b", losers=["ovr_a"])
    both("the_newer_deny_wins_among_denies",
         [deny("ovr_b", ALL, created_at=LATE), deny("ovr_a", ALL, tenant="t-7")], ctx(),
         DENIED, "ovr_b", losers=["ovr_a"])
    both("losers_stand_in_precedence_order",
         [scoped("ovr_1", ALL, created_at=LATE),
          cohort("ovr_2", {"app_version": "6.4.1"}, created_at=LATE),
          cohort("ovr_3", {"region": "eu-west"}),
          cohort("ovr_4", {"region": "eu-west", "app_version": "6.4.1"}),
          session("ovr_5"),
          force("ovr_6", {"kind": "cohort", "region": "eu-west"}),
          deny("ovr_7", ALL),
          cohort("ovr_8", {"region": "eu-west"}, tenant="t-7", created_at=LATE)],
         ctx(), DENIED, "ovr_7",
         losers=["ovr_6", "ovr_5", "ovr_4", "ovr_8", "ovr_3", "ovr_2", "ovr_1"])


def cases_of_ignored_records():
    def ignored(name, record, context=None, now=NOW):
        case(name, [record], context or ctx(), DEFAULT, now=now)

    eu = {"region": "eu-west"}
    ignored("a_record_of_another_graph_is_ignored", session("ovr_s", graph="order_graph"))
    ignored("a_record_without_graph_is_ignored", session("ovr_s", graph=OMIT))
    ignored("a_suspended_record_is_ignored", session("ovr_s", status="suspended"))
    ignored("a_pending_record_is_ignored", cohort("ovr_c", eu, status="pending"))
    ignored("an_unknown_status_is_ignored", cohort("ovr_c", eu, status="warming_up"))
    ignored("a_status_in_capitals_is_unknown", cohort("ovr_c", eu, status="ACTIVE"))
    ignored("a_record_without_status_is_ignored", cohort("ovr_c", eu, status=OMIT))
    ignored("an_unknown_mode_is_ignored", cohort("ovr_c", eu, mode="canary"))
    ignored("an_unknown_mode_of_an_operator_is_ignored",
            operator("ovr_o", "freeze", ALL, schema_ref=MINIMAL))
    ignored("a_record_without_mode_is_ignored", cohort("ovr_c", eu, mode=OMIT))
    ignored("an_unknown_kind_is_ignored", cohort("ovr_c", eu, kind="drain"))
    case("a_record_without_kind_replaces", [cohort("ovr_c", eu, kind=OMIT)], ctx(), BY_COHORT,
         "ovr_c")
    ignored("an_automatic_force_is_ignored", force("ovr_f", ALL, source="auto"))
    ignored("an_automatic_deny_is_ignored", deny("ovr_d", ALL, source="auto"))
    ignored("a_force_without_source_is_ignored", force("ovr_f", MINE, source=OMIT))
    case("an_automatic_deny_does_not_hide_a_cohort",
         [deny("ovr_d", ALL, source="auto"), cohort("ovr_c", eu)], ctx(), BY_COHORT, "ovr_c")
    case("an_automatic_force_does_not_hide_a_session",
         [force("ovr_f", ALL, source="auto"), session("ovr_s")], ctx(), BY_SESSION, "ovr_s")
    ignored("a_replacement_without_schema_ref_is_ignored", cohort("ovr_c", eu, schema_ref=OMIT))

    ignored("a_record_without_expires_at_is_ignored", session("ovr_s", expires_at=OMIT))
    ignored("a_record_with_null_expires_at_is_ignored", session("ovr_s", expires_at=None))
    ignored("an_expired_record_is_ignored",
            session("ovr_s", expires_at="2026-11-30T06:59:59Z"))
    ignored("a_record_that_expires_now_is_ignored", session("ovr_s", expires_at=NOW))
    ignored("a_record_that_expires_now_in_another_offset_is_ignored",
            session("ovr_s", expires_at="2026-11-30T12:30:00+05:30"))
    ignored("a_record_that_expires_now_with_fraction_digits_is_ignored",
            session("ovr_s", expires_at="2026-11-30T07:00:00.000000Z"))
    ignored("a_record_that_expired_one_microsecond_ago_is_ignored",
            session("ovr_s", expires_at=NOW), now="2026-11-30T07:00:00.000001Z")
    ignored("an_expired_record_with_a_later_local_time_is_ignored",
            session("ovr_s", expires_at="2026-11-30T08:00:00+02:00"))
    case("a_record_that_expires_in_one_microsecond_counts",
         [session("ovr_s", expires_at="2026-11-30T07:00:00.000001Z")], ctx(), BY_SESSION, "ovr_s")
    case("a_record_counts_one_microsecond_before_it_expires",
         [session("ovr_s", expires_at=NOW)], ctx(), BY_SESSION, "ovr_s",
         now="2026-11-30T06:59:59.999999Z")
    case("a_live_record_with_an_earlier_local_time_counts",
         [session("ovr_s", expires_at="2026-11-30T03:00:00-05:00")], ctx(), BY_SESSION, "ovr_s")
    case("now_may_have_an_offset", [session("ovr_s", expires_at="2026-11-30T07:00:00.5Z")], ctx(),
         BY_SESSION, "ovr_s", now="2026-11-30T09:00:00+02:00")
    ignored("an_expired_deny_is_ignored", deny("ovr_d", ALL, expires_at=NOW))
    case("an_expired_deny_does_not_hide_a_session",
         [deny("ovr_d", ALL, expires_at=NOW), session("ovr_s")], ctx(), BY_SESSION, "ovr_s")
    case("the_next_record_wins_and_ignored_ones_are_no_losers",
         [session("ovr_1", expires_at=NOW), session("ovr_2", tenant=None, status="suspended"),
          cohort("ovr_3", {"region": "eu-west", "tenant": "t-7"}, mode="canary"),
          cohort("ovr_4", eu), cohort("ovr_5", {"region": "us-east"}), scoped("ovr_6", ALL)],
         ctx(), BY_COHORT, "ovr_4", losers=["ovr_6"])
    case("a_created_at_after_now_is_no_reason_to_ignore",
         [session("ovr_s", created_at="2026-11-30T07:00:05Z")], ctx(), BY_SESSION, "ovr_s")


def cases_of_unequal_copies():
    eu = {"region": "eu-west"}

    def ignored(name, record):
        case(name, [record], one("sess-000001"), DEFAULT)

    ignored("a_trial_whose_default_differs_is_ignored",
            trial(100, default_schema_ref=MINIMAL))
    ignored("a_trial_without_default_is_ignored", trial(100, default_schema_ref=OMIT))
    ignored("a_trial_without_candidate_is_ignored", trial(100, candidate_schema_ref=OMIT))
    ignored("a_trial_without_candidate_and_primary_is_ignored",
            trial(0, candidate_schema_ref=OMIT, primary_schema_ref=OMIT))
    ignored("a_trial_with_null_candidate_is_ignored", trial(100, candidate_schema_ref=None))
    ignored("a_trial_whose_primary_differs_from_the_candidate_is_ignored",
            trial(100, candidate_schema_ref=FIXED))
    case("a_trial_without_primary_counts", [trial(100, primary_schema_ref=OMIT)],
         one("sess-000001"), TRIED, "iv-001")
    case("a_trial_with_null_primary_counts", [trial(100, primary_schema_ref=None)],
         one("sess-000001"), TRIED, "iv-001")
    case("an_unequal_trial_does_not_hide_the_graph_scope",
         [trial(100, default_schema_ref=MINIMAL), scoped("ovr_g", ALL)], one("sess-000001"),
         BY_COHORT, "ovr_g")
    case("outside_a_trial_the_trial_fields_are_not_compared",
         [cohort("ovr_c", eu, default_schema_ref=MINIMAL, candidate_schema_ref=FIXED)], ctx(),
         BY_COHORT, "ovr_c")
    case("outside_a_trial_the_trial_percentage_sends_nobody", [trial(100, mode="degraded")],
         one("sess-000001"), BY_COHORT, "iv-001")
    ignored("two_unequal_shadow_schemas_are_ignored",
            shadowed(100, shadow_schema_ref="shadow_refund_graph:v2"))
    ignored("two_unequal_shadow_schemas_are_ignored_while_the_shadow_is_pending",
            cohort("iv-001", eu, shadow=shadow_block(0, status="pending"),
                   shadow_schema_ref="shadow_refund_graph:v2"))
    ignored("a_trial_with_two_unequal_shadow_schemas_is_ignored",
            trial(100, shadow=shadow_block(100), shadow_schema_ref="shadow_refund_graph:v2"))
    case("two_equal_shadow_schemas_count", [shadowed(100, shadow_schema_ref=SHADOW)],
         one("sess-000001"), BY_COHORT, "iv-001", shadow=SHADOW)
    case("a_shadow_schema_without_its_block_runs_no_shadow",
         [cohort("ovr_c", eu, shadow_schema_ref=SHADOW)], ctx(), BY_COHORT, "ovr_c")


def cases_of_tenants():
    eu = {"region": "eu-west"}
    case("a_session_record_of_another_tenant_is_ignored", [session("ovr_s", tenant="t-8")], ctx(),
         DEFAULT)
    case("a_cohort_record_of_another_tenant_is_ignored", [cohort("ovr_c", eu, tenant="t-8")],
         ctx(), DEFAULT)
    case("a_deny_of_another_tenant_is_ignored", [deny("ovr_d", ALL, tenant="t-8")], ctx(),
         DEFAULT)
    case("a_force_of_another_tenant_is_ignored", [force("ovr_f", ALL, tenant="t-8")], ctx(),
         DEFAULT)
    case("a_session_record_with_null_tenant_matches_every_tenant",
         [session("ovr_s", tenant=None)], ctx(tenant="t-9"), BY_SESSION, "ovr_s")
    case("a_session_record_without_tenant_matches_every_tenant",
         [session("ovr_s", tenant=OMIT)], ctx(), BY_SESSION, "ovr_s")
    case("a_record_with_null_tenant_matches_a_context_without_tenant",
         [session("ovr_s", tenant=None)], ctx(tenant=OMIT), BY_SESSION, "ovr_s")
    case("a_record_with_a_tenant_does_not_match_a_context_without_tenant",
         [session("ovr_s")], ctx(tenant=OMIT), DEFAULT)
    case("a_record_with_a_tenant_does_not_match_a_null_tenant",
         [session("ovr_s")], ctx(tenant=None), DEFAULT)
    case("a_cohort_record_of_the_own_tenant_matches", [cohort("ovr_c", eu, tenant="t-7")], ctx(),
         BY_COHORT, "ovr_c")
    case("equal_session_ids_of_two_tenants_stay_apart",
         [session("ovr_a", created_at=LATE), session("ovr_b", tenant="t-8", schema_ref=MINIMAL)],
         ctx(tenant="t-8"), (MINIMAL, "degraded", "session"), "ovr_b")
    case("the_tenant_as_a_dimension_matches", [cohort("ovr_c", {"tenant": "t-7"})], ctx(),
         BY_COHORT, "ovr_c")
    case("the_tenant_as_a_dimension_must_be_equal", [cohort("ovr_c", {"tenant": "t-8"})], ctx(),
         DEFAULT)
    case("tenants_are_compared_with_case", [session("ovr_s", tenant="T-7")], ctx(), DEFAULT)


def cases_of_scopes():
    def sees(name, scope, context=None):
        case(name, [scoped("ovr_c", scope)], context or ctx(), BY_COHORT, "ovr_c")

    def misses(name, scope, context=None):
        case(name, [scoped("ovr_c", scope)], context or ctx(), DEFAULT)

    case("a_session_record_of_another_session_does_not_match",
         [session("ovr_s", scope={"kind": "session", "session_id": "sess_1235"})], ctx(), DEFAULT)
    case("a_session_scope_without_session_id_does_not_match",
         [session("ovr_s", scope={"kind": "session"})], ctx(), DEFAULT)
    case("a_session_scope_without_session_id_does_not_match_a_missing_session_id",
         [session("ovr_s", scope={"kind": "session"})], ctx(session_id=OMIT), DEFAULT)
    case("session_ids_are_compared_with_case",
         [session("ovr_s", scope={"kind": "session", "session_id": "SESS_1234"})], ctx(), DEFAULT)
    case("a_unicode_session_id_matches",
         [session("ovr_s", scope={"kind": "session", "session_id": "сессия-日本-\U0001f600"})],
         one("сессия-日本-\U0001f600"), BY_SESSION, "ovr_s")
    case("unicode_session_ids_are_not_normalised",
         [session("ovr_s", scope={"kind": "session", "session_id": "caf\u00e9"})],
         one("cafe\u0301"), DEFAULT)
    sees("the_graph_scope_matches_every_session", ALL)
    sees("the_graph_scope_matches_a_context_without_dimensions", ALL,
         ctx(tenant=OMIT, region=OMIT, app_version=OMIT, attributes=OMIT))
    sees("a_cohort_without_dimensions_is_the_graph_scope", {"kind": "cohort"})
    sees("one_equal_dimension_matches", {"kind": "cohort", "region": "eu-west"})
    sees("all_equal_dimensions_match",
         {"kind": "cohort", "tenant": "t-7", "region": "eu-west", "app_version": "6.4.1",
          "graph_version": "v1", "attributes.model": "m-1"})
    misses("one_unequal_dimension_of_two_does_not_match",
           {"kind": "cohort", "region": "eu-west", "app_version": "6.4.2"})
    misses("dimensions_are_compared_with_case", {"kind": "cohort", "region": "EU-west"})
    misses("dimensions_are_compared_whole_not_by_prefix",
           {"kind": "cohort", "app_version": "6.4"})
    misses("a_dimension_holds_no_pattern", {"kind": "cohort", "app_version": "6.*"})
    sees("a_scope_without_kind_is_a_cohort", {"app_version": "6.4.1", "region": "eu-west"})
    misses("a_scope_without_kind_must_match_too", {"app_version": "6.4.1", "region": "us-east"})
    both("a_scope_without_kind_counts_its_dimensions",
         [scoped("ovr_z", {"app_version": "6.4.1", "region": "eu-west"}),
          cohort("ovr_c", {"tenant": "t-7"}, schema_ref=MINIMAL, created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_c"])
    misses("a_scope_of_unknown_kind_is_ignored", {"kind": "fleet"})
    misses("a_scope_of_unknown_kind_with_dimensions_is_ignored",
           {"kind": "ring", "region": "eu-west"})
    misses("an_unknown_dimension_is_ignored", {"kind": "cohort", "model": "m-1"})
    misses("an_unknown_dimension_beside_a_known_one_is_ignored",
           {"kind": "cohort", "region": "eu-west", "shard": ""})
    misses("a_null_scope_is_ignored", None)
    case("a_record_without_scope_is_ignored", [scoped("ovr_c", OMIT)], ctx(), DEFAULT)
    case("a_deny_of_unknown_scope_does_not_hide_a_cohort",
         [deny("ovr_d", {"kind": "fleet"}), scoped("ovr_c", ALL)], ctx(), BY_COHORT, "ovr_c")

    misses("a_dimension_missing_in_the_context_does_not_match",
           {"kind": "cohort", "region": "eu-west"}, ctx(region=OMIT))
    misses("a_dimension_null_in_the_context_does_not_match",
           {"kind": "cohort", "region": "eu-west"}, ctx(region=None))
    sees("a_missing_dimension_is_the_empty_value", {"kind": "cohort", "region": ""},
         ctx(region=OMIT))
    sees("a_null_dimension_is_the_empty_value", {"kind": "cohort", "region": ""},
         ctx(region=None))
    sees("an_empty_dimension_matches_the_empty_value", {"kind": "cohort", "region": ""},
         ctx(region=""))
    misses("the_empty_value_is_not_a_wildcard", {"kind": "cohort", "region": ""})
    sees("a_missing_tenant_is_the_empty_value", {"kind": "cohort", "tenant": ""},
         ctx(tenant=OMIT))

    sees("an_attribute_matches", {"kind": "cohort", "attributes.model": "m-1"})
    misses("an_unequal_attribute_does_not_match", {"kind": "cohort", "attributes.model": "m-2"})
    misses("an_attribute_missing_in_the_context_does_not_match",
           {"kind": "cohort", "attributes.tool": "search"})
    misses("an_attribute_does_not_match_a_context_without_attributes",
           {"kind": "cohort", "attributes.model": "m-1"}, ctx(attributes=OMIT))
    sees("a_missing_attribute_is_the_empty_value", {"kind": "cohort", "attributes.tool": ""})
    sees("a_missing_attribute_is_the_empty_value_without_attributes",
         {"kind": "cohort", "attributes.tool": ""}, ctx(attributes=OMIT))
    sees("an_attribute_name_may_hold_a_dot", {"kind": "cohort", "attributes.model.name": "m-1"},
         ctx(attributes={"model.name": "m-1"}))
    sees("a_whole_number_compares_by_its_json_text", {"kind": "cohort", "attributes.shard": "7"},
         ctx(attributes={"shard": 7}))
    sees("a_fraction_compares_by_its_json_text",
         {"kind": "cohort", "attributes.temperature": "0.7"},
         ctx(attributes={"temperature": 0.7}))
    sees("true_compares_by_its_json_text", {"kind": "cohort", "attributes.beta": "true"},
         ctx(attributes={"beta": True}))
    misses("false_is_not_true", {"kind": "cohort", "attributes.beta": "true"},
           ctx(attributes={"beta": False}))
    sees("a_list_compares_by_its_json_text", {"kind": "cohort", "attributes.tools": '["a","b"]'},
         ctx(attributes={"tools": ["a", "b"]}))
    misses("a_string_attribute_has_no_quotes", {"kind": "cohort", "attributes.model": '"m-1"'})
    misses("a_dimension_is_not_an_attribute", {"kind": "cohort", "attributes.region": "eu-west"})
    misses("an_attribute_is_not_a_dimension", {"kind": "cohort", "region": "ap-south"},
           ctx(attributes={"region": "ap-south"}))
    sees("a_unicode_dimension_matches", {"kind": "cohort", "region": "東京"}, ctx(region="東京"))
    sees("the_graph_version_as_a_dimension_matches", {"kind": "cohort", "graph_version": "v1"})
    case("a_cohort_of_the_old_version_leaves_the_new_one_alone",
         [cohort("ovr_c", {"graph_version": "v1"})], ctx(graph_version="v2"),
         ("refund_graph:v2", "primary", "default"))


def cases_of_operators():
    case("a_deny_gives_the_global_schema_of_the_context", [deny("ovr_d", ALL)],
         ctx(graph_version="v2"), ("refund_graph:v2", "primary", "deny"), "ovr_d")
    case("a_deny_does_not_use_its_schema_ref", [deny("ovr_d", ALL, schema_ref=MINIMAL)], ctx(),
         DENIED, "ovr_d")
    case("a_deny_on_another_session_does_nothing",
         [deny("ovr_d", {"kind": "session", "session_id": "sess_9"}), session("ovr_s")], ctx(),
         BY_SESSION, "ovr_s")
    case("a_deny_on_a_cohort_covers_its_sessions",
         [deny("ovr_d", {"kind": "cohort", "region": "eu-west"}), session("ovr_s")], ctx(),
         DENIED, "ovr_d", losers=["ovr_s"])
    case("a_force_to_the_global_schema_is_still_degraded",
         [force("ovr_f", ALL, schema_ref=GLOBAL)], ctx(), (GLOBAL, "degraded", "force"), "ovr_f")
    case("a_force_runs_no_shadow", [force("iv-001", ALL, shadow=shadow_block(100))],
         one("sess-000001"), FORCED, "iv-001")
    case("a_deny_runs_no_shadow", [deny("iv-001", ALL, shadow=shadow_block(100))],
         one("sess-000001"), DENIED, "iv-001")


def cases_of_the_trial():
    def sent(name, percentage, session_id, **changes):
        case(name, [trial(percentage, **changes)], one(session_id), TRIED, "iv-001")

    def kept(name, percentage, session_id, **changes):
        case(name, [trial(percentage, **changes)], one(session_id), BY_COHORT, "iv-001")

    # trial buckets of iv-001: sess-000012 4784, -000006 8183, -000001 11352, -000002 42500
    sent("a_selected_session_gets_the_candidate", 12, "sess-000001")
    kept("a_session_not_selected_keeps_the_default", 11, "sess-000001")
    kept("a_bucket_equal_to_the_threshold_is_not_selected", 11.352, "sess-000001")
    sent("a_bucket_just_under_the_threshold_is_selected", 11.353, "sess-000001")
    kept("zero_percent_selects_nobody", 0, "sess-106662")
    sent("the_smallest_step_selects_bucket_zero", 0.001, "sess-106662")
    sent("half_a_percent_selects_bucket_499", 0.5, "sess-002554")
    kept("half_a_percent_does_not_select_bucket_500", 0.5, "sess-009483")
    sent("a_fractional_percentage_selects_bucket_33299", 33.3, "sess-060655")
    kept("a_fractional_percentage_does_not_select_bucket_33300", 33.3, "sess-012761")
    # 2.007 * 1000 = 2007.0000000000002 and 8.014 * 1000 = 8013.999999999999 in floating point
    kept("a_product_rounded_up_does_not_select_its_bucket", 2.007, "sess-008508")
    sent("a_thousandth_above_a_product_rounded_up_selects_its_bucket", 2.008, "sess-008508")
    sent("a_product_rounded_down_selects_the_bucket_below", 8.014, "sess-249642")
    kept("a_product_rounded_down_does_not_select_its_bucket", 8.014, "sess-215552")
    sent("a_thousandth_above_a_product_rounded_down_selects_its_bucket", 8.015, "sess-215552")
    sent("five_percent_selects_bucket_4999", 5, "sess-077910")
    kept("five_percent_does_not_select_bucket_5000", 5, "sess-056425")
    sent("hundred_percent_selects_the_last_bucket", 100, "sess-084897")
    kept("just_under_hundred_percent_leaves_the_last_bucket", 99.999, "sess-084897")
    kept("a_trial_without_percentage_selects_nobody", OMIT, "sess-106662")
    for percentage, sessions in ((5, 1), (10, 2), (25, 3), (50, 4), (100, 4)):
        for i, session_id in enumerate(("sess-000012", "sess-000006", "sess-000001",
                                        "sess-000002")):
            name = f"growth_at_{percentage}_percent_of_{session_id.replace('-', '_')}"
            (sent if i < sessions else kept)(name, percentage, session_id)
    kept("an_empty_session_id_is_never_selected", 100, "")
    case("a_missing_session_id_is_never_selected", [trial(100)], one(OMIT), BY_COHORT, "iv-001")
    case("a_null_session_id_is_never_selected", [trial(100)], one(None), BY_COHORT, "iv-001")
    # with salt 2: sess-000001 34653, sess-000016 3116 (58436 without)
    sent("an_empty_salt_selects_the_first_subset", 20, "sess-000001")
    kept("a_new_salt_leaves_the_first_subset_alone", 20, "sess-000001", attempt_salt="2")
    kept("an_empty_salt_leaves_the_second_subset_alone", 20, "sess-000016")
    sent("a_new_salt_selects_the_second_subset", 20, "sess-000016", attempt_salt="2")
    sent("a_missing_salt_is_the_empty_one", 12, "sess-000001", attempt_salt=OMIT)
    sent("a_null_salt_is_the_empty_one", 12, "sess-000001", attempt_salt=None)
    kept("a_missing_salt_does_not_select_more", 11, "sess-000001", attempt_salt=OMIT)
    # trial bucket of iv-002: sess-000001 43256
    case("another_override_selects_another_subset",
         [cohort("iv-002", {"region": "eu-west"}, **trial_fields(20))], one("sess-000001"),
         BY_COHORT, "iv-002")
    sent("a_unicode_session_id_is_hashed_as_utf_8", 77.688, "日本")
    kept("a_unicode_session_id_is_not_selected_at_its_bucket", 77.687, "日本")
    sent("a_session_id_outside_the_basic_plane_is_hashed_as_utf_8", 61.878, "\U0001f600")
    kept("a_session_id_outside_the_basic_plane_is_not_selected_at_its_bucket", 61.877,
         "\U0001f600")
    sent("a_session_id_with_a_combining_mark_is_hashed_as_it_is", 72.457, "e\u0301")
    kept("a_precomposed_session_id_is_hashed_as_it_is", 72.457, "\u00e9")
    case("a_trial_of_a_new_version_gives_its_schema",
         [trial(100, candidate_schema_ref=FIXED, primary_schema_ref=FIXED)], one("sess-000001"),
         (FIXED, "trial", "trial"), "iv-001")
    case("a_trial_out_of_scope_gives_the_global_schema", [trial(100)],
         one("sess-000001", region="us-east"), DEFAULT)
    case("the_attempt_of_a_trial_is_carried", [trial(100, attempt=3)], one("sess-000001"), TRIED,
         "iv-001", attempt=3)
    case("a_trial_keeps_its_losers", [trial(100), scoped("ovr_g", ALL, created_at=LATE)],
         one("sess-000001"), TRIED, "iv-001", losers=["ovr_g"])
    case("a_trial_loses_to_a_session_record",
         [trial(100), session("ovr_s", scope={"kind": "session", "session_id": "sess-000001"})],
         one("sess-000001"), BY_SESSION, "ovr_s", losers=["iv-001"])
    case("a_trial_not_selected_does_not_fall_to_the_next_record",
         [trial(11), scoped("ovr_g", ALL, schema_ref=MINIMAL)], one("sess-000001"), BY_COHORT,
         "iv-001", losers=["ovr_g"])
    case("a_trial_is_denied", [trial(100), deny("ovr_d", ALL)], one("sess-000001"), DENIED,
         "ovr_d", losers=["iv-001"])
    own = {"kind": "session", "session_id": "sess-000001"}
    case("a_trial_on_the_session_selected",
         [session("iv-001", scope=own, **trial_fields(12))], one("sess-000001"), TRIED, "iv-001")
    case("a_trial_on_the_session_not_selected",
         [session("iv-001", scope=own, **trial_fields(11))], one("sess-000001"), BY_SESSION,
         "iv-001")
    case("a_trial_on_the_graph_scope", [scoped("iv-001", ALL, **trial_fields(12))],
         one("sess-000001"), TRIED, "iv-001")


def cases_of_the_shadow():
    def runs(name, record, session_id):
        case(name, [record], one(session_id), BY_COHORT, "iv-001", shadow=SHADOW)

    def rests(name, record, session_id):
        case(name, [record], one(session_id), BY_COHORT, "iv-001")

    # shadow buckets of iv-001: sess-000016 3798, -000022 5418, -000001 13636
    runs("a_selected_session_runs_the_shadow", shadowed(14), "sess-000001")
    rests("a_session_not_selected_runs_no_shadow", shadowed(13), "sess-000001")
    rests("a_shadow_bucket_equal_to_the_threshold_is_not_selected", shadowed(13.636),
          "sess-000001")
    runs("a_shadow_bucket_just_under_the_threshold_is_selected", shadowed(13.637), "sess-000001")
    rests("zero_percent_runs_no_shadow", shadowed(0), "sess-006160")
    runs("five_percent_runs_the_shadow_of_bucket_4999", shadowed(5), "sess-034532")
    rests("five_percent_runs_no_shadow_of_bucket_5000", shadowed(5), "sess-211826")
    runs("hundred_percent_runs_the_shadow_of_the_last_bucket", shadowed(100), "sess-058046")
    runs("probes_at_5_percent_take_the_first", shadowed(5), "sess-000016")
    rests("probes_at_5_percent_leave_the_second", shadowed(5), "sess-000022")
    runs("probes_at_10_percent_keep_the_first", shadowed(10), "sess-000016")
    runs("probes_at_10_percent_take_the_second", shadowed(10), "sess-000022")
    rests("an_empty_session_id_runs_no_shadow", shadowed(100), "")
    rests("a_pending_shadow_does_not_run",
          shadowed(100, shadow=shadow_block(100, status="pending")), "sess-000001")
    rests("a_stopped_shadow_does_not_run",
          shadowed(100, shadow=shadow_block(100, status="stopped")), "sess-000001")
    rests("a_shadow_of_unknown_status_does_not_run",
          shadowed(100, shadow=shadow_block(100, status="draining")), "sess-000001")
    rests("a_shadow_without_status_does_not_run",
          shadowed(100, shadow=shadow_block(100, status=OMIT)), "sess-000001")
    rests("a_null_shadow_does_not_run", shadowed(100, shadow=None), "sess-000001")
    # with salt 2: sess-000001 shadow bucket 92173
    rests("a_new_salt_changes_the_shadow_subset", shadowed(14, attempt_salt="2"), "sess-000001")
    runs("a_new_salt_selects_by_its_own_bucket", shadowed(93, attempt_salt="2"), "sess-000001")
    case("a_session_record_may_run_a_shadow",
         [session("iv-001", scope={"kind": "session", "session_id": "sess-000001"},
                  shadow=shadow_block(14))],
         one("sess-000001"), BY_SESSION, "iv-001", shadow=SHADOW)
    case("only_the_winner_runs_its_shadow",
         [shadowed(100), cohort("ovr_c", {"region": "eu-west", "tenant": "t-7"})],
         one("sess-000001"), BY_COHORT, "ovr_c", losers=["iv-001"])
    case("a_trial_session_runs_no_shadow", [trial(100, shadow=shadow_block(100))],
         one("sess-000001"), TRIED, "iv-001")
    case("a_session_outside_the_trial_runs_the_shadow", [trial(0, shadow=shadow_block(100))],
         one("sess-000001"), BY_COHORT, "iv-001", shadow=SHADOW)
    # sess-000004: trial 224, shadow 65709; sess-000016: trial 58436, shadow 3798
    case("selected_for_the_trial_does_not_mean_for_the_shadow",
         [shadowed(5)], one("sess-000004"), BY_COHORT, "iv-001")
    case("selected_for_the_shadow_does_not_mean_for_the_trial",
         [trial(5, shadow=shadow_block(5))], one("sess-000016"), BY_COHORT, "iv-001",
         shadow=SHADOW)


def cases_of_the_pause():
    eu = {"region": "eu-west"}
    case("a_pause_gives_its_schema_ref", [cohort("ovr_c", eu, kind="pause")], ctx(), BY_COHORT,
         "ovr_c", kind="pause")
    case("a_pause_without_schema_ref_gives_the_global_schema",
         [cohort("ovr_c", eu, kind="pause", schema_ref=OMIT)], ctx(),
         (GLOBAL, "degraded", "cohort"), "ovr_c", kind="pause")
    case("a_pause_with_null_schema_ref_gives_the_global_schema",
         [cohort("ovr_c", eu, kind="pause", schema_ref=None)], ctx(graph_version="v2"),
         ("refund_graph:v2", "degraded", "cohort"), "ovr_c", kind="pause")
    case("a_pause_on_the_session", [session("ovr_s", kind="pause", schema_ref=OMIT)], ctx(),
         (GLOBAL, "degraded", "session"), "ovr_s", kind="pause")
    case("a_pause_on_the_graph_scope", [scoped("ovr_g", ALL, kind="pause", schema_ref=OMIT)],
         ctx(), (GLOBAL, "degraded", "cohort"), "ovr_g", kind="pause")
    case("a_pause_runs_no_shadow", [shadowed(100, kind="pause")], one("sess-000001"), BY_COHORT,
         "iv-001", kind="pause")
    case("a_forced_pause", [force("ovr_f", ALL, kind="pause", schema_ref=OMIT)], ctx(),
         (GLOBAL, "degraded", "force"), "ovr_f", kind="pause")
    both("a_pause_has_no_precedence_of_its_own",
         [cohort("ovr_z", {"region": "eu-west", "app_version": "6.4.1"}),
          cohort("ovr_p", eu, kind="pause", created_at=LATE)],
         ctx(), BY_COHORT, "ovr_z", losers=["ovr_p"])
    both("a_pause_with_more_dimensions_wins",
         [cohort("ovr_z", {"region": "eu-west", "app_version": "6.4.1"}, kind="pause",
                 schema_ref=OMIT),
          cohort("ovr_c", eu, created_at=LATE)],
         ctx(), (GLOBAL, "degraded", "cohort"), "ovr_z", losers=["ovr_c"], kind="pause")
    case("a_deny_ends_a_pause", [cohort("ovr_p", eu, kind="pause"), deny("ovr_d", ALL)], ctx(),
         DENIED, "ovr_d", losers=["ovr_p"])
    case("a_deny_of_kind_pause_replaces", [deny("ovr_d", ALL, kind="pause")], ctx(), DENIED,
         "ovr_d")


def cases_of_resume():
    eu = {"region": "eu-west"}
    case("resume_keeps_the_global_schema", [], resume(GLOBAL), RUNS_GLOBAL)
    case("resume_keeps_a_degraded_schema_without_record", [], resume(DEGRADED), RUNS_DEGRADED)
    case("resume_without_current_is_start", [session("ovr_s"), cohort("ovr_c", eu)],
         ctx("resume"), BY_SESSION, "ovr_s", losers=["ovr_c"])
    case("resume_with_null_current_is_start", [session("ovr_s"), cohort("ovr_c", eu)],
         resume(None), BY_SESSION, "ovr_s", losers=["ovr_c"])
    case("resume_without_current_and_record_gives_the_default", [], ctx("resume"), DEFAULT)
    case("resume_without_current_is_denied", [session("ovr_s"), deny("ovr_d", ALL)],
         ctx("resume"), DENIED, "ovr_d", losers=["ovr_s"])
    case("resume_without_current_takes_the_trial", [trial(12)], one("sess-000001", "resume"),
         TRIED, "iv-001")
    case("resume_without_current_runs_the_shadow", [shadowed(14)], one("sess-000001", "resume"),
         BY_COHORT, "iv-001", shadow=SHADOW)
    case("resume_without_current_gives_no_entry_point", [session("ovr_s", run_id="run_1")],
         ctx("resume"), BY_SESSION, "ovr_s")
    case("resume_on_what_start_gives_carries_its_override",
         [session("ovr_s", attempt=1), cohort("ovr_c", eu)], resume(DEGRADED), RUNS_DEGRADED,
         "ovr_s", attempt=1)
    case("resume_on_the_global_schema_is_not_moved", [session("ovr_s")], resume(GLOBAL),
         RUNS_GLOBAL)
    case("resume_on_the_global_schema_is_not_moved_by_a_cohort", [cohort("ovr_c", eu)],
         resume(GLOBAL), RUNS_GLOBAL)
    case("resume_on_another_degraded_schema_is_not_moved", [session("ovr_s")], resume(MINIMAL),
         (MINIMAL, "degraded", "current"))
    case("resume_on_a_losers_schema_carries_no_override",
         [session("ovr_s"), cohort("ovr_c", eu, schema_ref=MINIMAL)], resume(MINIMAL),
         (MINIMAL, "degraded", "current"))
    case("resume_after_the_override_expired_stays_degraded",
         [session("ovr_s", expires_at=NOW)], resume(DEGRADED), RUNS_DEGRADED)
    case("resume_on_a_forced_schema_carries_the_force", [force("ovr_f", ALL)], resume(MINIMAL),
         (MINIMAL, "degraded", "current"), "ovr_f")
    case("resume_is_not_moved_by_a_force", [force("ovr_f", ALL)], resume(GLOBAL), RUNS_GLOBAL)
    case("resume_is_not_moved_by_a_deny", [deny("ovr_d", ALL), session("ovr_s")],
         resume(DEGRADED), RUNS_DEGRADED)
    case("resume_on_the_global_schema_carries_a_deny", [deny("ovr_d", ALL), session("ovr_s")],
         resume(GLOBAL), RUNS_GLOBAL, "ovr_d")
    case("resume_on_the_global_schema_carries_a_force_to_it",
         [force("ovr_f", ALL, schema_ref=GLOBAL)], resume(GLOBAL),
         (GLOBAL, "degraded", "current"), "ovr_f")
    case("resume_on_an_old_version_counts_as_degraded", [], resume(GLOBAL, graph_version="v2"),
         (GLOBAL, "degraded", "current"))
    case("resume_on_the_candidate_carries_the_trial", [trial(12)],
         one("sess-000001", "resume", current_schema_ref=GLOBAL), (GLOBAL, "trial", "current"),
         "iv-001")
    case("resume_on_the_global_schema_outside_the_trial_is_primary", [trial(11)],
         one("sess-000001", "resume", current_schema_ref=GLOBAL), RUNS_GLOBAL)
    case("resume_on_the_default_outside_the_trial_carries_the_override", [trial(11)],
         one("sess-000001", "resume", current_schema_ref=DEGRADED), RUNS_DEGRADED, "iv-001")
    case("resume_on_the_default_is_not_moved_into_the_trial", [trial(12)],
         one("sess-000001", "resume", current_schema_ref=DEGRADED), RUNS_DEGRADED)
    fixed = [trial(12, candidate_schema_ref=FIXED, primary_schema_ref=FIXED)]
    case("resume_on_a_new_version_carries_its_trial", fixed,
         one("sess-000001", "resume", current_schema_ref=FIXED), (FIXED, "trial", "current"),
         "iv-001")
    case("resume_on_a_new_version_outside_its_trial_carries_no_override", fixed,
         one("sess-000002", "resume", current_schema_ref=FIXED), (FIXED, "degraded", "current"))
    case("resume_carries_the_shadow", [shadowed(14)],
         one("sess-000001", "resume", current_schema_ref=DEGRADED), RUNS_DEGRADED, "iv-001",
         shadow=SHADOW)
    case("resume_on_another_schema_runs_no_shadow", [shadowed(14)],
         one("sess-000001", "resume", current_schema_ref=GLOBAL), RUNS_GLOBAL)
    case("resume_carries_a_pause", [cohort("ovr_c", eu, kind="pause")], resume(DEGRADED),
         RUNS_DEGRADED, "ovr_c", kind="pause")
    case("resume_on_the_global_schema_carries_a_pause_without_schema_ref",
         [cohort("ovr_c", eu, kind="pause", schema_ref=OMIT)], resume(GLOBAL),
         (GLOBAL, "degraded", "current"), "ovr_c", kind="pause")
    case("resume_on_another_schema_carries_no_pause", [cohort("ovr_c", eu, kind="pause")],
         resume(GLOBAL), RUNS_GLOBAL)


def cases_of_failure():
    eu = {"region": "eu-west"}

    def moved(name, overrides, context, **more):
        case(name, overrides, context, BY_SESSION, "ovr_s", **{"entry_point": ENTRY, **more})

    moved("failed_takes_the_session_record_of_its_run", [session("ovr_s")], failed(GLOBAL))
    moved("failed_without_current_takes_the_session_record", [session("ovr_s")], ctx("failed"))
    moved("failed_carries_the_attempt", [session("ovr_s", attempt=2)], failed(GLOBAL), attempt=2)
    moved("failed_without_entry_point_gives_null", [session("ovr_s", entry_point=OMIT)],
          failed(GLOBAL), entry_point=None)
    case("failed_does_not_take_a_record_of_another_run", [session("ovr_s", run_id="run_76")],
         failed(GLOBAL), RUNS_GLOBAL)
    moved("failed_null_run_equals_null_run", [session("ovr_s", run_id=None)],
          failed(GLOBAL, run_id=None))
    moved("failed_missing_run_equals_missing_run", [session("ovr_s", run_id=OMIT)],
          failed(GLOBAL, run_id=OMIT))
    moved("failed_missing_run_equals_null_run", [session("ovr_s", run_id=None)],
          failed(GLOBAL, run_id=OMIT))
    case("failed_null_run_of_the_record_is_no_wildcard", [session("ovr_s", run_id=None)],
         failed(GLOBAL), RUNS_GLOBAL)
    case("failed_null_run_of_the_context_is_no_wildcard", [session("ovr_s")],
         failed(GLOBAL, run_id=None), RUNS_GLOBAL)
    both("failed_passes_over_a_newer_record_of_another_run",
         [session("ovr_s"), session("ovr_n", tenant=None, run_id="run_76", schema_ref=MINIMAL,
                                    created_at=LATE)],
         failed(GLOBAL), BY_SESSION, "ovr_s", entry_point=ENTRY, losers=["ovr_n"])
    both("failed_takes_the_newer_of_two_records_of_its_run",
         [session("ovr_s", created_at=LATE), session("ovr_a", tenant=None, schema_ref=MINIMAL)],
         failed(GLOBAL), BY_SESSION, "ovr_s", entry_point=ENTRY, losers=["ovr_a"])
    both("failed_takes_the_smaller_id_of_two_equal_records_of_its_run",
         [session("ovr_s"), session("ovr_t", tenant=None, schema_ref=MINIMAL)],
         failed(GLOBAL), BY_SESSION, "ovr_s", entry_point=ENTRY, losers=["ovr_t"])
    moved("failed_takes_the_session_record_over_a_cohort",
          [session("ovr_s"), cohort("ovr_c", eu, created_at=LATE)], failed(GLOBAL),
          losers=["ovr_c"])
    case("failed_takes_a_session_record_of_an_operator",
         [operator("ovr_o", "degraded", MINE, schema_ref=MINIMAL, run_id="run_77",
                   entry_point=ENTRY)],
         failed(GLOBAL), (MINIMAL, "degraded", "session"), "ovr_o", entry_point=ENTRY)
    moved("failed_on_the_same_schema_takes_the_record_again", [session("ovr_s")],
          failed(DEGRADED))
    case("failed_is_denied", [session("ovr_s"), deny("ovr_d", ALL)], failed(DEGRADED), DENIED,
         "ovr_d", losers=["ovr_s"])
    case("failed_without_session_record_is_denied", [deny("ovr_d", MINE, attempt=1)],
         failed(DEGRADED), DENIED, "ovr_d", attempt=1)
    both("failed_takes_the_best_deny",
         [deny("ovr_z", {"kind": "cohort", "region": "eu-west"}),
          deny("ovr_d", ALL, created_at=LATE), session("ovr_s")],
         failed(GLOBAL), DENIED, "ovr_z", losers=["ovr_d", "ovr_s"])
    moved("failed_ignores_an_automatic_deny",
          [session("ovr_s"), deny("ovr_d", ALL, source="auto")], failed(GLOBAL))
    moved("failed_ignores_an_expired_deny",
          [session("ovr_s"), deny("ovr_d", ALL, expires_at=NOW)], failed(GLOBAL))
    moved("failed_does_not_take_a_force", [session("ovr_s"), force("ovr_f", ALL)],
          failed(GLOBAL), losers=["ovr_f"])
    case("failed_does_not_take_a_force_on_the_session",
         [force("ovr_f", MINE, run_id="run_77", entry_point=ENTRY)], failed(GLOBAL), RUNS_GLOBAL)
    case("failed_does_not_take_a_cohort", [cohort("ovr_c", eu)], failed(GLOBAL), RUNS_GLOBAL)
    case("failed_does_not_take_a_cohort_without_run", [cohort("ovr_c", eu)],
         failed(GLOBAL, run_id=OMIT), RUNS_GLOBAL)
    case("failed_on_a_cohorts_schema_carries_no_override", [cohort("ovr_c", eu)],
         failed(DEGRADED), RUNS_DEGRADED)
    case("failed_without_record_keeps_the_global_schema", [], failed(GLOBAL), RUNS_GLOBAL)
    case("failed_without_record_keeps_the_degraded_schema", [], failed(DEGRADED), RUNS_DEGRADED)
    case("failed_without_record_and_current_gives_the_global_schema", [], ctx("failed"),
         RUNS_GLOBAL)
    case("failed_without_record_and_with_null_current_gives_the_global_schema", [], failed(None),
         RUNS_GLOBAL)
    case("failed_with_a_cohort_and_without_current_gives_the_global_schema",
         [cohort("ovr_c", eu)], ctx("failed"), RUNS_GLOBAL)
    case("failed_on_an_old_version_counts_as_degraded", [], failed(GLOBAL, graph_version="v2"),
         (GLOBAL, "degraded", "current"))
    case("failed_does_not_take_an_expired_record", [session("ovr_s", expires_at=NOW)],
         failed(GLOBAL), RUNS_GLOBAL)
    case("failed_does_not_take_a_record_of_another_tenant", [session("ovr_s", tenant="t-8")],
         failed(GLOBAL), RUNS_GLOBAL)
    case("failed_does_not_take_a_record_of_another_session",
         [session("ovr_s", scope={"kind": "session", "session_id": "sess_9"})], failed(GLOBAL),
         RUNS_GLOBAL)
    own = {"kind": "session", "session_id": "sess-000001"}
    case("failed_runs_no_shadow",
         [session("iv-001", scope=own, shadow=shadow_block(100))],
         one("sess-000001", "failed", current_schema_ref=GLOBAL), BY_SESSION, "iv-001",
         entry_point=ENTRY)
    case("failed_does_not_send_a_session_into_a_trial",
         [session("iv-001", scope=own, **trial_fields(100))],
         one("sess-000001", "failed", current_schema_ref=GLOBAL), BY_SESSION, "iv-001",
         entry_point=ENTRY)
    case("failed_in_a_trial_keeps_the_global_schema_without_override", [trial(100)],
         one("sess-000001", "failed", current_schema_ref=GLOBAL), RUNS_GLOBAL)
    moved("failed_in_a_trial_takes_the_session_record",
          [session("ovr_s", scope=own), trial(100)],
          one("sess-000001", "failed", current_schema_ref=GLOBAL), losers=["iv-001"])
    moved("failed_takes_a_pause", [session("ovr_s", kind="pause")], failed(GLOBAL), kind="pause")
    case("failed_takes_a_pause_without_schema_ref",
         [session("ovr_s", kind="pause", schema_ref=OMIT, entry_point=OMIT)], failed(GLOBAL),
         (GLOBAL, "degraded", "session"), "ovr_s", kind="pause")


# ---------------------------------------------------------------- output

DESCRIPTION = (
    "Override resolution: resolve(graph, context, overrides, now) -> expected. Absent values are "
    "null. hash: murmur3_x86_32 of the UTF-8 text. buckets: (hash(purpose 0x1F override_id 0x1F "
    "attempt_salt 0x1F session_id, seed 0) * 100000) >> 32. Written by resolve.py."
)


def hex32(value):
    return f"0x{value:08x}"


def build():
    hashes, buckets = [], []
    for words, seed, by_hand in HASHES:
        value = murmur3_x86_32(words.encode("utf-8"), seed)
        assert value == by_hand, f"murmur3 of {words!r}, seed {seed}: {hex32(value)}"
        hashes.append({"text": words, "seed": seed, "hash": hex32(value)})
    for purpose, session_id, hash_by_hand, bucket_by_hand in TABLE:
        key = (purpose, "iv-001", "", session_id)
        assert (selection_hash(*key), bucket(*key)) == (hash_by_hand, bucket_by_hand), key
    table = [(purpose, "iv-001", "", session_id) for purpose, session_id, _, _ in TABLE]
    for key in table + BUCKET_INPUTS:
        names = ("purpose", "override_id", "attempt_salt", "session_id")
        row = dict(zip(names, key))
        buckets.append({**row, "hash": hex32(selection_hash(*key)), "bucket": bucket(*key)})

    cases_of_the_default()
    cases_of_the_precedence()
    cases_of_the_last_ties()
    cases_of_ignored_records()
    cases_of_unequal_copies()
    cases_of_tenants()
    cases_of_scopes()
    cases_of_operators()
    cases_of_the_trial()
    cases_of_the_shadow()
    cases_of_the_pause()
    cases_of_resume()
    cases_of_failure()
    return {"hash": hashes, "buckets": buckets, "cases": CASES}


def line(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def render(parts):
    """One hash, bucket or case a line."""
    lists = [
        f"{line(name)}: [\n" + ",\n".join(map(line, rows)) + "\n]" for name, rows in parts.items()
    ]
    head = f'"description": {line(DESCRIPTION)}'
    return "{\n" + ",\n".join([head] + lists) + "\n}\n"


def main(arguments):
    if arguments not in ([], ["--check"]):
        print("usage: resolve.py [--check]", file=sys.stderr)
        return 64
    path = pathlib.Path(__file__).resolve().with_name("resolve.json")
    content = render(build()).encode("utf-8")
    if not arguments:
        path.write_bytes(content)
        print(f"{path.name}: {len(CASES)} cases")
    elif not path.exists() or path.read_bytes() != content:
        print(f"{path.name} differs: run resolve.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
