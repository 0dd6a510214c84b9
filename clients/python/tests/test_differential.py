"""The same cases in Python and in Rust: ``reflex resolve --cases -``."""

import json
import os
import subprocess
from collections import Counter
from typing import Any

import pytest

from cases import Generator
from reflex_runtime import Context
from reflex_runtime._records import decode_override, unusable
from reflex_runtime._resolve import explain
from reflex_runtime._table import IGNORED, OverrideTable
from reflex_runtime._time import parse_time

CASES = int(os.environ.get("REFLEX_TEST_CASES", "20000"))
SEED = int(os.environ.get("REFLEX_TEST_SEED", "1"))

# What has to have happened, or the generator proves nothing.
HIT = {
    *("stored", "ignored", "removed", "absent", "unchanged", "older", "conflict", "undecodable"),
    *("unusable status", "unusable mode", "unusable kind", "unusable source"),
    *("unusable schema", "unusable copies", "unusable scope"),
    *("start default primary", "start session degraded", "start cohort degraded", "start force degraded"),
    *("start deny primary", "start trial trial", "resume current degraded", "resume current primary"),
    *("resume current trial", "resume cohort degraded", "failed session degraded", "failed deny primary"),
    *("failed current degraded", "failed current primary", "resume default primary"),
    *("pause", "shadow", "entry point", "losers", "expires this microsecond", "no session id selected by all"),
}


def answer(case: dict[str, Any], seen: Counter[str]) -> dict[str, Any]:
    table = OverrideTable()
    for keyed in case["overrides"]:
        value = None if keyed["value"] is None else json.dumps(keyed["value"], ensure_ascii=False)
        became, record = table.apply(keyed["key"], value)
        seen[became] += 1
        if record is not None:
            if became == IGNORED:
                seen[f"unusable {unusable(record)}"] += 1
            if value is not None and decode_override(value).expires_at_micros == parse_time(case["now"]):
                seen["expires this microsecond"] += 1
            if record.trial_percentage is not None and record.trial_percentage >= 100:
                seen["no session id selected by all"] += not case["context"].get("session_id")
    context = Context.of(case["context"])
    found, losers = explain(table, case["graph"], context, parse_time(case["now"]) or 0)
    seen[f"{context.phase} {found.reason} {found.route}"] += 1
    seen["pause"] += found.kind == "pause"
    seen["shadow"] += found.shadow_schema_ref is not None
    seen["entry point"] += found.entry_point is not None
    seen["losers"] += len(losers) > 1
    return found.to_dict(losers)


def test_the_generator_hits_every_branch() -> None:
    seen: Counter[str] = Counter()
    generator = Generator(SEED)
    for _ in range(20_000):
        answer(generator.one(), seen)
    assert {name for name in HIT if not seen[name]} == set()


@pytest.mark.program
def test_python_computes_what_rust_computes(program: str) -> None:
    generator = Generator(SEED)
    cases = [generator.one() for _ in range(CASES)]
    lines = "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases)
    run = subprocess.run(
        [program, "resolve", "--cases", "-"], input=lines, capture_output=True, encoding="utf-8", check=False
    )
    assert run.returncode == 0, run.stderr[:2000]
    answers = run.stdout.splitlines()
    assert len(answers) == CASES
    seen: Counter[str] = Counter()
    for case, line in zip(cases, answers, strict=True):
        assert answer(case, seen) == json.loads(line), json.dumps(case, ensure_ascii=False)
