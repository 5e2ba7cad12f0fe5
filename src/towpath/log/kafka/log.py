"""The log on Apache Kafka.

Reading ranges of Kafka's partitions: committed records only, except where someone asks what is not decided.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from towpath.errors import LogUnavailable, OffsetOutOfRange, TopicReplaced, UnknownPartition
from towpath.log.kafka.client import KafkaClient
from towpath.log.kafka.producer import KafkaAppender, KafkaProducer
from towpath.log.kafka.topics import KafkaGroups, KafkaOffsets, KafkaTopics
from towpath.log.log import Offsets, Positions, check_positions
from towpath.log.record import NewRecord, Position, Record
from towpath.log.topic import (
    Topic,
    check_group,
    check_partition_count,
    check_topic_name,
    check_user_group,
    chosen_retention,
)
from towpath.settings import LogSettings

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


class KafkaLog:
    """Topics of a Kafka cluster."""

    def __init__(self, servers: str, settings: LogSettings) -> None:
        self.url = f"kafka://{servers}"
        self.settings = settings
        client = KafkaClient(servers, settings)
        self._client = client
        self._topics = KafkaTopics(client)
        self._offsets = KafkaOffsets(client, self._topics)
        self._groups = KafkaGroups(client, self._topics)
        self._appender = KafkaAppender(client, self._topics)
        self._reader = KafkaReader(client)
        self._early_reader = KafkaReader(client, is_committed=False)

    # Topics

    def create_topic(
        self, name: str, partitions: int | None = None, *, retention_s: float | str | None = None
    ) -> Topic:
        check_topic_name(name)
        count = check_partition_count(self.settings.partitions if partitions is None else partitions)
        return self._topics.create(name, count, chosen_retention(retention_s, self.settings))

    def topic(self, name: str) -> Topic:
        return self._topics.read(name)

    def topics(self) -> list[Topic]:
        return self._topics.all()

    def delete_topic(self, name: str) -> None:
        self._topics.delete(name)

    def add_partitions(self, name: str, partitions: int) -> Topic:
        return self._topics.add_partitions(name, check_partition_count(partitions))

    # Appending

    def append(self, topic: str, records: Sequence[NewRecord]) -> list[Position]:
        return self._appender.append(topic, records)

    def producer(self, name: str) -> KafkaProducer:
        return KafkaProducer(self._client, self._topics, self._groups, check_group(name))

    # Reading

    def starts(self, topic: str) -> dict[int, int]:
        return self._offsets.starts(topic)

    def ends(self, topic: str) -> dict[int, int]:
        return self._offsets.ends(topic)

    def written_ends(self, topic: str) -> dict[int, int]:
        return self._offsets.uncommitted_ends(topic)

    def read(self, topic: str, partition: int, start: int, stop: int | None = None) -> Iterator[Record]:
        end = self._checked(topic, partition, start)
        return self._reader.read(topic, partition, start, end if stop is None else min(stop, end))

    def record(self, topic: str, partition: int, offset: int) -> Record | None:
        end = self._checked(topic, partition, offset)
        if offset == end:
            raise OffsetOutOfRange(topic, partition, offset, self.starts(topic)[partition], end)
        return next(self._reader.read(topic, partition, offset, offset + 1), None)

    def undecided(self, topic: str, partition: int) -> Iterator[Record]:
        self._topics.check_partition(topic, partition)
        start = self.ends(topic)[partition]
        # Asked for after the start: what is decided between the two is read in vain, nothing is missed.
        stop = self._offsets.uncommitted_ends(topic)[partition]
        return self._early_reader.read(topic, partition, start, stop)

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        return self._offsets.at(topic, timestamp_ms)

    def delete_before(self, topic: str, offsets: Offsets) -> None:
        self._offsets.delete_before(topic, offsets)

    def _checked(self, topic: str, partition: int, offset: int) -> int:
        """The end of the partition, if the offset lies between its start and that."""
        self._topics.check_partition(topic, partition)
        starts, ends = self.starts(topic), self.ends(topic)
        if partition not in starts or partition not in ends:  # the topic was made again with fewer of them
            raise UnknownPartition(topic, partition, min(len(starts), len(ends)))
        start, end = starts[partition], ends[partition]
        if not start <= offset <= end:
            raise OffsetOutOfRange(topic, partition, offset, start, end)
        return end

    # Positions

    def positions(self, group: str) -> dict[tuple[str, int], int]:
        return self._groups.positions(check_user_group(group))

    def commit_positions(self, group: str, positions: Positions) -> None:
        check_user_group(group)
        check_positions(positions)
        self._groups.commit(group, positions)

    def groups(self) -> list[str]:
        return self._groups.names()

    def forget_group(self, group: str) -> None:
        self._groups.forget(check_user_group(group))

    def close(self) -> None:
        self._appender.close()
        self._reader.close()
        self._early_reader.close()
