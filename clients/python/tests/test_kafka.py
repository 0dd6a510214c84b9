"""The client against a real broker."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from broker import Broker
from records import cohort_override, intervention, session_override, text
from reflex_runtime import Client, Context, State, _kafka
from reflex_runtime._clock import BrokerClock
from reflex_runtime._resolve import Resolution
from reflex_runtime._time import parse_time

pytestmark = pytest.mark.kafka

RUN: dict[str, Any] = {"session_id": "s1", "graph": "refund_graph", "run_id": "run_77", "tenant": "t-7"}
EU = Context("s9", region="eu", graph_version="v1")
ENDS_WITHIN_SECONDS = 120


class Topics:
    """Topics of one test, a writer, and clients."""

    def __init__(self, address: str, partitions: int = 3) -> None:
        self.address = address
        self.name = uuid.uuid4().hex[:12]
        self.partitions = partitions
        self.admin = AdminClient({"bootstrap.servers": address})
        self.writer = Producer({"bootstrap.servers": address, "partitioner": "murmur2_random"})

    def of(self, what: str) -> str:
        return f"{self.name}.{what}"

    def create(self, *names: str) -> None:
        configs = {"events": {"message.timestamp.type": "LogAppendTime"}}
        compact = {"cleanup.policy": "compact"}
        topics = [
            NewTopic(self.of(name), self.partitions, 1, config=configs.get(name, compact))
            for name in names or ("events", "overrides", "interventions")
        ]
        for made in self.admin.create_topics(topics).values():
            made.result(30)

    def delete(self, name: str) -> None:
        for gone in self.admin.delete_topics([self.of(name)]).values():
            gone.result(30)

    def client(self, **more: Any) -> Client:
        names = {f"{what}_topic": self.of(what) for what in ("events", "overrides", "interventions")}
        return Client(kafka=self.address, **{**names, **more})

    def put(self, key: str, record: dict[str, Any] | bytes | None, topic: str = "overrides") -> None:
        value = text(record).encode() if isinstance(record, dict) else record
        self.writer.produce(self.of(topic), value, key.encode())
        assert self.writer.flush(30) == 0

    def events(self) -> list[tuple[int, bytes | None, str]]:
        """Everything on the events topic: partition, key, id."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": self.name, "enable.partition.eof": True})
        consumer.assign([TopicPartition(self.of("events"), number, 0) for number in range(self.partitions)])
        found, ended = [], 0
        while ended < self.partitions:
            message = consumer.poll(10)
            assert message is not None
            if message.error() is not None:
                ended += 1
                continue
            value, partition = message.value(), message.partition()
            assert value is not None
            assert partition is not None
            event = json.loads(value)
            found.append((partition, message.key(), event["event_id"]))
        consumer.close()
        return found


@pytest.fixture
def topics(kafka: str) -> Topics:
    found = Topics(kafka)
    found.create()
    return found


