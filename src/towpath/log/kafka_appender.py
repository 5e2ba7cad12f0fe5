"""Appending to Kafka outside transactions: an idempotent client, so that its own repeats double nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from confluent_kafka import KafkaException, Producer

from towpath import crash
from towpath.crash import CrashPoint
from towpath.errors import PartlyAppended
from towpath.log.kafka_client import BATCH_OVERHEAD, NOT_WRITTEN, KafkaClient, reason
from towpath.log.kafka_deliveries import Deliveries
from towpath.log.kafka_topics import KafkaTopics
from towpath.log.record import NewRecord, Position, check_partitions, check_records
from towpath.settings import LogSettings

# The client gives up after its own time; this is for its report to come.
GRACE_S = 5.0
CONNECT_TIMEOUT_S = 1.0


def producer_properties(settings: LogSettings) -> dict[str, object]:
    """What all of Towpath's producers have in common."""
    return {
        "enable.idempotence": True,
        "acks": "all",
        "partitioner": "murmur2_random",  # the library's own default puts keys elsewhere than Java's clients
        "linger.ms": 1,
        "message.max.bytes": settings.max_record_bytes + BATCH_OVERHEAD,
        "message.timeout.ms": int(settings.timeout_s * 1000),
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": max(65_536, 4 * settings.max_record_bytes >> 10),
        # Another process may add partitions.
        "topic.metadata.refresh.interval.ms": 10_000,
    }


class KafkaAppender:
    """Each batch has a client to itself while it is on its way; clients are kept for the next one."""

    def __init__(self, client: KafkaClient, topics: KafkaTopics) -> None:
        self._client = client
        self._topics = topics
        self._idle: SimpleQueue[Producer] = SimpleQueue()
        self._turn = random.randrange(1 << 16)  # noqa: S311 - which partition is first is no secret

    def append(self, topic: str, records: Sequence[NewRecord]) -> list[Position]:
        settings = self._client.settings
        check_records(records, settings.max_record_bytes)
        partitions = self._topics.count(topic)
        check_partitions(topic, records, partitions)
        producer = self._producer(topic)
        deliveries = Deliveries(producer, len(records))
        self._turn = deliveries.hand_over(topic, records, partitions, self._turn)
        crash.here(CrashPoint.APPEND_BEFORE_COMMIT)
        deliveries.wait(settings.timeout_s + GRACE_S)
        crash.here(CrashPoint.APPEND_AFTER_COMMIT)
        written = [position for position in deliveries.positions if position is not None]
        if len(written) < len(records):
            raise self._failure(deliveries, len(written))
        self._idle.put(producer)  # one that has failed is not used again: it may be past repair
        return written

    def close(self) -> None:
        while not self._idle.empty():
            self._idle.get().close()

    def _producer(self, topic: str) -> Producer:
        try:
            return self._idle.get_nowait()
        except Empty:
            producer = self._client.make(Producer, producer_properties(self._client.settings))
        # A client asks for the number of its session as soon as it is made; one that is not connected yet asks again
        # only half a second later. With the broker away the records themselves will tell.
        with suppress(KafkaException):
            producer.list_topics(topic, CONNECT_TIMEOUT_S)
        return producer

    def _failure(self, deliveries: Deliveries, written: int) -> Exception:
        errors = deliveries.errors
        first = next(iter(errors.values()), None)
        # One that the broker refused is not there; of one that timed out, or that was never reported, nobody knows.
        unknown = [
            at
            for at, position in enumerate(deliveries.positions)
            if position is None and (at not in errors or errors[at].code() not in NOT_WRITTEN)
        ]
        done = [at for at, position in enumerate(deliveries.positions) if position is not None]
        cause = reason(first) if first is not None else f"no answer from {self._client.servers}"
        if first is not None and not written and not unknown:
            return self._client.failure(first)
        return PartlyAppended(done, unknown, len(deliveries.positions), cause)
