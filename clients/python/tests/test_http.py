"""The client against a server that answers as schemas/openapi.json says."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from records import cohort_override, intervention, session_override
from reflex_runtime import Client, Context, State
from reflex_runtime._clock import BrokerClock, steady_micros
from server import Server

RUN: dict[str, Any] = {"session_id": "s1", "graph": "refund_graph", "run_id": "run_77", "tenant": "t-7"}
FAILED = Context("s1", "run_77", "failed", tenant="t-7", current_schema_ref="refund_graph:v1", graph_version="v1")


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(http=server.url) as found:
        assert found.wait_ready(30)
        yield found


def event(number: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "node_failed", "session_id": "s1", "graph": "refund_graph", "event_id": f"e{number}", **fields}


def eventually(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_changes_and_tombstones_are_followed(server: Server, client: Client) -> None:
    eu = Context("s9", region="eu", graph_version="v1")
    assert client.resolve("refund_graph", eu).schema_ref == "refund_graph:v1"
    server.put("c", cohort_override())
    eventually(lambda: client.resolve("refund_graph", eu).schema_ref == "degraded_refund_graph:v1")
    server.put("c", None)
    eventually(lambda: client.resolve("refund_graph", eu).schema_ref == "refund_graph:v1")


def test_a_wait_ends_with_the_override_of_exactly_this_run(server: Server, client: Client) -> None:
    def publish() -> None:
        server.put("other session", session_override("s2"))
        server.put("other run", session_override(run_id="run_78", override_id="o1"))
        server.put("other tenant", session_override(tenant="t-8", override_id="o2"))
        server.put("other graph", session_override(graph="other_graph", override_id="o3"))
        server.put("command", session_override(source="operator", mode="force", override_id="o4"))
        server.put("expired", session_override(override_id="o5", expires_at="2020-01-01T00:00:00Z"))
        server.put("mine", session_override())

    threading.Timer(0.2, publish).start()
    found = client.wait_for_intervention(**RUN, budget_seconds=30)
    assert found is not None
    assert (found.override.id, found.intervention_id, found.override.attempt) == ("ovr_s1", "int_s1", 0)
    assert found.override.resume is not None
    assert found.override.resume.requires_channels == ("order",)
    # What a wait has answered, resolve has too.
    server.put("command", None)
    eventually(lambda: client.resolve("refund_graph", FAILED).entry_point == "log_refund_request")


def test_a_wait_finds_what_came_before_it_and_not_what_was_answered(server: Server, client: Client) -> None:
    server.put("mine", session_override())
    eventually(lambda: client.metrics()["overrides"] == 1)
    found = client.wait_for_intervention(**RUN, budget_seconds=0.0)
    assert found is not None
    client.override_applied(found.override, **RUN)
    assert client.wait_for_intervention(**RUN, budget_seconds=0.2) is None
    threading.Timer(0.1, lambda: server.put("mine", session_override(attempt=1, revision=2))).start()
    again = client.wait_for_intervention(**RUN, budget_seconds=30)
    assert again is not None
    assert again.override.attempt == 1


@pytest.mark.parametrize("status", ["failed", "rejected", "expired", "observed"])
def test_a_wait_ends_when_nothing_will_come(server: Server, client: Client, status: str) -> None:
    threading.Timer(0.2, lambda: server.intervene(intervention(status=status), settled=True)).start()
    begun = time.monotonic()
    assert client.wait_for_intervention(**RUN, budget_seconds=60) is None
    assert time.monotonic() - begun < 50


def test_a_failed_intervention_ends_one_wait_only(server: Server, client: Client) -> None:
    server.intervene(intervention(), settled=True)
    assert client.wait_for_intervention(**RUN, budget_seconds=30) is None
    # The next failure of the run waits for an intervention of its own.
    threading.Timer(0.3, lambda: server.put("mine", session_override())).start()
    assert client.wait_for_intervention(**RUN, budget_seconds=30) is not None


def test_the_async_wait_does_not_hold_up_the_loop(server: Server, client: Client) -> None:
    async def both() -> tuple[Any, int]:
        ticks = 0
        wait = asyncio.ensure_future(client.wait_for_intervention_async(**RUN, budget_seconds=30))
        while not wait.done():
            await asyncio.sleep(0.01)
            ticks += 1
            if ticks == 10:
                server.put("mine", session_override())
        return await wait, ticks

    found, ticks = asyncio.run(both())
    assert found is not None
    assert ticks >= 10
    assert asyncio.run(client.wait_for_intervention_async(**{**RUN, "run_id": "x"}, budget_seconds=0.05)) is None
    assert not client._core.waits.any


def test_an_async_wait_that_is_cancelled_leaves_nothing(client: Client) -> None:
    async def cancelled() -> None:
        wait = asyncio.ensure_future(client.wait_for_intervention_async(**RUN, budget_seconds=30))
        await asyncio.sleep(0.05)
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait

    asyncio.run(cancelled())
    assert not client._core.waits.any


def test_events_arrive_in_order(server: Server, client: Client) -> None:
    assert all(client.emit(event(number)) for number in range(2000))
    assert client.flush(30)
    assert [sent["event_id"] for sent in server.events] == [f"e{number}" for number in range(2000)]
    assert client.metrics()["events_sent"] == 2000


def test_rejected_events_are_counted_and_failed_ones_sent_again(server: Server, client: Client) -> None:
    items = [{"index": 0, "status": "rejected", "code": "bad_field"}, {"index": 1, "status": "failed"}]
    server.event_answers = [
        (503, None),
        (429, None),
        (207, {"accepted": 0, "rejected": 1, "failed": 1, "items": items}),
    ]
    for number in range(3):
        client.emit(event(number))
    assert client.flush(30)
    metrics = client.metrics()
    # The first of a batch was rejected; whatever the batches were, each event came to one end.
    assert metrics["events_rejected"] == 1
    assert metrics["events_sent"] == len(server.events) == 2


def test_a_body_too_large_is_halved(server: Server, client: Client) -> None:
    server.event_answers = [(413, None)] * 3
    for number in range(8):
        client.emit(event(number))
    assert client.flush(30)
    metrics = client.metrics()
    assert metrics.get("events_sent", 0) + metrics.get("events_oversized", 0) == 8
    assert len(server.events) == metrics["events_sent"]


def test_what_the_runtime_says(server: Server, client: Client) -> None:
    server.put("mine", session_override())
    found = client.wait_for_intervention(**RUN, budget_seconds=30)
    assert found is not None
    assert client.override_applied(found.override, **RUN, region="eu")
    assert client.override_ignored(found.override, "incompatible", **RUN, node="evaluate_evidence")
    assert client.override_ignored(None, "budget_expired", **RUN)
    assert client.runtime_started(schemas=["refund_graph:v1", "degraded_refund_graph:v1"], graphs=["refund_graph"])
    assert client.flush(30)
    plain = [
        {name: value for name, value in sent.items() if name not in ("event_id", "occurred_at")}
        for sent in server.events
    ]
    assert plain == [
        {
            **RUN,
            "type": "override_applied",
            "route": "degraded",
            "schema_ref": "degraded_refund_graph:v1",
            "override_id": "ovr_s1",
            "override_attempt": 0,
            "region": "eu",
        },
        {
            **RUN,
            "type": "override_ignored",
            "reason": "incompatible",
            "override_id": "ovr_s1",
            "override_attempt": 0,
            "node": "evaluate_evidence",
        },
        {**RUN, "type": "override_ignored", "reason": "budget_expired"},
        {
            "type": "runtime_started",
            "session_id": f"runtime/{client.runtime_id}",
            "runtime_id": client.runtime_id,
            "graph": "refund_graph",
            "schema_refs": ["refund_graph:v1", "degraded_refund_graph:v1"],
        },
    ]


def test_without_the_server_the_last_known_stays_until_it_expires(server: Server, tmp_path: Path) -> None:
    hands = [0]
    clock = BrokerClock(steady=lambda: steady_micros() + hands[0])
    path = tmp_path / "overrides.ndjson"
    states: list[State] = []
    client = Client(http=server.url, snapshot_path=path, error_after_seconds=600, clock=clock)
    client.on_change(states.append)
    assert client.wait_ready(30)
    in_an_hour = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    server.put("c", cohort_override(expires_at=in_an_hour))
    eu = Context("s9", region="eu", graph_version="v1")
    eventually(lambda: client.resolve("refund_graph", eu).route == "degraded")
    port = server.port
    server.close()
    eventually(lambda: client.state is State.STALE)
    assert client.resolve("refund_graph", eu).route == "degraded"
    client.close()
    # Another process, started while nobody answers: the snapshot.
    with Client(http=f"http://127.0.0.1:{port}", snapshot_path=path, clock=clock) as second:
        assert second.state is State.STALE
        assert second.resolve("refund_graph", eu).route == "degraded"
        hands[0] = 3_601_000_000
        assert not second.wait_ready(0.1)
        assert second.resolve("refund_graph", eu).route == "primary"
        hands[0] = 0
        back = Server(port)
        back.put("d", cohort_override("ovr_d", scope={"kind": "cohort", "region": "us"}))
        assert second.wait_ready(30)
        # What was removed while nobody listened is gone: the snapshot does not bring it back.
        assert second.resolve("refund_graph", eu).route == "primary"
        assert second.metrics()["overrides"] == 1
        back.close()
    assert states[-1] is State.STALE


def test_a_cursor_that_is_not_known_replaces_everything_but_the_last_good_of_a_malformed(
    server: Server, client: Client
) -> None:
    server.put("a", cohort_override("ovr_a"))
    server.put("b", cohort_override("ovr_b", scope={"kind": "cohort", "region": "us"}))
    eventually(lambda: client.metrics()["overrides"] == 2)
    server.held = {"b": {"override_id": 7}}
    server.forget_cursors()
    eventually(lambda: client.metrics()["overrides"] == 1)
    assert client.resolve("refund_graph", {"region": "us"}).override_id == "ovr_b"
    assert client.resolve("refund_graph", {"region": "eu"}).override_id is None
    assert client.metrics()["overrides_malformed"] == 1


def test_a_refusal_is_an_error_and_ends_with_it(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(token="geheim")
    with Client(http=server.url, token="falsch") as client:
        assert client._core.wait_for(State.ERROR, 30)
        assert client.resolve("refund_graph", {"graph_version": "v1"}).schema_ref == "refund_graph:v1"
    assert "falsch" not in caplog.text
    with Client(http=server.url, token="geheim") as client:
        assert client.wait_ready(30)
    server.close()


def test_silence_longer_than_the_grace_is_an_error() -> None:
    with Client(http="http://127.0.0.1:9", error_after_seconds=0.3) as client:
        assert client.state is State.NOT_READY
        assert client._core.wait_for(State.ERROR, 30)


@pytest.mark.parametrize("ahead", [7200, -7200])
def test_the_clock_of_the_server_counts(ahead: int) -> None:
    """The machine is two hours off: an override ends when the server's clock says so."""
    server = Server()
    server.ahead_seconds = ahead
    ends_at = time.time() + ahead + 3600
    server.put("c", cohort_override(expires_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends_at))))
    with Client(http=server.url) as client:
        assert client.wait_ready(30)
        assert abs(client.metrics()["clock_offset_ms"] - ahead * 1000) <= 1100
        assert client.resolve("refund_graph", {"region": "eu"}).route == "degraded"
    server.close()


