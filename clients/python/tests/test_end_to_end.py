"""The client, a real broker, and Reflex itself with the registry it ships."""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker import Broker
from conftest import REPOSITORY
from reflex_runtime import Client, Context, Intervention

pytestmark = [pytest.mark.kafka, pytest.mark.program]

GRAPH = "refund_graph"


def eventually(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Reflex:
    """The engine with its HTTP service."""

    def __init__(self, program: str, broker: str, folder: Path) -> None:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.http = f"127.0.0.1:{sock.getsockname()[1]}"
        self.kafka = broker
        common = ["--bootstrap-servers", broker, "--registry", str(REPOSITORY / "config" / "registry")]
        apply = [program, "topics", "apply", "--dev", "--partitions", "2", *common]
        applied = subprocess.run(apply, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert applied.returncode == 0, applied.stdout + applied.stderr
        self._log = (folder / "reflex.log").open("wb")
        run = [program, "run", "--dev", "--http", self.http, "--data-dir", str(folder / "data"), *common]
        self._process = subprocess.Popen(
            run, cwd=folder, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env=os.environ
        )
        host, _, port = self.http.partition(":")

        def serves() -> bool:
            ended = self._process.poll()
            assert ended is None, f"reflex ended with {ended}: {(folder / 'reflex.log').read_text()[-2000:]}"
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                return True
            return False

        eventually(serves)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


@pytest.fixture
def reflex(own_broker: Broker, program: str, tmp_path: Path) -> Iterator[Reflex]:
    found = Reflex(program, own_broker.address, tmp_path)
    yield found
    found.close()


class Session:
    """A run of the refund graph."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.who: dict[str, Any] = {"session_id": name, "graph": GRAPH, "run_id": f"run_{name}", "tenant": "t-7"}

    def emit(self, kind: str, **fields: Any) -> None:
        assert self.client.emit({**self.who, "type": kind, "graph_version": "v1", "region": "eu-west", **fields})

    def fails(self, node: str, error: str = "pydantic.ValidationError", **fields: Any) -> None:
        for attempt in (1, 2):
            self.emit("node_failed", node=node, attempt=attempt, max_attempts=2, error={"class": error}, **fields)

    def waits(self, budget_seconds: float = 60.0) -> Intervention | None:
        return self.client.wait_for_intervention(**self.who, budget_seconds=budget_seconds)

    def asks(self, phase: str, current: str | None = None) -> tuple[str, str | None]:
        context = Context(
            self.who["session_id"],
            self.who["run_id"],
            phase,
            tenant="t-7",
            region="eu-west",
            graph_version="v1",
            current_schema_ref=current,
        )
        found = self.client.resolve(GRAPH, context)
        return found.schema_ref, found.entry_point


def story(client: Client, name: str) -> None:
    """Saved, saved again on the degraded route, done; another that nothing is registered for."""
    session = Session(client, name)
    assert client.runtime_started(schemas=["refund_graph:v1", "degraded_refund_graph:v1"], graphs=[GRAPH])
    session.emit("graph_started")
    session.fails("evaluate_evidence")
    found = session.waits()
    assert found is not None
    assert found.intervention_id is not None
    override = found.override
    assert (override.schema_ref, override.entry_point) == ("degraded_refund_graph:v1", "log_refund_request")
    assert override.resume is not None
    assert override.resume.compatible_from == ("refund_graph:v1",)
    assert session.asks("failed", "refund_graph:v1") == ("degraded_refund_graph:v1", "log_refund_request")
    client.override_applied(override, **session.who)

    degraded: dict[str, Any] = {"route": "degraded", "schema_ref": override.schema_ref, "override_id": override.id}
    session.fails("log_refund_request", **degraded, override_attempt=0)
    again = session.waits()
    assert again is not None
    assert (again.override.id, again.override.attempt) == (override.id, 1)
    assert again.override.schema_ref == "manual_refund_graph:v1"
    client.override_applied(again.override, **session.who)
    done = {**degraded, "schema_ref": again.override.schema_ref, "override_attempt": 1}
    session.emit("graph_completed", **done, latency_ms=5)
    eventually(lambda: session.asks("start") == ("refund_graph:v1", None))

    other = Session(client, f"{name}-other")
    other.emit("graph_started")
    begun = time.monotonic()
    other.fails("log_refund_request")
    assert other.waits() is None
    assert time.monotonic() - begun < 50, "the intervention that failed did not end the wait"
    assert client.flush(30)
    metrics = client.metrics()
    assert metrics.get("events_rejected", 0) + metrics.get("overrides_malformed", 0) == 0
    assert "clock_offset_ms" in metrics


def test_a_session_is_saved_over_kafka(reflex: Reflex) -> None:
    with Client(kafka=reflex.kafka) as client:
        assert client.wait_ready(60)
        story(client, "sess_kafka")


def test_a_session_is_saved_over_http(reflex: Reflex) -> None:
    with Client(http=f"http://{reflex.http}") as client:
        assert client.wait_ready(60)
        story(client, "sess_http")
