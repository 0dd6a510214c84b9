"""Random cases of resolution: a log of records, a context, a time, in the form of ``reflex resolve --cases``.

    python tests/cases.py COUNT [SEED] > cases.ndjson

Few words, so that records meet: the same keys, sessions, tenants, dimensions, times one microsecond apart.
"""

import json
import random
import sys
from typing import Any

from reflex_runtime._bucket import bucket
from reflex_runtime._time import format_time, parse_time

NOW = parse_time("2026-11-30T07:00:00.123456Z") or 0
HOUR = 3_600_000_000
SESSIONS = ["s1", "s1", "s2", "sess-000001", "日本", ""]
TENANTS = [None, None, "t-1", "t-2", ""]
RUNS = [None, "r1", "r1", "r2"]
SCHEMAS = ["g:v1", "d:v1", "d:v2", "m:v1"]
DIMENSIONS = ["tenant", "region", "app_version", "graph_version", "attributes.model", "attributes.a", "attributes.ä"]
VALUES: dict[str, list[str]] = {
    "tenant": ["t-1", "t-2", ""],
    "region": ["eu", "us", ""],
    "app_version": ["1", "2"],
    "graph_version": ["v1", "v2"],
    "attributes.model": ["m-1", "7", "true", "1.5", '{"a":[1,null],"b":"x"}', "0.00001", "1e+16", "1e-7"],
    "attributes.a": ["x", ""],
    "attributes.ä": ["ö"],
}
ATTRIBUTES: list[Any] = ["m-1", 7, True, 1.5, {"b": "x", "a": [1, None]}, None, "7", 0.00001, 1e16, 1e-7, ""]
PERCENTAGES: list[Any] = [0, 0.001, 2.007, 5, 25, 50, 50.0005, 99.999, 100, 150, -1]


