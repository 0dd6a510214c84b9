#!/usr/bin/env python3
"""Holds `reflex replay` against real recorded events: expected figures, and an independent recomputation.

    compare.py --binary target/debug/reflex DATA

DATA is a folder with `events/NAME.ndjson`. For each file the report of `reflex replay -o json` must equal what
`recompute.py` finds in the raw file with the same shape rules, and the figures written down here; the records that
would be published must not depend on how often the log is replayed, nor on how it is cut into files. Prints a line
per file; exit 1 names every difference. Standard library only.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REGISTRY = ROOT / "config" / "registry"
PIECES = 3
SHAPES_MAX = 30

# The shipped registry names no failure of these recordings, so nothing would be published, and nothing would differ.
CATCH_ALL = """
[[signal]]
code = "any_failure"
owner = "tests"
match = { retry_budget_exhausted = true }

[[response]]
name = "degrade"
signal = "any_failure"
owner = "tests"
approved_by = "tests"
scope = "session"
schema_ref = "degraded_refund_graph:v1"
entry_point = "log_refund_request"
ttl = "24h"
"""

# What was counted by hand or stands in the description of the data. Failures: error events of the raw files.
EXPECTED = {
    "whowhen": {"failures": 117, "sessions": 184, "sessions_failing": 0, "silent": 93},
    "taubench_airline": {"failures": 73, "sessions": 200, "sessions_failing": 10},
    "toolbench": {"failures": 112, "sessions": 15, "sessions_failing": 8},
    "langfuse": {"failures": 0, "sessions": 19, "sessions_failing": 0},
}
SAME = ("events", "sessions", "sessions_failing", "types", "failures", "signatures")


def replay(binary, files, form, registry=REGISTRY):
    command = [binary, "replay", *map(str, files), "--registry", str(registry), "-o", form]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}")
    return done.stdout


def recompute(path):
    command = [sys.executable, str(HERE / "recompute.py"), "--shapes", str(REGISTRY / "shapes.toml"), str(path)]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"recompute.py {path.name}: exit {done.returncode}\n{done.stderr.decode(errors='replace')}")
    return json.loads(done.stdout)


def without_identity(signatures):
    """Signatures without what only a registry and a hash function give."""
    return [{k: v for k, v in row.items() if k not in ("fingerprint", "signal")} for row in signatures]


def differences(name, ours, theirs):
    """Lines that say where the report of the program (ours) differs from the recomputation (theirs)."""
    out = []
    for key in SAME:
        mine, other = ours[key], theirs[key]
        if key == "signatures":
            mine = without_identity(mine)
        if mine == other:
            continue
        out.append(f"{name}: {key} differ")
        if isinstance(mine, list):
            out += [f"  replay only:    {json.dumps(row, ensure_ascii=False)}" for row in mine if row not in other]
            out += [f"  recompute only: {json.dumps(row, ensure_ascii=False)}" for row in other if row not in mine]
            if len(out) == 1:
                out.append("  same rows in another order")
        else:
            out.append(f"  replay: {mine}, recompute: {other}")
    return out


def figures(name, report):
    """Lines that say where the report differs from the figures written down."""
    expected = EXPECTED[name]
    found = {
        "failures": sum(row["occurrences"] for row in report["failures"]),
        "sessions": report["sessions"],
        "sessions_failing": report["sessions_failing"],
    }
    out = [f"{name}: {key} is {value}, expected {expected[key]}" for key, value in found.items() if value != expected[key]]
    if report["malformed"]:
        out.append(f"{name}: malformed lines: {report['malformed'][:3]}")
    return out


def tells_of_failure(event):
    """Whether an event of the recording says that something went wrong."""
    kind = event["type"]
    return "error" in event or kind in ("stuck", "panic", "lease_lost", "retries_exhausted") or kind.endswith(
        ("_call_failed", "_call_cancelled", "node_failed", "validation_failed"))


def silent_sessions(binary, name, path, folder):
    """Sessions in which no event tells of a failure give no failure and no signature, and publish nothing."""
    expected = EXPECTED[name].get("silent")
    if expected is None:
        return []
    lines = [(json.loads(line), line) for line in path.read_text().splitlines() if line.strip()]
    loud = {event["session_id"] for event, _ in lines if tells_of_failure(event)}
    silent = {event["session_id"] for event, _ in lines} - loud
    alone = folder / f"{name}.silent.ndjson"
    alone.write_text("".join(f"{line}\n" for event, line in lines if event["session_id"] in silent))
    report = json.loads(replay(binary, [alone], "json"))
    out = []
    if len(silent) != expected or report["sessions"] != expected:
        out.append(f"{name}: {len(silent)} silent sessions, replay sees {report['sessions']}, expected {expected}")
    if report["signatures"] or report["failures"] or replay(binary, [alone], "ndjson"):
        out.append(f"{name}: silent sessions gave {report['signatures'] or report['failures'] or 'records'}")
    return out


def repeats(binary, name, path, folder):
    """The same bytes again, and cut into consecutive pieces given in order; under a registry that answers all."""
    registry = folder / f"{name}.registry"
    shutil.copytree(REGISTRY, registry)
    (registry / "catch_all.toml").write_text(CATCH_ALL)
    lines = path.read_bytes().splitlines(keepends=True)
    pieces = []
    for index in range(PIECES):
        piece = folder / f"{name}.{index}.ndjson"
        piece.write_bytes(b"".join(lines[index * len(lines) // PIECES:(index + 1) * len(lines) // PIECES]))
        pieces.append(piece)
    out = []
    for form in ("ndjson", "json"):
        whole, again, cut = (replay(binary, files, form, registry) for files in ([path], [path], pieces))
        out += [f"{name}: a second replay gives other {form}"] if again != whole else []
        out += [f"{name}: {PIECES} consecutive pieces give other {form} than the whole"] if cut != whole else []
        if form == "ndjson" and bool(whole) != bool(EXPECTED[name]["sessions_failing"]):
            out.append(f"{name}: {len(whole.splitlines())} records of {EXPECTED[name]['sessions_failing']} failing sessions")
    return out


def shipped_shapes(paths):
    """The shape rules are few, and know nothing of the graphs, nodes and tools of any recording."""
    rules = tomllib.loads((REGISTRY / "shapes.toml").read_text())["shape"]
    tables = [table for rule in rules for table in (rule.get("match", {}), rule.get("when", {}))]
    words = {pattern for table in tables for key in ("class", "code") for pattern in table.get(key, [])}
    events = [json.loads(line) for path in paths for line in path.read_text().splitlines() if line.strip()]
    named = {event.get(field) for event in events for field in ("graph", "node", "tool")} & words
    out = [f"shapes.toml names {sorted(named)} of the recordings"] if named else []
    return out + ([f"shapes.toml has {len(rules)} rules, at most {SHAPES_MAX}"] if len(rules) > SHAPES_MAX else [])


def check(binary, name, path, folder):
    report = json.loads(replay(binary, [path], "json"))
    problems = differences(name, report, recompute(path)) + figures(name, report)
    problems += repeats(binary, name, path, folder) + silent_sessions(binary, name, path, folder)
    matched = [row["signal"] for row in report["signatures"] if row["signal"]]
    print(f"{name}: {report['events']} events, {report['sessions']} sessions, {report['sessions_failing']} failing, "
          f"{sum(row['occurrences'] for row in report['failures'])} failures of {len(report['failures'])} kinds, "
          f"{len(report['signatures'])} signatures, {len(matched)} with a signal: "
          f"{'differs' if problems else 'as recomputed'}")
    return problems


def main():
    parser = argparse.ArgumentParser(description="Hold `reflex replay` against real recorded events.")
    parser.add_argument("--binary", default=str(ROOT / "target" / "debug" / "reflex"), help="the program to run")
    parser.add_argument("data", type=pathlib.Path, metavar="DATA", help="folder with events/NAME.ndjson")
    args = parser.parse_args()
    paths = {name: args.data / "events" / f"{name}.ndjson" for name in EXPECTED}
    problems = shipped_shapes(paths.values())
    with tempfile.TemporaryDirectory() as folder:
        for name, path in paths.items():
            problems += check(args.binary, name, path, pathlib.Path(folder))
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
