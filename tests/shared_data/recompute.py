#!/usr/bin/env python3
"""Recomputes, from recorded runtime events, the figures of `reflex replay FILE... -o json`.

    recompute.py --shapes SHAPES.toml FILE...

A second implementation of what an event means (failures, shapes, masks, trips, signatures), read from the agreed
semantics and sharing nothing with the Rust code, so that it can serve as a check on it: `compare.py`. Knows shape
rules only: no graphs (so no required artifact), no signals, no settings other than the defaults. Standard library.
"""

import argparse
import json
import re
import sys
from collections import Counter, deque
from datetime import datetime, timedelta, timezone

from failure_shape import chain_of, classes_of, load_rules, shape_of

TRIP = 3                       # identical failures of one node in one run
LATENESS_MICROS = 120_000_000  # append time - occurred_at above this: the event is late
REMEMBERED_IDS = 16            # failure event ids kept per session

FAILURES = {
    "node_failed", "model_output_validation_failed", "model_call_failed", "tool_call_failed",
    "tool_call_cancelled", "stuck", "panic", "lease_lost",
}
EXHAUSTED_STATES = {"max_attempts", "non_retryable", "timeout", "no_policy"}
NOT_FAILURES = {
    "GraphInterrupt", "NodeInterrupt", "GraphBubbleUp", "ParentCommand", "GraphDrained",
    "ApprovalRequired", "CallDeferred",
}
KNOWN_TYPES = FAILURES | {
    "graph_started", "graph_completed", "graph_failed", "node_started", "node_completed",
    "tool_call_started", "tool_call_completed", "retry", "retries_exhausted", "artifact_produced",
    "progress", "session_started", "session_resumed", "session_ended", "lease_recovered",
    "override_applied", "override_ignored", "action_intended", "action_confirmed", "action_ambiguous",
    "action_failed",
}
KNOWN_PREFIXES = ("compensation_",)


def runtime_level(kind):
    return kind in ("runtime_started", "dependency_status") or kind.startswith("slo_")


# --- reading and ordering -------------------------------------------------------------------------

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII)


def parse_time(text):
    """RFC 3339 to microseconds since the epoch; ValueError if it is not one."""
    m = TIME.fullmatch(text) if isinstance(text, str) else None
    if not m:
        raise ValueError(f"not a time: {text!r}")
    year, month, day, hour, minute, second = (int(m[i]) for i in range(1, 7))
    micros = int(((m[7] or "") + "000000")[:6])
    at = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    if m[9]:
        offset = timedelta(hours=int(m[10]), minutes=int(m[11]))
        at += -offset if m[9] == "+" else offset
    return (at - EPOCH) // timedelta(microseconds=1) + micros


