import json
from pathlib import Path
from typing import Any

import pytest

from reflex_runtime import Context
from reflex_runtime._bucket import bucket, murmur3_x86_32, threshold
from reflex_runtime._resolve import explain, resolve
from reflex_runtime._table import OverrideTable
from reflex_runtime._time import parse_time


@pytest.fixture(scope="module")
def cases(vectors: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((vectors / "resolve.json").read_text(encoding="utf-8"))
    return found


def test_hashes_are_those_of_every_language(cases: dict[str, Any]) -> None:
    assert len(cases["hash"]) >= 15
    for case in cases["hash"]:
        assert murmur3_x86_32(case["text"].encode(), case["seed"]) == int(case["hash"], 16), case


def test_buckets_are_those_of_every_language(cases: dict[str, Any]) -> None:
    assert len(cases["buckets"]) >= 20
    for case in cases["buckets"]:
        found = bucket(case["purpose"], case["override_id"], case["attempt_salt"], case["session_id"])
        assert found == case["bucket"], case


def test_resolves_every_vector(cases: dict[str, Any]) -> None:
    assert len(cases["cases"]) >= 400
    for case in cases["cases"]:
        table = OverrideTable()
        for slot, record in enumerate(case["overrides"]):
            table.apply(str(slot), json.dumps(record))
        context, now = Context.of(case["context"]), parse_time(case["now"])
        assert now is not None
        found, losers = explain(table, case["graph"], context, now)
        assert found.to_dict(losers) == case["expected"], case["name"]
        assert resolve(table, case["graph"], context, now) == found, case["name"]


def test_every_thousandth_of_a_percent_is_a_whole_threshold() -> None:
    assert all(threshold(thousandths / 1000) == thousandths for thousandths in range(100_001))
    assert [threshold(odd) for odd in (-1.0, float("nan"), float("inf"), 100.0006)] == [0, 0, 100_000, 100_000]
