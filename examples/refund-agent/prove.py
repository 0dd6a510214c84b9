"""Proves the refund agent end to end: a real broker, a real `reflex run`, fifty customers at once, and what may fail.

    REFLEX_TEST_PROGRAM=../../target/debug/reflex REFLEX_TEST_KAFKA_JARS=../../target/tmp/kafka/jars python prove.py

Starts a broker of its own from the jars of Kafka, and kills it on the way. With REFLEX_TEST_KAFKA=host:port and
REFLEX_TEST_KAFKA_PID it takes that one instead, which must be fresh, and kills it all the same. With
REFLEX_TEST_TRANSPORT=http the agent knows the processor's address only; what needs a client of Kafka is left out then.

The last line on standard output is the result as JSON; what does not hold is in `wrong`, and the exit code is 1.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from operating import DEGRADED, Operator, Topics
from refund_agent import RefundAgent, config, request

from reflex_runtime import Client
from reflex_runtime.langgraph import ReflexGraph, Settings

HERE = Path(__file__).parent
BUDGET_SECONDS = 5.0
SHORT_BUDGET_SECONDS = 1.5
SESSIONS = 50
PACE_SECONDS = 0.02
"""Between the starts of two sessions: all of them run at once for most of the time."""
THINK_SECONDS = 0.4
"""What the model takes for an answer."""


class Proof:
    """What was found, and what of it is wrong."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.wrong: list[str] = []

    def holds(self, what: str, true: bool, seen: object = "") -> None:
        if not true:
            self.wrong.append(f"{what}: {seen}" if seen != "" else what)
            print(f"WRONG {self.wrong[-1]}", file=sys.stderr)

    def note(self, **found: Any) -> None:
        self.found.update(found)
        for name, value in found.items():
            print(f"{name}: {value}", file=sys.stderr)


class Watching(Client):
    """The client, remembering what it sends and when."""

    def __init__(self, **given: Any) -> None:
        self.sent: dict[str, list[tuple[float, dict[str, Any]]]] = {}
        self._noting = threading.Lock()
        super().__init__(**given)

    def emit(self, event: Mapping[str, Any]) -> bool:
        with self._noting:
            self.sent.setdefault(str(event.get("session_id")), []).append((time.monotonic(), dict(event)))
        return super().emit(event)

    def of(self, session_id: str, event_type: str, **fields: Any) -> list[tuple[float, dict[str, Any]]]:
        with self._noting:
            sent = list(self.sent.get(session_id, ()))
        wanted = {"type": event_type, "graph": "refund_graph", **fields}
        return [(at, event) for at, event in sent if all(event.get(name) == value for name, value in wanted.items())]


class Processor:
    """`reflex run`, ended with this script."""

    def __init__(self, binary: str, kafka: str, folder: Path, http: str | None) -> None:
        self._log = (folder / "reflex.log").open("wb")
        command = [binary, "run", "--dev", "--registry", str(HERE / "registry"), "--bootstrap-servers", kafka]
        command += ["--data-dir", str(folder / "data"), *(["--http", http] if http else [])]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def log(self) -> str:
        return Path(self._log.name).read_text(errors="replace")

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        if self.alive():
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()


