"""The client's side of Kafka: a reader of the whole overrides topic, and a producer of events.

The reader assigns all partitions by itself (no group takes part), reads committed records only, and is ready once every
partition was read to its end.
"""

import logging
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from ._core import Core, guarded
from ._table import OverrideTable
from ._waits import Wait

logger = logging.getLogger("reflex_runtime")

RECORDS_AT_ONCE = 1000
POLL_SECONDS = 0.5
SERVE_SECONDS = 0.1
"""How long the poller of the producer waits at a time; at the end it is waited for."""
PROBE_EVERY_MICROS = 5_000_000
"""A reader that hears nothing asks the broker this often whether it is there."""
PROBE_TIMEOUT_SECONDS = 2.0
RETRY_SECONDS = 0.5
LOOK_FOR_PARTITIONS_EVERY_MICROS = 300_000_000
END_SECONDS_MIN = 0.5
"""What librdkafka gets at least for the end of its threads. It waits for them without bound, and a look-up of a name
may take one for long, or for ever where a parent forked in the middle of one: they are left behind then."""
RELOAD_AFTER_MICROS = 3_600_000_000
"""A reader that was cut off for longer reads everything anew: tombstones may have been compacted away meanwhile."""
IN_FLIGHT_MAX = 10_000
"""Events handed to the producer and not acknowledged; beyond it they stay in the client's own queue."""
MESSAGE_TIMEOUT_MS = 120_000
"""An event that Kafka did not take by then is dropped and counted: later it would trigger nothing."""

_PINNED_READER = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
}
_PINNED_PRODUCER = {
    # Where a session's events go must not depend on the language of the runtime.
    "partitioner": "murmur2_random",
    "enable.idempotence": True,
}
_OWN_DEFAULTS = {
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 2_000,
    # Names are looked up seldom while a broker is away: a fork in the middle leaves the child without look-ups.
    "broker.address.ttl": 10_000,
    "log_level": 0,
}
_READER_DEFAULTS = {"queued.max.messages.kbytes": 16_384}
_REFUSALS = {
    KafkaError._AUTHENTICATION: "authentication failed",
    KafkaError.SASL_AUTHENTICATION_FAILED: "authentication failed",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "not authorised for a topic",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "not authorised for the cluster",
    KafkaError._SSL: "TLS failed",
}


class Topics(NamedTuple):
    """Names of topics."""

    events: str = "reflex.events"
    overrides: str = "reflex.overrides"
    interventions: str = "reflex.interventions"


def check_config(config: Mapping[str, Any]) -> None:
    """Raises ValueError for a setting that the client needs to be as it is."""
    for name, value in (_PINNED_READER | _PINNED_PRODUCER).items():
        given = config.get(name, value)
        if given != value and str(given).lower() != str(value).lower():
            raise ValueError(f"kafka_config: {name} must be {value}, the client depends on it")


class _Reload(Exception):  # noqa: N818
    """What is held cannot be continued: read everything anew."""