def test_the_arguments_are_checked() -> None:
    wrong: list[dict[str, Any]] = [
        {},
        {"kafka": "a:1", "http": "http://a"},
        {"kafka": "a:1", "token": "x"},
        {"http": "ftp://a"},
        {"http": "http://a?b=c"},
    ]
    for bad in wrong:
        with pytest.raises(ValueError, match=r"kafka|http"):
            Client(**bad)
    with pytest.raises(ValueError, match="isolation"):
        Client(kafka="127.0.0.1:9", kafka_config={"isolation.level": "read_uncommitted"})


def test_answers_that_are_none_are_asked_again(server: Server, client: Client) -> None:
    server.put("c", cohort_override())
    eventually(lambda: client.metrics()["overrides"] == 1)
    with server.changed:
        server.log.append({"nokey": 1})
        server.changed.notify_all()
    eventually(lambda: client.metrics().get("reader_errors", 0) >= 1)
    assert client.wait_ready(30)
    assert client.resolve("refund_graph", {"region": "eu"}).override_id == "ovr_c"


def test_resolve_never_raises(client: Client) -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError

    for graph, context in (("g", {"attributes": 7}), ("g", {"session_id": Odd()}), (7, None), ("g", {"phase": 3})):
        assert client.resolve(graph, context).route == "primary"  # type: ignore[arg-type]
    assert client.resolve("g", 5).schema_ref == "g:"  # type: ignore[arg-type]
    assert client.metrics()["resolve_errors"] >= 1
    assert not client.emit(None)  # type: ignore[arg-type]