class Fleet:
    """The agent, its client, and sessions by the dozen."""

    def __init__(self, client: Watching, budget_seconds: float) -> None:
        self.agent = RefundAgent(think_seconds=THINK_SECONDS)
        self.client = client
        settings = Settings(app_version="6.4.1", budget_seconds=budget_seconds)
        self.app = ReflexGraph(client, self.agent.graphs, "order_graph:v1", settings)

    def run(self, plans: Mapping[str, dict[str, Any]], how: str) -> dict[str, Any]:
        """Runs all at once; each session's result, or its exception."""
        if how == "async":
            return asyncio.run(self._together(plans))
        with ThreadPoolExecutor(max_workers=len(plans)) as pool:
            running = []
            for one in plans.values():
                running.append(pool.submit(self._one, one))
                time.sleep(PACE_SECONDS)
            return dict(zip(plans, (future.result() for future in running), strict=True))

    def _one(self, one: dict[str, Any]) -> Any:
        try:
            return self.app.invoke(one["given"], one["config"])
        except Exception as error:
            return error

    async def _together(self, plans: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        async def run_one(one: dict[str, Any]) -> Any:
            try:
                return await self.app.ainvoke(one["given"], one["config"])
            except Exception as error:
                return error

        # The nodes are ordinary functions: they run in the loop's threads.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=len(plans)))
        running = []
        for one in plans.values():
            running.append(asyncio.create_task(run_one(one)))
            await asyncio.sleep(PACE_SECONDS)
        return dict(zip(plans, await asyncio.gather(*running), strict=True))


def plan(session_id: str, number: int, region: str = "eu-west", **kind: str) -> dict[str, Any]:
    return {
        "given": request(session_id, number, **kind),
        "config": config(session_id, f"t-{number % 7}", region),
        "kind": kind,
    }


def percentile(values: list[float], share: float) -> float:
    """The smallest value that so many are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-round(len(ordered) * share * 1000) // 1000) - 1))]


def wait_until(what: str, seconds: float, look: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not look():
        if time.monotonic() > until:
            raise SystemExit(f"waited {seconds} s for {what}")
        time.sleep(0.05)


def fifty_at_once(proof: Proof, fleet: Fleet, topics: Topics, how: str) -> None:
    """Thirty with blurred photos, five whose confirmation fails after the refund, fifteen healthy."""
    plans = {}
    for number in range(SESSIONS):
        session_id = f"{how}-{number}"
        kind = {"photo": "blurred"} if number < 30 else {"mail": "down"} if number < 35 else {}
        plans[session_id] = plan(session_id, number, **kind)
    began = time.monotonic()
    results = fleet.run(plans, how)
    proof.note(**{f"{how}_seconds_all": round(time.monotonic() - began, 2)})
    waits_ms: list[float] = []
    refused_ms: list[float] = []
    for session_id, one in plans.items():
        did, result = fleet.agent.world.of(session_id), results[session_id]
        if one["kind"].get("photo"):
            waits_ms.extend(degraded(proof, fleet, session_id, result, did))
        elif one["kind"].get("mail"):
            proof.holds(f"{session_id} ends as without Reflex", type(result).__name__ == "MailServerDownError", result)
            proof.holds(f"{session_id} is not moved", not fleet.client.of(session_id, "override_applied"))
            proof.holds(f"{session_id} refunds once", did.get("issue_refund") == 1, did)
            failed = fleet.client.of(session_id, "node_failed")[-1][0]
            ended = [at for at, _ in fleet.client.of(session_id, "override_ignored")]
            refused_ms.extend((at - failed) * 1000 for at in ended[-1:])
        else:
            healthy = [1] * 8
            proof.holds(f"{session_id} is untouched", list(did.values()) == healthy and "refund" in result, did)
            proof.holds(f"{session_id} knows nothing", not fleet.client.of(session_id, "override_applied"))
    proof.holds(f"{how}: every failing session was moved", len(waits_ms) == 30, len(waits_ms))
    if waits_ms:
        proof.note(
            **{
                f"{how}_resumed": len(waits_ms),
                f"{how}_p50_ms": round(percentile(waits_ms, 0.5), 1),
                f"{how}_p99_ms": round(percentile(waits_ms, 0.99), 1),
            }
        )
    if refused_ms:
        proof.note(**{f"{how}_refused_p99_ms": round(percentile(refused_ms, 0.99), 1)})
    records(proof, topics, plans, how)


def degraded(proof: Proof, fleet: Fleet, session_id: str, result: Any, did: dict[str, int]) -> list[float]:
    """Whether a failing session ended where it should; the milliseconds from its last failure to going on."""
    if isinstance(result, Exception):
        proof.holds(f"{session_id} is saved", False, repr(result))
        return []
    ran_once = ("take_request", "identify_order", "request_evidence", "log_refund_request", "hand_to_human", "reply")
    for node in ran_once:
        proof.holds(f"{session_id} runs {node} once", did.get(node) == 1, did)
    proof.holds(f"{session_id} tries three times", did.get("evaluate_evidence") == 3, did)
    proof.holds(f"{session_id} issues no refund", "issue_refund" not in did and "refund" not in result, did)
    number = int(session_id.rpartition("-")[2])
    collected = {"order": {"id": f"order-{number}", "paid_cents": 1995}, "evidence": {"photo": "blurred"}}
    proof.holds(f"{session_id} keeps what it had", result.get("refund_request") == collected, result)
    completed = [event["schema_ref"] for _, event in fleet.client.of(session_id, "graph_completed")]
    proof.holds(f"{session_id} ends on the degraded graph", completed == [DEGRADED], completed)
    failed = fleet.client.of(session_id, "node_failed", retry_state="max_attempts")
    went_on = fleet.client.of(session_id, "node_started", node="log_refund_request")
    return [(went_on[0][0] - failed[-1][0]) * 1000] if failed and went_on else []


def records(proof: Proof, topics: Topics, plans: Mapping[str, dict[str, Any]], how: str) -> None:
    """What the processor published about these sessions, and nothing about the others."""
    failing = {session for session, one in plans.items() if one["kind"].get("photo")}
    past = {session for session, one in plans.items() if one["kind"].get("mail")}

    def asked() -> set[str]:
        escalations = [record for _, record in topics.read("reflex.escalations") if record is not None]
        return {record["session_id"] for record in escalations if record["reason"] == "irreversible"} & set(plans)

    wait_until("every session past the refund to be a person's", 60, lambda: asked() >= past)
    # What nobody expects has a moment to come as well.
    time.sleep(2.0)
    overrides: dict[str, set[str]] = {}
    for _, record in topics.read("reflex.overrides"):
        session = (record or {}).get("scope", {}).get("session_id", "")
        if record is not None and session in plans:
            overrides.setdefault(session, set()).add(record["override_id"])
    proof.holds(f"{how}: overrides are the failing sessions'", set(overrides) == failing, sorted(overrides))
    proof.holds(f"{how}: one override each", all(len(ids) == 1 for ids in overrides.values()))
    proof.holds(f"{how}: past the refund a person is asked", asked() == past, sorted(asked()))
    letters = [key for key, _ in topics.read("reflex.events.dlq")]
    proof.holds(f"{how}: no dead letters", not letters, letters)


def cohort(proof: Proof, fleet: Fleet, operator: Operator) -> None:
    """An operator moves a region: its new sessions start degraded and never fail; others are as before."""
    operator.force("us-east", 600)
    context = {"session_id": "look", "region": "us-east", "graph_version": "v1"}

    def resolved() -> str:
        return fleet.client.resolve("refund_graph", context).schema_ref

    began = time.monotonic()
    wait_until("the cohort override", 60, lambda: resolved() == DEGRADED)
    proof.note(cohort_seen_ms=round((time.monotonic() - began) * 1000))
    plans = {f"cohort-{at}": plan(f"cohort-{at}", at, "us-east", photo="blurred") for at in range(10)}
    plans |= {f"other-{at}": plan(f"other-{at}", at) for at in range(5)}
    results = fleet.run(plans, "threads")
    for session_id, one in plans.items():
        did, started = fleet.agent.world.of(session_id), fleet.client.of(session_id, "graph_started")
        if session_id.startswith("cohort"):
            proof.holds(f"{session_id} never fails", not fleet.client.of(session_id, "node_failed"))
            proof.holds(f"{session_id} starts degraded", started[0][1]["route"] == "degraded", started)
            proof.holds(f"{session_id} meets no model", "evaluate_evidence" not in did, did)
            proof.holds(f"{session_id} is answered", "refund_request" in results[session_id], results[session_id])
        else:
            proof.holds(f"{session_id} is not concerned", started[0][1]["route"] == "primary", one)
    override_id = fleet.client.resolve("refund_graph", context).override_id
    operator.lift(override_id or "none")
    wait_until("its end", 60, lambda: resolved() == "refund_graph:v1")
    proof.note(cohort_sessions=10)


def without_processor(proof: Proof, fleet: Fleet) -> None:
    """Nobody decides: a failing session ends with its own exception once the budget is over."""
    plans = {f"alone-{at}": plan(f"alone-{at}", at, photo="blurred") for at in range(5)}
    plans["alone-healthy"] = plan("alone-healthy", 9)
    results = fleet.run(plans, "threads")
    longest = 0.0
    for session_id in plans:
        result = results[session_id]
        if session_id == "alone-healthy":
            proof.holds("a healthy session needs no processor", isinstance(result, dict), result)
            continue
        proof.holds(f"{session_id} ends as without Reflex", type(result).__name__ == "ValidationError", result)
        failed = fleet.client.of(session_id, "graph_failed")[0][0]
        gave_up = fleet.client.of(session_id, "override_ignored", reason="budget_expired")[0][0]
        longest = max(longest, gave_up - failed)
    proof.holds("the budget is kept", SHORT_BUDGET_SECONDS - 0.05 <= longest < SHORT_BUDGET_SECONDS + 2, longest)
    proof.note(without_processor_longest_wait_ms=round(longest * 1000))


def without_kafka(proof: Proof, fleet: Fleet, ends: datetime, kill: Callable[[], None]) -> None:
    """The last that is known serves, and ends by the runtime's own clock."""
    context = {"session_id": "look", "region": "ap-south", "graph_version": "v1"}

    def resolved() -> str:
        return fleet.client.resolve("refund_graph", context).schema_ref

    proof.holds("the override that expires is known", resolved() == DEGRADED)
    kill()
    plans = {f"dark-{at}": plan(f"dark-{at}", at, "ap-south", photo="blurred") for at in range(5)}
    began = time.monotonic()
    results = fleet.run(plans, "threads")
    proof.note(without_kafka_seconds=round(time.monotonic() - began, 2))
    for session_id in plans:
        proof.holds(f"{session_id} starts degraded", "refund_request" in results[session_id], results[session_id])
    proof.holds("it served before its end", datetime.now(UTC) < ends)
    while resolved() == DEGRADED and datetime.now(UTC) < ends + timedelta(seconds=10):
        time.sleep(0.005)
    late_ms = (datetime.now(UTC) - ends).total_seconds() * 1000
    proof.holds("it ends on time", -500 < late_ms < 500, late_ms)
    proof.note(expired_late_ms=round(late_ms, 1))
    after = fleet.run({"dark-after": plan("dark-after", 7, "ap-south")}, "threads")["dark-after"]
    proof.holds("then the original path runs", "refund" in after, after)
    lost = fleet.run({"dark-lost": plan("dark-lost", 8, photo="blurred")}, "threads")["dark-lost"]
    proof.holds("and fails as without Reflex", type(lost).__name__ == "ValidationError", lost)


def all_is_back(proof: Proof, fleet: Fleet, topics: Topics) -> None:
    """The same client, the same sessions' runtime: saved again, and nobody who gave up is held on to."""
    plans = {f"back-{at}": plan(f"back-{at}", at, photo="blurred") for at in range(5)}
    results = fleet.run(plans, "threads")
    saved = [
        degraded(proof, fleet, session_id, results[session_id], fleet.agent.world.of(session_id))
        for session_id in plans
    ]
    proof.note(saved_when_all_is_back=len([one for one in saved if one]))
    proof.holds("when all is back, sessions are saved again", all(saved), saved)
    time.sleep(2.0)
    live = {key: record is not None for key, record in topics.read("reflex.overrides")}
    held = [key for key, lives in live.items() if lives and ("alone-" in key or "dark-lost" in key)]
    proof.holds("who gave up has no override", not held, held)


@contextmanager
def broker() -> Iterator[tuple[str, Callable[[], None], Callable[[], None] | None]]:
    """A broker's address, what kills it, and what starts it again where it is this script's own."""
    given = os.environ.get("REFLEX_TEST_KAFKA")
    if given:
        pid = int(os.environ["REFLEX_TEST_KAFKA_PID"])
        yield given, lambda: os.kill(pid, signal.SIGKILL), None
        return
    sys.path.insert(0, str(HERE.parents[1] / "clients" / "python" / "tests"))
    started = importlib.import_module("broker").Broker
    with tempfile.TemporaryDirectory(prefix="refund-agent-kafka-") as folder:
        own = started(Path(os.environ["REFLEX_TEST_KAFKA_JARS"]), Path(folder) / "kafka")
        own.start()
        try:
            yield own.address, own.kill, own.start
        finally:
            own.kill()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def processor(binary: str, kafka: str, http: str | None) -> Iterator[Processor]:
    with tempfile.TemporaryDirectory(prefix="refund-agent-") as folder:
        running = Processor(binary, kafka, Path(folder), http)
        try:
            wait_until("reflex run", 60, lambda: "published" in running.log() or _ready(running, http))
            yield running
        finally:
            running.stop()


def _ready(running: Processor, http: str | None) -> bool:
    if not running.alive():
        raise SystemExit(f"reflex run ended:\n{running.log()}")
    try:
        with urllib.request.urlopen(f"http://{http}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main() -> int:
    """Everything, in order."""
    binary = os.environ["REFLEX_TEST_PROGRAM"]
    with broker() as (kafka, kill, start):
        return prove(binary, kafka, kill, start)


def prove(binary: str, kafka: str, kill: Callable[[], None], start: Callable[[], None] | None) -> int:
    over_http = os.environ.get("REFLEX_TEST_TRANSPORT", "kafka") == "http"
    proof, topics, operator = Proof(), Topics(kafka), Operator(binary, kafka)
    subprocess.run(
        [binary, "topics", "apply", "--dev", "--bootstrap-servers", kafka], check=True, stdout=subprocess.DEVNULL
    )
    address = f"127.0.0.1:{free_port()}"
    with processor(binary, kafka, address) as running:
        client = Watching(http=f"http://{address}") if over_http else Watching(kafka=kafka)
        wait_until("the client", 30, lambda: client.wait_ready(1.0))
        fleet = Fleet(client, BUDGET_SECONDS)
        client.runtime_started(fleet.agent.graphs.schema_refs(), graphs=fleet.agent.graphs.names())
        proof.note(transport="http" if over_http else "kafka", load_average=round(os.getloadavg()[0], 1))
        # A broker and a processor that just started are not what is measured.
        for how in ("threads", "async"):
            fleet.run({f"warm-{how}-{at}": plan(f"warm-{how}-{at}", at, photo="blurred") for at in range(20)}, how)
        for how in ("threads", "async"):
            fifty_at_once(proof, fleet, topics, how)
        cohort(proof, fleet, operator)
        if over_http:
            # Without the processor there is no source over HTTP either: the last stages are Kafka's.
            return finish(proof, client)
        operator.force("ap-south", 40)
        ends = topics.end_of("ap-south")
        running.stop()
        alone = Fleet(client, SHORT_BUDGET_SECONDS)
        without_processor(proof, alone)
        without_kafka(proof, alone, ends, kill)
    if start is not None:
        start()
        # A broker that has just come back leads its partitions a moment later.
        wait_until("the client", 60, lambda: client.wait_ready(1.0))
        time.sleep(3.0)
        with processor(binary, kafka, address):
            all_is_back(proof, fleet, topics)
    return finish(proof, client)


def finish(proof: Proof, client: Watching) -> int:
    proof.note(client=client.metrics())
    client.close(1.0)
    print(json.dumps({**proof.found, "wrong": proof.wrong}))
    return 1 if proof.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