class KafkaTransport:
    """Threads that read overrides and send events."""

    def __init__(self, core: Core, bootstrap: str, config: Mapping[str, Any], topics: Topics) -> None:
        self._core = core
        self._topics = topics
        common = {**_OWN_DEFAULTS, **config, "bootstrap.servers": bootstrap}
        consumer_only = {"group.id": f"reflex-runtime-{uuid.uuid4()}"}
        self._reader_config = {**_READER_DEFAULTS, **common, **consumer_only, **_PINNED_READER}
        self._producer_config = {
            "linger.ms": 2,
            "message.timeout.ms": MESSAGE_TIMEOUT_MS,
            **common,
            **_PINNED_PRODUCER,
            "queue.buffering.max.messages": IN_FLIGHT_MAX,
        }
        self._producer: Producer | None = None
        self._handles: list[Producer | Consumer] = []
        self._busy = False
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Starts the threads."""
        self._threads = [
            threading.Thread(target=guarded(run, self._core), name=f"reflex-{name}", daemon=True)
            for name, run in (("reader", self._read), ("sender", self._send), ("poller", self._poll))
        ]
        for thread in self._threads:
            thread.start()

    def handles(self) -> Sequence[object]:
        """Everything that belongs to librdkafka: never to be freed in a forked child, where its threads are not."""
        return self._handles

    # ------------------------------------------------------------------------------------------------- events

    def _send(self) -> None:
        producer = self._new_producer()
        core, queue = self._core, self._core.events.queue
        while True:
            event = queue.get()
            if event is None:
                if core.stopping.is_set():
                    return
                continue
            self._busy = True
            try:
                if not self._produce(producer, event.key, event.value):
                    core.metrics.add("producers_replaced")
                    logger.error("the producer can go on no more; another one takes its place")
                    self._handles.remove(producer)
                    self._end([producer])
                    producer = self._new_producer()
                    self._produce(producer, event.key, event.value)
            finally:
                self._busy = False

    def _new_producer(self) -> Producer:
        self._producer = producer = Producer(self._producer_config)
        self._handles.append(producer)
        return producer

    def _produce(self, producer: Producer, key: str, value: bytes) -> bool:
        """Hands an event over; False: this producer takes none any more."""
        core = self._core
        sent = core.clock.steady()
        while not core.stopping.is_set():
            try:
                producer.produce(
                    self._topics.events,
                    value,
                    key.encode("utf-8", "replace"),
                    on_delivery=partial(self._delivered, sent),
                )
            except BufferError:
                core.stopping.wait(0.02)
            except KafkaException as problem:
                # A producer that writes each event once ends where it cannot know that any more.
                if problem.args[0].code() == KafkaError._FATAL:
                    return False
                core.metrics.add("events_undelivered")
                return True
            else:
                return True
        core.metrics.add("events_undelivered")
        return True

    def _poll(self) -> None:
        core = self._core
        while not core.stopping.is_set():
            producer = self._producer
            if producer is None:
                core.stopping.wait(0.01)
            else:
                producer.poll(SERVE_SECONDS)

    def _delivered(self, sent: int, error: KafkaError | None, message: Message) -> None:
        core = self._core
        if error is not None:
            core.metrics.add("events_undelivered")
            return
        core.metrics.add("events_sent")
        kind, at_ms = message.timestamp()
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            core.clock.observe(at_ms * 1000, at_ms * 1000 + 999, sent, core.clock.steady())

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until everything that was queued is acknowledged or given up."""
        clock = self._core.clock
        deadline = clock.steady() + int(timeout_seconds * 1_000_000)
        while True:
            producer = self._producer
            idle = self._core.events.queue.empty() and not self._busy
            if idle and (producer is None or len(producer) == 0):
                return True
            if clock.steady() >= deadline:
                return False
            self._core.stopping.wait(0.005)

    def watch(self, wait: Wait, budget_seconds: float) -> None:
        """Nothing to do: what a wait is for comes by the topics that are followed anyway."""

    def stop(self, timeout_seconds: float) -> None:
        """Ends the threads; what is not acknowledged is lost and counted."""
        self._core.stopping.set()
        self._core.events.wake()
        deadline = time.monotonic() + timeout_seconds
        each = timeout_seconds / max(1, len(self._threads))
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(each)
        handles, self._handles, self._producer = self._handles, [], None
        self._end(handles).join(max(END_SECONDS_MIN, deadline - time.monotonic()))

    def _end(self, handles: list[Producer | Consumer]) -> threading.Thread:
        """Ends what belongs to librdkafka, in a thread that holds the last references: freeing one waits as well."""
        ending = threading.Thread(target=self._give_up, args=(list(handles),), name="reflex-ending", daemon=True)
        ending.start()
        handles.clear()
        return ending

    def _give_up(self, handles: list[Producer | Consumer]) -> None:
        while handles:
            handle = handles.pop()
            if not isinstance(handle, Consumer):
                # Not purged: that waits for librdkafka's threads as well, and holds Python's lock meanwhile.
                left = handle.flush(SERVE_SECONDS)
                if left:
                    self._core.metrics.add("events_undelivered", left)

    # ------------------------------------------------------------------------------------------------- reader

    def _read(self) -> None:
        consumer: Consumer | None = None
        try:
            consumer = self._consumer()
            _Reader(self._core, consumer, self._topics).run()
        finally:
            if consumer is not None:
                consumer.close()

    def _consumer(self) -> Consumer:
        consumer = Consumer({**self._reader_config, "error_cb": self._on_error})
        self._handles.append(consumer)
        return consumer

    def _on_error(self, error: KafkaError) -> None:
        refused = _REFUSALS.get(error.code())
        if refused is not None or error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._core.lost(refused, error.name())


