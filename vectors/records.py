"""Records, contexts and the checks every case of the vectors goes through."""

import json
import re

from reference import resolve


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
