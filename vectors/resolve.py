"""Test vectors of override resolution: what every runtime must compute, in every language.

    python3 resolve.py            writes resolve.json beside this file
    python3 resolve.py --check    exits 1 if resolve.json differs

Inputs and the expected core of every case are written by hand. The whole expected
value comes from the reference (reference.py), which must agree with the hand-written part.
"""

import json
import pathlib
import sys

from reference import bucket, murmur3_x86_32, selection_hash
from records import BUCKET_INPUTS, CASES, HASHES, TABLE
from cases_start import (
    cases_of_ignored_records, cases_of_operators, cases_of_scopes, cases_of_tenants,
    cases_of_the_default, cases_of_the_last_ties, cases_of_the_precedence, cases_of_unequal_copies,
)
from cases_phases import (
    cases_of_failure, cases_of_resume, cases_of_the_pause, cases_of_the_shadow, cases_of_the_trial,
)


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