class _Reader:
    """Reads the overrides topic whole, then follows it; beside it the end of the interventions topic."""

    def __init__(self, core: Core, consumer: Consumer, topics: Topics) -> None:
        self._core = core
        self._consumer = consumer
        self._topics = topics
        self._partitions: list[int] = []
        self._followed: list[int] = []
        self._next: dict[int, int] = {}
        self._pending: set[int] = set()
        self._table = core.table
        self._heard_at = 0
        self._looked_at = 0
        self._probes = 0

    def run(self) -> None:
        while not self._core.stopping.is_set():
            try:
                self._load()
                self._follow()
            except _Reload:
                self._core.metrics.add("reloads")

    # ------------------------------------------------------------------------------------ partitions

    def _load(self) -> None:
        """Begins to read everything into a new table; the old one is answered from until that is done."""
        core = self._core
        while not core.stopping.is_set():
            partitions = self._partitions_of(self._topics.overrides)
            if partitions:
                core.contact()
                break
            core.stopping.wait(RETRY_SECONDS)
        else:
            return
        self._partitions = partitions
        self._followed = self._partitions_of(self._topics.interventions, optional=True)
        self._next = {}
        self._table = OverrideTable()
        self._looked_at = core.clock.steady()
        self._assign()

    def _assign(self) -> None:
        """Reads on where it was; each partition says anew when its end is reached."""
        overrides = [
            TopicPartition(self._topics.overrides, partition, self._next.get(partition, OFFSET_BEGINNING))
            for partition in self._partitions
        ]
        ends = [TopicPartition(self._topics.interventions, partition, OFFSET_END) for partition in self._followed]
        self._pending = set(self._partitions)
        self._consumer.assign(overrides + ends)
        self._heard_at = self._core.clock.steady()

    def _partitions_of(self, topic: str, *, optional: bool = False) -> list[int]:
        try:
            found = self._consumer.list_topics(topic, PROBE_TIMEOUT_SECONDS).topics[topic]
        except (KafkaException, KeyError):
            self._core.lost()
            return []
        if found.error is None:
            return sorted(found.partitions)
        if not optional:
            self._core.lost(f"topic {topic}: {found.error.name()}")
        return []

    # ---------------------------------------------------------------------------------------- records

    def _follow(self) -> None:
        core = self._core
        while not core.stopping.is_set():
            if self._pending:
                messages = self._consumer.consume(RECORDS_AT_ONCE, 0.05)
            else:
                message = self._consumer.poll(POLL_SECONDS)
                messages = [] if message is None else [message]
            for message in messages:
                self._take(message)
            if not messages:
                self._idle()

    def _take(self, message: Message) -> None:
        core, error = self._core, message.error()
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error is not None:
            self._take_error(error, topic, partition, offset)
            return
        if partition is None or offset is None:
            return
        self._heard()
        if topic == self._topics.interventions:
            core.intervention(message.value())
            return
        self._next[partition] = offset + 1
        key = message.key()
        if key is None:
            core.metrics.add("overrides_malformed")
            return
        where = f"{partition}:{offset}"
        core.apply(self._table, key.decode("utf-8", "replace"), message.value(), where)

    def _take_error(self, error: KafkaError, topic: str | None, partition: int | None, offset: int | None) -> None:
        code = error.code()
        ours = topic == self._topics.overrides
        if code == KafkaError._PARTITION_EOF:
            self._heard()
            if ours and partition is not None and partition in self._pending:
                if offset is not None and offset >= 0:
                    self._next[partition] = offset
                self._pending.discard(partition)
                if not self._pending:
                    self._core.contact()
                    self._core.loaded(self._table)
            return
        self._core.metrics.add("reader_errors")
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            if ours:
                raise _Reload
            return
        if ours:
            unknown = code in (
                KafkaError.UNKNOWN_TOPIC_OR_PART,
                KafkaError._UNKNOWN_TOPIC,
                KafkaError._UNKNOWN_PARTITION,
            )
            self._core.lost(f"topic {topic} is not there" if unknown else _REFUSALS.get(code))
            if unknown:
                self._core.stopping.wait(RETRY_SECONDS)
                raise _Reload

    def _heard(self) -> None:
        self._heard_at = self._core.clock.steady()

    # ------------------------------------------------------------------------------------------- idle

    def _idle(self) -> None:
        """Nothing came: is somebody still there?"""
        core = self._core
        away = core.away_micros
        now = core.clock.steady()
        if away is None and now - self._heard_at < PROBE_EVERY_MICROS:
            return
        if not self._probe():
            core.lost()
            core.stopping.wait(RETRY_SECONDS)
            return
        self._heard()
        if away is not None:
            core.behind()
            core.contact()
            if away > RELOAD_AFTER_MICROS:
                raise _Reload
            self._assign()
        elif not self._pending and now - self._looked_at > LOOK_FOR_PARTITIONS_EVERY_MICROS:
            self._looked_at = now
            partitions = self._partitions_of(self._topics.overrides)
            followed = self._partitions_of(self._topics.interventions, optional=True)
            if partitions != self._partitions or followed != self._followed:
                raise _Reload

    def _probe(self) -> bool:
        """Asks the leader of one partition after another; True: it answers."""
        partition = self._partitions[self._probes % len(self._partitions)]
        self._probes += 1
        try:
            asked = TopicPartition(self._topics.overrides, partition)
            bounds = self._consumer.get_watermark_offsets(asked, PROBE_TIMEOUT_SECONDS, cached=False)
        except KafkaException:
            return False
        if bounds is None:
            return False
        if bounds[1] < self._next.get(partition, 0):
            # Shorter than what was read of it: another topic under the same name.
            raise _Reload
        return True
