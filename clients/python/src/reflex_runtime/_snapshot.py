"""The last known overrides in a file, for a start without a broker.

{"format":"reflex-overrides","version":1}
["KEY",{…override…}]                    one line a record
{"records":N}                           the last line: what has no such line was cut off
"""

import contextlib
import json
import os
import tempfile
from pathlib import Path

from ._records import UndecodableError, decode_override
from ._table import OverrideTable

_FORMAT = {"format": "reflex-overrides", "version": 1}
_LINES_AT_ONCE = 1000


class BadSnapshotError(ValueError):
    """The file is none, or not whole."""


def write_snapshot(path: Path, table: OverrideTable) -> int:
    """Writes all records, then puts the file in place in one step; how many. Raises OSError."""
    records = table.records()
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
            file.write(json.dumps(_FORMAT) + "\n")
            # In small portions, so that no other thread waits long for the interpreter.
            for at in range(0, len(records), _LINES_AT_ONCE):
                lines = [f"[{json.dumps(key)},{record.raw}]\n" for key, record in records[at : at + _LINES_AT_ONCE]]
                file.write("".join(lines))
            file.write(json.dumps({"records": len(records)}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    return len(records)


def read_snapshot(path: Path) -> OverrideTable:
    """The table of a file. Raises OSError, BadSnapshotError."""
    table = OverrideTable()
    try:
        with path.open(encoding="utf-8", errors="surrogatepass") as file:
            if json.loads(next(file, "null")) != _FORMAT:
                raise BadSnapshotError("not a snapshot of this version")
            for line in file:
                content = json.loads(line)
                if isinstance(content, dict):
                    if content.get("records") != len(table) or next(file, None) is not None:
                        raise BadSnapshotError("not whole")
                    return table
                key, fields = content
                table.put(key, decode_override(json.dumps(fields, ensure_ascii=False, separators=(",", ":"))))
    except UndecodableError as problem:
        raise BadSnapshotError(str(problem)) from None
    except (ValueError, TypeError, RecursionError) as problem:
        raise problem if isinstance(problem, BadSnapshotError) else BadSnapshotError("not JSON") from None
    raise BadSnapshotError("not whole")
