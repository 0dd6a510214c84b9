"""Records as Reflex publishes them."""

import json
from typing import Any

NOW = "2026-11-30T07:00:00.000Z"
FAR = "9999-12-31T23:59:59Z"


def session_override(session_id: str = "s1", **changes: Any) -> dict[str, Any]:
    record = {
        "override_id": f"ovr_{session_id}",
        "graph": "refund_graph",
        "scope": {"kind": "session", "session_id": session_id},
        "tenant": "t-7",
        "run_id": "run_77",
        "source": "auto",
        "kind": "replace",
        "schema_ref": "degraded_refund_graph:v1",
        "entry_point": "log_refund_request",
        "resume": {"after": "request_evidence", "requires_channels": ["order"], "compatible_from": ["refund_graph:v1"]},
        "status": "active",
        "mode": "degraded",
        "attempt": 0,
        "revision": 1,
        "intervention_id": f"int_{session_id}",
        "reason": "evidence_analysis_no_progress",
        "created_at": NOW,
        "expires_at": FAR,
    }
    return {**record, **changes}


def cohort_override(override_id: str = "ovr_c", **changes: Any) -> dict[str, Any]:
    record = session_override()
    del record["resume"], record["entry_point"], record["run_id"]
    return {
        **record,
        "override_id": override_id,
        "scope": {"kind": "cohort", "region": "eu"},
        "tenant": None,
        **changes,
    }


def intervention(session_id: str = "s1", status: str = "failed", **changes: Any) -> dict[str, Any]:
    record = {
        "intervention_id": f"int_{session_id}_{status}",
        "kind": "session",
        "signal": "evidence_analysis_no_progress",
        "scope": {"kind": "session", "session_id": session_id},
        "tenant": "t-7",
        "run_id": "run_77",
        "graph": "refund_graph",
        "status": status,
        "revision": 2,
    }
    return {**record, **changes}


def text(record: dict[str, Any]) -> str:
    return json.dumps(record)
