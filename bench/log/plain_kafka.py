"""confluent-kafka as its documentation says, doing what our log does: nothing less, and nothing more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from bench.log.workload import Batch
from towpath.log.kafka.log import PROPERTIES
from towpath.log.kafka.producer import producer_properties
from towpath.settings import LogSettings

SERVED_EVERY = 1_000
AT_ONCE = 1_000


def producer(bootstrap: str, settings: LogSettings) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, **producer_properties(settings)})


def transactional_producer(bootstrap: str, settings: LogSettings) -> Producer:
    client = Producer(
        {
            "bootstrap.servers": bootstrap,
            **producer_properties(settings),
            "transactional.id": f"plain-{uuid4().hex[:8]}",
            "delivery.report.only.error": True,
        }
    )
    client.init_transactions()
    return client


def append(client: Producer, topic: str, batch: Batch) -> list[tuple[int, int]]:
    """Where each record is, in the order of the batch."""
    places: list[Any] = [None] * len(batch)

    def report(at: int, error: object, message: Message) -> None:
        assert error is None, error
        places[at] = (message.partition(), message.offset())

    for at, record in enumerate(batch):
        client.produce(topic, record.value, record.key, on_delivery=partial(report, at))
        if at % SERVED_EVERY == 0:
            client.poll(0)
    client.flush()
    assert None not in places
    return places


def append_transaction(client: Producer, topic: str, batch: Batch) -> None:
    def report(error: object, _: Message) -> None:
        assert error is None, error

    client.begin_transaction()
    for at, record in enumerate(batch):
        client.produce(topic, record.value, record.key, on_delivery=report)
        if at % SERVED_EVERY == 0:
            client.poll(0)
    client.commit_transaction()


def consumer(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, **PROPERTIES, "enable.partition.eof": False})


def read(client: Consumer, topic: str, ends: Mapping[int, int]) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Key and value of each record, partition after partition."""
    for number, end in ends.items():
        client.assign([TopicPartition(topic, number, 0)])
        offset = 0
        while offset < end:
            # It waits until it has as many as are asked for. This topic has no holes, so the rest is known.
            for message in client.consume(min(AT_ONCE, end - offset), timeout=1.0):
                assert message.error() is None, message.error()
                yield message.key(), message.value()
                offset = message.offset() + 1