def format_time(micros):
    seconds, fraction = divmod(micros, 1_000_000)
    at = (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    text = f"{fraction // 1000:03}" if fraction % 1000 == 0 else f"{fraction:06}"
    return f"{at}.{text}Z"


class Malformed(Exception):
    pass


def read_event(line):
    try:
        event = json.loads(line)
    except ValueError as e:
        raise Malformed(f"not_json: {e}")
    if not isinstance(event, dict):
        raise Malformed("not_object")
    event = {k: v for k, v in event.items() if v is not None}
    for field in ("event_id", "type", "session_id", "graph"):
        if field not in event:
            raise Malformed(f"missing_field: {field}")
        if not isinstance(event[field], str) or not event[field]:
            raise Malformed(f"bad_field: {field}")
    for field in ("node", "run_id", "route", "retry_state", "tenant"):
        if field in event and not isinstance(event[field], str):
            raise Malformed(f"bad_field: {field}")
    for field in ("attempt", "max_attempts"):
        if field in event and (isinstance(event[field], bool) or not isinstance(event[field], int)):
            raise Malformed(f"bad_field: {field}")
    error = event.get("error")
    if error is not None:
        causes = error.get("causes") if isinstance(error, dict) else ()
        if not isinstance(error, dict) or not isinstance(causes or [], list):
            raise Malformed("bad_field: error")
    try:
        times = {f: parse_time(event[f]) for f in ("occurred_at", "appended_at") if f in event}
    except (ValueError, OverflowError) as e:
        raise Malformed(f"bad_time: {e}")
    event["@occurred"] = times.get("occurred_at")
    event["@at"] = times.get("appended_at", times.get("occurred_at"))
    return event


def read_log(paths):
    """All files as one log: argument order, missing times filled, then a stable sort by time."""
    events, malformed = [], []
    previous = None
    for path in paths:
        with (sys.stdin.buffer if path == "-" else open(path, "rb")) as f:
            for number, raw in enumerate(f, 1):
                if not raw.strip():
                    continue
                try:
                    event = read_event(raw)
                except Malformed as e:
                    malformed.append((path, number, str(e)))
                    continue
                if event["@at"] is None:
                    event["@at"] = 0 if previous is None else previous + 1000
                previous = event["@at"]
                events.append(event)
    events.sort(key=lambda e: e["@at"])
    return events, malformed


# --- tracking -------------------------------------------------------------------------------------

class Run:
    """What the failures of one run need. A node is (route, name)."""

    def __init__(self):
        self.counts = Counter()  # (node, shape) -> identical failures since the last reset
        self.made = set()        # (node, shape) that gave a signature since the last reset
        self.last = {}           # node -> (shape, type, error) of its last failure; latest node last
        self.previous = None     # (node, shape, attempt) of the run's previous failure
        self.dirty = set()       # nodes with a failure since their last node_started or node_completed

    def reset(self, node=None):
        if node is None:
            self.__init__()
            return
        self.counts = Counter({k: n for k, n in self.counts.items() if k[0] != node})
        self.made = {k for k in self.made if k[0] != node}
        self.last.pop(node, None)
        self.dirty.discard(node)
        if self.previous and self.previous[0] == node:
            self.previous = None


class Session:
    def __init__(self):
        self.runs = {}                          # (graph, run_id or None) -> Run
        self.ids = deque(maxlen=REMEMBERED_IDS)  # failure event ids


class Replay:
    def __init__(self, rules):
        self.rules = rules
        self.events = 0
        self.types = Counter()
        self.sessions = set()
        self.failing = set()
        self.state = {}        # (tenant, session_id) -> Session
        self.failures = {}     # (graph, node, shape) -> [session_id]
        self.signatures = {}   # (graph, node, shape) -> [(session_id, at)]

    def step(self, e):
        kind = e["type"]
        self.events += 1
        self.types[kind] += 1
        if e.get("route") == "shadow" or runtime_level(kind):
            return
        if kind not in KNOWN_TYPES and not kind.startswith(KNOWN_PREFIXES):
            return
        self.sessions.add(e["session_id"])
        session = self.state.setdefault((e.get("tenant"), e["session_id"]), Session())
        late = e["@occurred"] is not None and e["@at"] - e["@occurred"] > LATENESS_MICROS

        if kind == "session_ended":
            session.runs.clear()
            session.ids.clear()
        elif kind == "graph_started":
            session.runs.pop((e["graph"], None), None)
            session.ids.clear()
        elif kind == "graph_completed":
            self.end(session, e)
        elif kind in FAILURES or kind in ("retries_exhausted", "graph_failed"):
            if e["event_id"] in session.ids:
                return
            if not NOT_FAILURES.intersection(classes_of(chain_of(e.get("error")))):
                session.ids.append(e["event_id"])
                if kind in FAILURES:
                    self.failure(session, e, late)
                elif kind == "retries_exhausted" and not late:
                    self.retries_exhausted(session, e)
                elif kind == "graph_failed" and not late:
                    self.graph_failed(session, e)
            if kind == "graph_failed":
                self.end(session, e)
        elif kind in ("progress", "artifact_produced"):
            run = self.run(session, e)
            run.reset(self.node(e) if "node" in e else None)
        elif kind == "node_started":
            self.run(session, e).dirty.discard(self.node(e))
        elif kind == "node_completed":
            run, node = self.run(session, e), self.node(e)
            if node in run.dirty:
                run.dirty.discard(node)
            else:
                run.reset(node)

    @staticmethod
    def node(e):
        return (e.get("route", "primary"), e.get("node"))

    @staticmethod
    def run(session, e):
        return session.runs.setdefault((e["graph"], e.get("run_id")), Run())

    @staticmethod
    def end(session, e):
        session.runs.pop((e["graph"], e.get("run_id")), None)
        session.runs.pop((e["graph"], None), None)

    def failure(self, session, e, late):
        node, error = self.node(e), e.get("error")
        shape = shape_of(self.rules, e["type"], error)
        self.failures.setdefault((e["graph"], node[1], shape), []).append(e["session_id"])
        if late:
            return
        run, attempt = self.run(session, e), e.get("attempt")
        repeat = (e["type"] == "node_failed" and attempt is not None
                  and run.previous == (node, shape, attempt))
        if not repeat:
            run.counts[node, shape] += 1
        run.previous = (node, shape, attempt)
        run.last.pop(node, None)
        run.last[node] = (shape, e["type"], error)
        run.dirty.add(node)
        if "retry_state" in e:
            exhausted = e["retry_state"] in EXHAUSTED_STATES
        else:
            exhausted = attempt is not None and attempt == e.get("max_attempts")
        if exhausted or (not repeat and run.counts[node, shape] >= TRIP):
            self.sign(run, e, node, shape)

    def retries_exhausted(self, session, e):
        run, node = self.run(session, e), self.node(e)
        shape = run.last[node][0] if node in run.last else shape_of(self.rules, e["type"], e.get("error"))
        self.sign(run, e, node, shape)

    def graph_failed(self, session, e):
        run, error = self.run(session, e), e.get("error")
        node = next(reversed(run.last), None)
        if node is not None:
            shape, kind, before = run.last[node]
            if error:
                # as if its type were the node failure's; what it does not say is taken as the same
                known = {k: v for k, v in error.items() if v not in (None, "", [])}
                if shape_of(self.rules, kind, {**(before or {}), **known}) != shape:
                    node = None
            if node is not None:
                if not any(n == node for n, _ in run.made):
                    self.sign(run, e, node, shape)
                return
        if error:
            self.sign(run, e, (e.get("route", "primary"), None), shape_of(self.rules, e["type"], error))

    def sign(self, run, e, node, shape):
        if (node, shape) in run.made:
            return
        run.made.add((node, shape))
        self.failing.add(e["session_id"])
        self.signatures.setdefault((e["graph"], node[1], shape), []).append((e["session_id"], e["@at"]))

    def report(self):
        def key(row):
            node = row["node"]
            return (-row["sessions"], -row["occurrences"], row["graph"],
                    (node is not None, node or ""), row["failure_shape"])

        signatures = [
            {"graph": g, "node": n, "failure_shape": s, "retry_budget_exhausted": True,
             "required_artifact_present": None, "sessions": len({i for i, _ in seen}),
             "occurrences": len(seen), "first_at": format_time(min(t for _, t in seen)),
             "last_at": format_time(max(t for _, t in seen))}
            for (g, n, s), seen in self.signatures.items()]
        failures = [
            {"graph": g, "node": n, "failure_shape": s, "sessions": len(set(seen)), "occurrences": len(seen)}
            for (g, n, s), seen in self.failures.items()]
        return {
            "events": self.events,
            "sessions": len(self.sessions),
            "sessions_failing": len(self.failing),
            "types": dict(sorted(self.types.items())),
            "signatures": sorted(signatures, key=key),
            "failures": sorted(failures, key=key),
        }


def main():
    parser = argparse.ArgumentParser(description="Recompute the figures of `reflex replay -o json`.")
    parser.add_argument("--shapes", required=True, help="TOML file with the ordered [[shape]] rules")
    parser.add_argument("files", nargs="+", metavar="FILE")
    args = parser.parse_args()
    events, malformed = read_log(args.files)
    for path, line, problem in malformed:
        print(f"{path}:{line}: {problem}", file=sys.stderr)
    replay = Replay(load_rules(args.shapes))
    for event in events:
        replay.step(event)
    json.dump(replay.report(), sys.stdout, indent=2, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