def eventually(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def route(client: Client, context: Context = EU) -> str:
    return client.resolve("refund_graph", context).route


def test_everything_published_is_there_when_it_is_ready(topics: Topics) -> None:
    for number in range(50):
        topics.put(f"k{number}", cohort_override(f"o{number}", scope={"kind": "cohort", "region": f"r{number}"}))
    topics.put("k7", None)
    with topics.client() as client:
        assert client.wait_ready(30)
        routes = [route(client, Context(region=f"r{number}")) for number in range(50)]
        assert routes == ["primary" if number == 7 else "degraded" for number in range(50)]


def test_changes_tombstones_malformed_and_older_records(topics: Topics) -> None:
    with topics.client() as client:
        assert client.wait_ready(30)
        topics.put("c", cohort_override(revision=2))
        eventually(lambda: route(client) == "degraded")
        for bad in (b"{", b"\x00\x00\x00\x00\x01avro", text(cohort_override(revision=3, expires_at="x")).encode()):
            topics.put("c", bad)
        topics.put("c", cohort_override(revision=1, schema_ref="old:v1"))
        topics.put("c", cohort_override(revision=2, schema_ref="conflict:v1"))
        topics.put("marker", cohort_override("ovr_m", scope={"kind": "cohort", "region": "marker"}))
        topics.put("c", cohort_override(revision=2))
        eventually(lambda: client.metrics().get("overrides_conflicting") == 1)
        found = client.resolve("refund_graph", EU)
        assert (found.schema_ref, found.override_id) == ("degraded_refund_graph:v1", "ovr_c")
        metrics = client.metrics()
        assert (metrics["overrides_malformed"], metrics["overrides_older"]) == (3, 1)
        topics.put("c", None)
        eventually(lambda: route(client) == "primary")


def test_a_wait_ends_with_the_override_and_with_a_failed_intervention(topics: Topics) -> None:
    with topics.client() as client:
        assert client.wait_ready(30)
        threading.Timer(0.2, lambda: topics.put("i", intervention(), "interventions")).start()
        assert client.wait_for_intervention(**RUN, budget_seconds=30) is None
        threading.Timer(0.2, lambda: topics.put("mine", session_override())).start()
        found = client.wait_for_intervention(**RUN, budget_seconds=30)
        assert found is not None
        assert found.override.id == "ovr_s1"
        failed = Context("s1", "run_77", "failed", tenant="t-7", current_schema_ref="refund_graph:v1")
        assert client.resolve("refund_graph", failed).entry_point == "log_refund_request"


def test_a_wait_that_begins_before_everything_is_read_is_answered(topics: Topics) -> None:
    topics.put("mine", session_override())
    with topics.client() as client:
        found = client.wait_for_intervention(**RUN, budget_seconds=30)
        assert found is not None
        assert client.state is State.READY


# ---------------------------------------------------------------------------------------------------- transactions


def sees_aborted(topics: Topics) -> bool:
    """Whether a client acts on an override whose transaction was aborted."""
    writer = Producer({"bootstrap.servers": topics.address, "transactional.id": topics.name})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(topics.of("overrides"), text(cohort_override()).encode(), b"c")
    writer.flush(30)
    writer.abort_transaction(30)
    writer.begin_transaction()
    marker = cohort_override("ovr_m", scope={"kind": "cohort", "region": "marker"})
    writer.produce(topics.of("overrides"), text(marker).encode(), b"m")
    writer.commit_transaction(30)
    with topics.client() as client:
        assert client.wait_ready(30)
        eventually(lambda: route(client, Context(region="marker")) == "degraded")
        return route(client) == "degraded"


def test_an_override_of_an_aborted_transaction_is_never_seen(topics: Topics) -> None:
    assert not sees_aborted(topics)


def test_a_reader_of_uncommitted_records_is_shown_wrong(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: this reader differs in one setting."""
    monkeypatch.setitem(_kafka._PINNED_READER, "isolation.level", "read_uncommitted")
    assert sees_aborted(topics)


def test_an_open_transaction_holds_nobody_up(topics: Topics) -> None:
    topics.put("c", cohort_override())
    writer = Producer({"bootstrap.servers": topics.address, "transactional.id": topics.name})
    writer.init_transactions(30)
    writer.begin_transaction()
    for partition in range(topics.partitions):
        us = cohort_override("ovr_us", scope={"kind": "cohort", "region": "us"})
        writer.produce(topics.of("overrides"), text(us).encode(), b"us", partition)
    writer.flush(30)
    with topics.client() as client:
        assert client.wait_ready(30)
        assert (route(client), route(client, Context(region="us"))) == ("degraded", "primary")
        writer.commit_transaction(30)
        eventually(lambda: route(client, Context(region="us")) == "degraded")


# ------------------------------------------------------------------------------------------------------------ load


def test_a_hundred_thousand_overrides(topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    count = 100_000
    writer = Producer({"bootstrap.servers": topics.address, "linger.ms": 50, "queue.buffering.max.messages": count})
    for number in range(count):
        writer.produce(topics.of("overrides"), text(session_override(f"s{number}")).encode(), f"k{number}".encode())
        writer.poll(0)
    assert writer.flush(120) == 0
    begun = time.monotonic()
    with topics.client() as client:
        slowest = 0.0
        while client.state is not State.READY:
            asked = time.perf_counter()
            client.resolve("refund_graph", EU)
            slowest = max(slowest, time.perf_counter() - asked)
            time.sleep(0.001)
            assert time.monotonic() - begun < 300
        took = time.monotonic() - begun
        assert client.metrics()["overrides"] == count
        asked_for = [Context(f"s{number}", tenant="t-7", graph_version="v1") for number in range(0, count, 10)]
        begun = time.perf_counter()
        answers: list[Resolution] = [client.resolve("refund_graph", context) for context in asked_for]
        each = (time.perf_counter() - begun) / len(asked_for)
    assert {answer.route for answer in answers} == {"degraded"}
    with capsys.disabled():
        print(f"\n{count} overrides: ready after {took:.1f} s")
        print(f"resolve: {each * 1e6:.1f} us; at most {slowest * 1e3:.2f} ms while they were read")


# ----------------------------------------------------------------------------------------------------------- clock


@pytest.mark.parametrize("off_hours", [2, -2])
def test_two_hours_off_overrides_end_by_the_broker(topics: Topics, off_hours: int) -> None:
    wall = BrokerClock(wall=lambda: time.time_ns() // 1000 + off_hours * 3_600_000_000)
    with topics.client(clock=wall) as client:
        assert client.wait_ready(30)
        assert client.runtime_started(schemas=["refund_graph:v1"])
        assert client.flush(30)
        assert abs(client.metrics()["clock_offset_ms"] + off_hours * 3_600_000) < 1_000
        # What this machine says of its time is what the broker counts: events are not late.
        stamped = json.loads(client._events._encode({"type": "progress", "session_id": "s", "graph": "g"})[1])  # type: ignore[index]
        assert abs((parse_time(stamped["occurred_at"]) or 0) / 1e6 - time.time()) < 2
        for name, seconds in (("live", 3600), ("dead", -3600)):
            ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
            topics.put(name, cohort_override(name, scope={"kind": "cohort", "region": name}, expires_at=ends))
        eventually(lambda: client.metrics()["overrides"] == 2)
        assert (route(client, Context(region="live")), route(client, Context(region="dead"))) == ("degraded", "primary")


def test_an_override_ends_by_itself_at_its_time(topics: Topics) -> None:
    """Nothing comes that says so. It is seen long before, then its last second is lived, on any machine."""
    hands = [0]
    clock = BrokerClock(wall=lambda: time.time_ns() // 1000 + hands[0])
    with topics.client(clock=clock) as client:
        assert client.wait_ready(30)
        ends = int(time.time()) + 3600
        topics.put("c", cohort_override(expires_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends))))
        eventually(lambda: route(client) == "degraded")
        hands[0] = ends * 1_000_000 - clock.now() - 1_000_000
        asked, answer = clock.now(), "degraded"
        while answer == "degraded":
            assert asked < ends * 1_000_000 + 30_000_000
            time.sleep(0.01)
            asked, answer = clock.now(), route(client)
            answered = clock.now()
            # Degraded until its end, primary from it on.
            assert answered >= ends * 1_000_000 if answer == "primary" else asked < ends * 1_000_000
        assert client.metrics()["overrides"] == 1


# ---------------------------------------------------------------------------------------------------------- events


def murmur2(data: bytes) -> int:
    """As the Java client partitions."""
    mask = 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    for at in range(0, len(data) & ~3, 4):
        k = int.from_bytes(data[at : at + 4], "little") * 0x5BD1E995 & mask
        h = (h * 0x5BD1E995 & mask) ^ ((k ^ k >> 24) * 0x5BD1E995 & mask)
    if rest := data[len(data) & ~3 :]:
        h = (h ^ int.from_bytes(rest, "little")) * 0x5BD1E995 & mask
    h = (h ^ h >> 13) * 0x5BD1E995 & mask
    return h ^ h >> 15


def test_events_are_keyed_by_session_and_in_order(topics: Topics) -> None:
    with topics.client() as client:
        for number in range(3000):
            event = {"type": "progress", "session_id": f"s{number % 7}", "graph": "g", "event_id": f"{number:05d}"}
            assert client.emit(event)
        assert client.flush(60)
        assert client.metrics()["events_sent"] == 3000
    found = topics.events()
    assert sorted(event_id for _, _, event_id in found) == [f"{number:05d}" for number in range(3000)]
    for session in range(7):
        key = f"s{session}".encode()
        own = [(partition, event_id) for partition, other, event_id in found if other == key]
        assert {partition for partition, _ in own} == {(murmur2(key) & 0x7FFFFFFF) % topics.partitions}
        assert [event_id for _, event_id in own] == sorted(event_id for _, event_id in own)


def test_a_producer_that_ended_is_replaced(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Producer] = []

    def first_ends(config: dict[str, Any]) -> Producer:
        made.append(EndedProducer(config) if not made else Producer(config))
        return made[-1]

    monkeypatch.setattr(_kafka, "Producer", first_ends)
    with topics.client() as client:
        for number in range(3):
            assert client.emit({"type": "progress", "session_id": "s", "graph": "g", "event_id": f"{number}"})
        assert client.flush(60)
        metrics = client.metrics()
        assert (metrics["events_sent"], metrics["producers_replaced"], len(made)) == (3, 1, 2)
    assert [event_id for _, _, event_id in topics.events()] == ["0", "1", "2"]


class EndedProducer(Producer):
    """As one after a fatal error."""

    def produce(self, *_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))


# ----------------------------------------------------------------------------------------------------------- faults


def test_a_topic_that_is_not_there_is_an_error_until_it_is(kafka: str) -> None:
    topics = Topics(kafka)
    with topics.client() as client:
        eventually(lambda: client.state is State.ERROR)
        assert route(client) == "primary"
        topics.create()
        assert client.wait_ready(30)


def test_a_topic_made_anew_is_read_anew(topics: Topics) -> None:
    for number in range(30):
        topics.put(f"k{number}", cohort_override(f"o{number}"))
    with topics.client() as client:
        assert client.wait_ready(30)
        assert client.metrics()["overrides"] == 30
        topics.delete("overrides")
        eventually(lambda: client.state is not State.READY)
        # What was known stays in force while nobody knows better.
        assert route(client) == "degraded"
        time.sleep(1)
        topics.create("overrides")
        topics.put("new", cohort_override("new", scope={"kind": "cohort", "region": "new"}))
        eventually(lambda: route(client, Context(region="new")) == "degraded")
        assert client.metrics()["overrides"] == 1
        assert route(client) == "primary"


@pytest.fixture
def own_topics(own_broker: Broker) -> tuple[Broker, Topics]:
    topics = Topics(own_broker.address)
    topics.create()
    return own_broker, topics


AUTHORIZER = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
"""


@pytest.mark.parametrize("own_broker", [AUTHORIZER], indirect=True)
def test_a_runtime_needs_no_right_on_a_group(own_topics: tuple[Broker, Topics]) -> None:
    broker, topics = own_topics
    all_of_it = (AclOperation.ALL, AclPermissionType.ALLOW)
    somebody = AclBinding(ResourceType.GROUP, "*", ResourcePatternType.LITERAL, "User:somebody", "*", *all_of_it)
    for made in topics.admin.create_acls([somebody]).values():
        made.result(30)

    def refused() -> bool:
        message = member.poll(1)
        error = None if message is None else message.error()
        return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED

    member = Consumer({"bootstrap.servers": broker.address, "group.id": "any"})
    member.subscribe([topics.of("overrides")])
    eventually(refused)
    member.close()
    topics.put("c", cohort_override())
    with topics.client() as client:
        assert client.wait_ready(30)
        assert route(client) == "degraded"
        topics.put("c", None)
        eventually(lambda: route(client) == "primary")


def test_a_broker_that_is_killed_and_comes_back(own_topics: tuple[Broker, Topics]) -> None:
    broker, topics = own_topics
    topics.put("c", cohort_override())
    states: list[State] = []
    with topics.client(error_after_seconds=600) as client:
        client.on_change(states.append)
        assert client.wait_ready(30)
        broker.kill()
        eventually(lambda: client.state is State.STALE)
        assert route(client) == "degraded"
        assert client.emit({"type": "progress", "session_id": "s1", "graph": "g", "event_id": "while down"})
        assert not client.flush(0.2)
        with topics.client(close_seconds=0.2) as second:
            assert not second.wait_ready(0.5)
            assert route(second) == "primary"
        broker.start()
        topics.put("d", cohort_override("ovr_d", scope={"kind": "cohort", "region": "us"}))
        assert client.wait_ready(60)
        eventually(lambda: route(client, Context(region="us")) == "degraded")
        assert client.flush(60)
        assert client.metrics()["events_sent"] == 1
    assert [event_id for _, _, event_id in topics.events()] == ["while down"]
    assert states[-2:] == [State.STALE, State.READY]


def test_a_broker_that_answers_nothing(own_topics: tuple[Broker, Topics]) -> None:
    broker, topics = own_topics
    topics.put("c", cohort_override())
    with topics.client(error_after_seconds=600) as client:
        assert client.wait_ready(30)
        broker.freeze()
        slowest, begun = 0.0, time.monotonic()
        while client.state is not State.STALE:
            assert time.monotonic() - begun < 60
            asked = time.perf_counter()
            assert route(client) == "degraded"
            client.emit({"type": "progress", "session_id": "s1", "graph": "g"})
            slowest = max(slowest, time.perf_counter() - asked)
            time.sleep(0.01)
        # Not a measure of speed: a call that waits for the broker takes seconds.
        assert slowest < 1
        broker.thaw()
        assert client.wait_ready(60)
        assert client.flush(60)


def test_after_a_fork_the_child_reads_and_sends_by_itself(topics: Topics) -> None:
    topics.put("c", cohort_override())
    names = {f"{what}_topic": topics.of(what) for what in ("events", "overrides", "interventions")}
    script = f"""
import os, sys
from reflex_runtime import Client, State
client = Client(kafka={topics.address!r}, close_seconds=20, **{names!r})
def say(who):
    assert client.wait_ready(30)
    assert client.resolve("refund_graph", {{"region": "eu"}}).route == "degraded"
    assert client.emit({{"type": "progress", "session_id": "s1", "graph": "g", "event_id": who}})
say("parent")
for who in ("first child", "second child", "child of nobody's use"):
    child = os.fork()
    if child == 0:
        assert client.state is State.STALE
        assert client.resolve("refund_graph", {{"region": "eu"}}).route == "degraded"
        if "use" not in who:
            say(who)
        sys.exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == 0, ended
assert client.wait_ready(30)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=ENDS_WITHIN_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert sorted(event_id for _, _, event_id in topics.events()) == ["first child", "parent", "second child"]
