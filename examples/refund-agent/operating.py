"""What an operator does and sees: orders by the verbs of the program, records on the topics."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from confluent_kafka import Consumer, TopicPartition

DEGRADED = "degraded_refund_graph:v1"


class Topics:
    """Reads topics whole."""

    def __init__(self, kafka: str) -> None:
        self._kafka = kafka

    def read(self, topic: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Every record from the beginning to what is committed now; a tombstone is None."""
        reader = Consumer(
            {
                "bootstrap.servers": self._kafka,
                "group.id": "prove",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        try:
            partitions = [TopicPartition(topic, at, 0) for at in reader.list_topics(topic).topics[topic].partitions]
            ends = {part.partition: reader.get_watermark_offsets(part)[1] for part in partitions}
            reader.assign(partitions)
            until = time.monotonic() + 20
            while time.monotonic() < until:
                message = reader.poll(0.2)
                if message is not None and message.error() is None:
                    value = message.value()
                    yield (message.key() or b"").decode(), json.loads(value) if value is not None else None
                at = {part.partition: part.offset for part in reader.position(partitions)}
                if all(ends[partition] == 0 or at[partition] >= ends[partition] for partition in ends):
                    return
        finally:
            reader.close()

    def end_of(self, region: str) -> datetime:
        """When the override of a region ends."""
        records = [record for _, record in self.read("reflex.overrides") if record is not None]
        (ends,) = {record["expires_at"] for record in records if record["scope"].get("region") == region}
        return datetime.fromisoformat(ends)


class Operator:
    """Decides by the verbs of the program, as a person would."""

    def __init__(self, binary: str, kafka: str) -> None:
        self._verb = [binary, "overrides"]
        self._why = ["--reason", "evidence model is down", "--author", "prove", "--bootstrap-servers", kafka]

    def _decide(self, *verb: str) -> str:
        done = subprocess.run([*self._verb, *verb, *self._why], check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    def force(self, region: str, seconds: int) -> None:
        """Forces the degraded graph in a region."""
        self._decide("force", "refund_graph", DEGRADED, "--where", f"region={region}", "--ttl", f"{seconds}s")

    def lift(self, override_id: str) -> None:
        self._decide("lift", override_id)
