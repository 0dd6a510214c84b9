"""The client and the life of its process: no broker, forks, the end. Nothing listens where these clients connect."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from records import cohort_override, text
from reflex_runtime import Client, Context, State
from reflex_runtime._snapshot import write_snapshot
from reflex_runtime._table import OverrideTable

NOBODY = "127.0.0.1:9"
ENDS_WITHIN_SECONDS = 120
"""Far more than the 2 s that a client takes for its end: what hangs, hangs for ever."""
ADDRESSES: list[dict[str, Any]] = [{"kafka": NOBODY}, {"http": f"http://{NOBODY}"}]
EVENT = {"type": "progress", "session_id": "s1", "graph": "g"}


def run(script: str, **environment: str) -> str:
    """The output of a Python process that has to end by itself."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_SECONDS,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("address", ADDRESSES)
def test_without_a_broker_everything_answers(address: dict[str, Any]) -> None:
    with Client(**address, close_seconds=0.1) as client:
        assert client.state is State.NOT_READY
        assert client.resolve("g", {"graph_version": "v1"}).to_dict()["schema_ref"] == "g:v1"
        assert client.emit(EVENT)
        assert client.wait_for_intervention("s1", "g", "r1", 0.05) is None
        assert not client.wait_ready(0.05)
        assert not client.flush(0.05)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_full_queue_drops_and_the_process_ends(address: dict[str, Any]) -> None:
    printed = run(
        f"""
from reflex_runtime import Client
client = Client(**{address!r}, events_max=1000)
taken = sum(client.emit({EVENT!r}) for _ in range(30_000))
metrics = client.metrics()
print(taken, metrics.get("events_dropped", 0), taken + metrics.get("events_dropped", 0))
"""
    )
    taken, dropped, together = map(int, printed.split())
    assert taken >= 1000
    assert dropped > 0
    assert together == 30_000


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("ends", ["os._exit(0)", "sys.exit(0)"])
def test_after_a_fork_both_processes_go_on_and_end(address: dict[str, Any], ends: str) -> None:
    printed = run(
        f"""
import os, sys, threading, time
from reflex_runtime import Client, State
client = Client(**{address!r}, close_seconds=0.2)
time.sleep(0.3)
stop = threading.Event()
def busy():
    while not stop.is_set():
        client.emit({EVENT!r}); client.resolve("g"); client.metrics()
threading.Thread(target=busy, daemon=True).start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        assert client.metrics()["events_waiting"] == 0
        assert client.resolve("g", {{"graph_version": "v1"}}).schema_ref == "g:v1"
        assert client.emit({EVENT!r})
        assert client.wait_for_intervention("s1", "g", "r1", 0.05) is None
        assert client.state is State.NOT_READY
        assert client._transport is not None
        {ends}
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
stop.set()
"""
    )
    assert printed.split() == ["0"] * 5


def test_a_library_that_waits_for_ever_keeps_nobody_from_ending() -> None:
    """As librdkafka does in a child whose parent forked while a thread of it looked a name up."""
    printed = run(
        f"""
import threading, time
import reflex_runtime._kafka as kafka
from reflex_runtime import Client

class Endless(kafka.Producer):
    flushed = False
    def flush(self, seconds):
        Endless.flushed = True
        return super().flush(seconds)
    def __del__(self):
        time.sleep(3600)

kafka.Producer = Endless
client = Client(kafka={NOBODY!r}, close_seconds=0.2)
client.emit({EVENT!r})
while client._transport._producer is None:
    time.sleep(0.01)
begun = time.monotonic()
client.close()
print(Endless.flushed, time.monotonic() - begun < 10, client.metrics()["events_undelivered"])
"""
    )
    assert printed.split() == ["True", "True", "1"]


def test_a_child_that_never_uses_the_client_starts_no_thread() -> None:
    printed = run(
        f"""
import os, threading
from reflex_runtime import Client
client = Client(kafka={NOBODY!r}, close_seconds=0.1)
child = os.fork()
if child == 0:
    assert threading.active_count() == 1, threading.enumerate()
    raise SystemExit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    assert printed.split() == ["7"]


def test_multiprocessing_by_fork_works() -> None:
    printed = run(
        f"""
import multiprocessing
from reflex_runtime import Client
client = Client(kafka={NOBODY!r}, close_seconds=0.1)
def work(number):
    return client.resolve("g", {{"graph_version": str(number)}}).schema_ref
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, range(3)))
"""
    )
    assert printed.strip() == "['g:0', 'g:1', 'g:2']"


def test_disabled_it_does_nothing(tmp_path: Path) -> None:
    table = OverrideTable()
    table.apply("c", text(cohort_override()))
    path = tmp_path / "overrides.ndjson"
    write_snapshot(path, table)
    printed = run(
        f"""
import threading
from reflex_runtime import Client
client = Client(kafka={NOBODY!r}, snapshot_path={str(path)!r})
print(client.state, client.emit({EVENT!r}), client.wait_for_intervention("s1", "g", "r1", 60), client.wait_ready(60),
    client.resolve("refund_graph", {{"region": "eu", "graph_version": "v1"}}).schema_ref, client.flush(60),
    threading.active_count(), client.override_ignored(None, "budget_expired", session_id="s", graph="g", run_id=None))
""",
        REFLEX_DISABLE="1",
    )
    assert printed.split() == ["disabled", "False", "None", "False", "refund_graph:v1", "True", "1", "False"]


def test_importing_starts_nothing_and_needs_no_kafka_library() -> None:
    printed = run(
        """
import sys, threading
sys.modules["confluent_kafka"] = None
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "confluent_kafka" else real(name, *rest)
import reflex_runtime
print(threading.active_count())
try:
    reflex_runtime.Client(kafka="127.0.0.1:9")
except ImportError as error:
    print("pip install" in str(error))
reflex_runtime.Client(http="http://127.0.0.1:9", close_seconds=0.1)
"""
    )
    assert printed.split() == ["1", "True"]


def test_closing_twice_and_using_it_afterwards_is_no_error() -> None:
    client = Client(kafka=NOBODY, close_seconds=0.1)
    client.close()
    client.close()
    assert client.flush(1)
    assert not client.emit(EVENT)
    assert client.wait_for_intervention("s1", "g", "r1", 60) is None
    assert client.resolve("g", Context(graph_version="v1")).schema_ref == "g:v1"


def test_a_callback_that_fails_stops_nothing() -> None:
    with Client(kafka=NOBODY, error_after_seconds=0.2, close_seconds=0.1) as client:
        seen: list[State] = []

        def fails(_: State) -> None:
            raise RuntimeError

        client.on_change(fails)
        end = client.on_change(seen.append)
        deadline = time.monotonic() + 60
        while not seen:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        end()
        assert seen == [client.state] == [State.ERROR]
        assert client.metrics()["callback_errors"] == 1
