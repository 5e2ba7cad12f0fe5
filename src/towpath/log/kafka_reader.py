"""Reading ranges of Kafka's partitions: committed records only, except where someone asks what is not decided."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from towpath.errors import LogUnavailable, TopicReplaced
from towpath.log.kafka_client import KafkaClient
from towpath.log.record import Record

PROPERTIES = {
    "group.id": "towpath.reader",  # the library wants one; it is never joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    # At the end of what is committed, so that a range whose last offsets hold nothing ends too.
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    # What is asked for is there. A request that waits for more would only keep the next one waiting behind it.
    "fetch.wait.max.ms": 5,
    "queued.max.messages.kbytes": 16_384,
}
AT_ONCE = 1_000
LOOK_S = 0.2


class KafkaReader:
    """Keeps the consumers that are not in use."""

    def __init__(self, client: KafkaClient, *, is_committed: bool = True) -> None:
        self._client = client
        self._properties = PROPERTIES if is_committed else {**PROPERTIES, "isolation.level": "read_uncommitted"}
        self._idle: SimpleQueue[Consumer] = SimpleQueue()

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Record]:
        if start >= stop:
            return
        with self._consumer() as consumer:
            # A client looks for the leaders of a topic that is new to it once a second, unless it is told to.
            self._client.patiently(lambda left_s: consumer.list_topics(topic, left_s))
            consumer.assign([TopicPartition(topic, partition, start)])
            lowest = start
            for message in self._messages(consumer):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise self._client.failure(error)
                if message.offset() < lowest:
                    raise TopicReplaced(topic, None, None)  # offsets begin anew only in another topic
                if message.offset() >= stop:
                    return
                lowest = message.offset() + 1
                yield as_record(message)
                if lowest == stop:
                    return

    def close(self) -> None:
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return

    def _messages(self, consumer: Consumer) -> Iterator[Message]:
        """What comes, one by one, as soon as it is there; `LogUnavailable` after a long time without anything."""
        deadline = time.monotonic() + self._client.timeout_s
        while True:
            first = consumer.poll(LOOK_S)
            if first is not None:
                yield first
                yield from consumer.consume(AT_ONCE, timeout=0)
                deadline = time.monotonic() + self._client.timeout_s
            elif time.monotonic() > deadline:
                raise LogUnavailable(f"{self._client.servers}: no answer within {self._client.timeout_s:g} s")

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        try:
            consumer = self._idle.get_nowait()
        except Empty:
            consumer = self._client.make(Consumer, self._properties)
        try:
            yield consumer
        except Exception:
            consumer.close()
            raise
        except GeneratorExit:  # its caller has seen enough
            pass
        consumer.unassign()
        self._idle.put(consumer)


def as_record(message: Message) -> Record:
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