class Generator:
    """Cases by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self) -> dict[str, Any]:
        """The next case."""
        context = self._context()
        log = [self._keyed(context) for _ in range(self.random.choice((0, 1, 1, 2, 3, 5, 8, 12)))]
        if log and self._maybe(0.1):
            log.append(self.random.choice(log))
        return {"graph": "g", "context": context, "now": format_time(NOW), "overrides": log}

    def _maybe(self, share: float) -> bool:
        return self.random.random() < share

    def _context(self) -> dict[str, Any]:
        pick = self.random.choice
        session = pick([*SESSIONS, None, f"sess-{self.random.randrange(10**6):06d}"])
        context: dict[str, Any] = {
            "session_id": session,
            "run_id": pick(RUNS),
            "phase": pick(["start", "start", "resume", "failed", "failed", "other", None]),
            "current_schema_ref": pick([None, *SCHEMAS]),
            "tenant": pick(TENANTS),
            "region": pick(["eu", "us", None]),
            "app_version": pick(["1", "2", None]),
            "graph_version": pick(["v1", "v1", "v2", None]),
            "attributes": pick([None, {}, {"model": pick(ATTRIBUTES), "a": pick(["x", ""]), "ä": "ö"}]),
        }
        return {name: value for name, value in context.items() if value is not None or self._maybe(0.5)}

    def _keyed(self, context: dict[str, Any]) -> dict[str, Any]:
        key = f"k{self.random.randrange(8)}"
        if self._maybe(0.06):
            return {"key": key, "value": None}
        record = self._record(context)
        if self._maybe(0.06):
            self._break(record)
        return {"key": key, "value": record}

    def _record(self, context: dict[str, Any]) -> dict[str, Any]:
        pick = self.random.choice
        mode = pick(["degraded"] * 5 + ["trial"] * 3 + ["force", "deny", "later"])
        record: dict[str, Any] = {
            "override_id": f"o{self.random.randrange(12)}",
            "graph": "g" if self._maybe(0.95) else "h",
            "scope": self._scope(context),
            "tenant": pick([None, context.get("tenant"), *TENANTS]),
            "run_id": pick([context.get("run_id"), *RUNS]),
            "source": self._usually("operator" if mode in ("force", "deny") else "auto", ["operator", "auto", "x"]),
            "kind": self._usually("replace", ["pause", "pause", "later"], 0.85),
            "schema_ref": self._usually(pick(SCHEMAS), [None], 0.93),
            "entry_point": pick([None, "log_request"]),
            "resume": pick([None, {}, {"after": "x", "requires_channels": ["a"], "compatible_from": ["g:v1"]}]),
            "status": self._usually("active", ["suspended", ""], 0.95),
            "mode": mode,
            "attempt": self.random.randrange(3),
            "revision": self.random.randrange(1, 3),
            "reason": "r",
            "attempt_salt": pick([None, "", "1"]),
            "created_at": pick([None, "2026-11-30T05:00:00Z", "2026-11-30T06:00:00+01:00", self._time(), self._time()]),
            "expires_at": self._usually(self._time(1), [self._time(), format_time(NOW), "9999-12-31T23:59:59Z"], 0.8),
        }
        if mode == "trial":
            self._trial(record, context)
        if self._maybe(0.4):
            self._shadow(record, context)
        for name in ("resume", "entry_point", "attempt_salt", "created_at", "schema_ref", "run_id", "tenant"):
            if record[name] is None and self._maybe(0.5):
                del record[name]
        return record

    def _usually(self, value: Any, others: list[Any], share: float = 0.9) -> Any:
        return value if self._maybe(share) else self.random.choice(others)

    def _time(self, after: int = -1) -> str:
        near = self.random.choice((-2 * HOUR, -1, 0, 1, HOUR, 24 * HOUR))
        return format_time(NOW + (abs(near) + 1 if after > 0 else near))

    def _scope(self, context: dict[str, Any]) -> dict[str, Any]:
        shape = self.random.random()
        if shape < 0.4:
            return {"kind": "session", "session_id": self._usually(context.get("session_id") or "s1", SESSIONS, 0.8)}
        if shape < 0.45:
            return self.random.choice([{"kind": "graph"}, {"kind": "fleet", "x": "y"}, {"planet": "earth"}])
        names = self.random.sample(DIMENSIONS, self.random.choice((0, 1, 1, 2, 3)))
        scope = {name: self._value(name, context) for name in names}
        return scope if self._maybe(0.2) else {"kind": "cohort", **scope}

    def _value(self, name: str, context: dict[str, Any]) -> str:
        asked = context.get(name)
        return asked if isinstance(asked, str) and self._maybe(0.7) else self.random.choice(VALUES[name])

    def _trial(self, record: dict[str, Any], context: dict[str, Any]) -> None:
        schema_ref = record["schema_ref"]
        record["default_schema_ref"] = self._usually(schema_ref, SCHEMAS, 0.95)
        record["candidate_schema_ref"] = candidate = self._usually("g:v1", [None, "g:v2"], 0.9)
        record["primary_schema_ref"] = self._usually(candidate, [None, "g:v9"], 0.9)
        record["trial_percentage"] = self._percentage("trial", record, context)

    def _shadow(self, record: dict[str, Any], context: dict[str, Any]) -> None:
        record["shadow"] = shadow = {
            "schema_ref": "s:v1",
            "status": self._usually("active", ["pending", "stopped"], 0.8),
            "probe_percentage": self._percentage("shadow", record, context) or 0,
            "selection": "deterministic",
            "side_effects": "disabled",
        }
        record["shadow_schema_ref"] = self._usually("s:v1", [None, "s:v2"], 0.9)
        if self._maybe(0.05):
            del shadow[self.random.choice(sorted(shadow))]

    def _percentage(self, purpose: str, record: dict[str, Any], context: dict[str, Any]) -> Any:
        """Often the bucket of the session itself, or the next one: the edge of the selection."""
        if self._maybe(0.5):
            return self._usually(self.random.choice(PERCENTAGES), [None], 0.95)
        session = context.get("session_id") or ""
        own = bucket(purpose, record["override_id"], record["attempt_salt"] or "", session)
        return (own + self.random.choice((0, 1))) / 1000

    def _break(self, record: dict[str, Any]) -> None:
        """Makes a record that is none, or that says more than this version knows."""
        name = self.random.choice(sorted(record))
        how = self.random.randrange(6)
        if how == 0:
            del record[name]
        elif how == 1:
            record[name] = self.random.choice([7, True, ["x", "y"], {}, "", 1.5, -1, 2**32, None])
        elif how == 2:
            record["resume"] = {"after": "x", "within_ms": 5}
        elif how == 3:
            record["expires_at"] = self.random.choice(["2026-11-30", "2026-11-30T08:00:00", "soon", 5, None])
        elif how == 4:
            record["scope"] = self.random.choice([{"kind": "session"}, {"region": 7}, "all", None, {"kind": None}])
        else:
            record["unknown_field"] = {"a": [1]}


def main() -> None:
    """Prints cases."""
    generator = Generator(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for _ in range(int(sys.argv[1])):
        sys.stdout.write(json.dumps(generator.one(), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
