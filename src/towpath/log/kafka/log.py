"""The log on Apache Kafka, and the reader of its partitions.

Only committed records are read, except where a caller asks what is not decided yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import LogUnavailable, OffsetOutOfRange, TopicReplaced, UnknownPartition
from towpath.log.kafka.client import KafkaClient
from towpath.log.kafka.producer import KafkaAppender, KafkaProducer
from towpath.log.kafka.topics import KafkaGroups, KafkaTopics, as_partitions
from towpath.log.log import Offsets, Positions, check_positions
from towpath.log.record import NewRecord, Position, Record, check_time
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


class KafkaLog:
    """Topics of a Kafka cluster."""

    def __init__(self, servers: str, settings: LogSettings) -> None:
        self.url = f"kafka://{servers}"
        self.settings = settings
        client = KafkaClient(servers, settings)
        self._client = client
        self._topics = KafkaTopics(client)
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
        return self._offsets(topic, OffsetSpec.earliest())

    def ends(self, topic: str) -> dict[int, int]:
        return self._offsets(topic, OffsetSpec.latest())

    def written_ends(self, topic: str) -> dict[int, int]:
        return self._offsets(topic, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    def read(self, topic: str, partition: int, start: int, stop: int | None = None) -> Iterator[Record]:
        end = self._end_if_readable(topic, partition, start)
        return self._reader.read(topic, partition, start, end if stop is None else min(stop, end))

    def record(self, topic: str, partition: int, offset: int) -> Record | None:
        end = self._end_if_readable(topic, partition, offset)
        if offset == end:
            raise OffsetOutOfRange(topic, partition, offset, self.starts(topic)[partition], end)
        return next(self._reader.read(topic, partition, offset, offset + 1), None)

    def undecided(self, topic: str, partition: int) -> Iterator[Record]:
        self._topics.check_partition(topic, partition)
        start = self.ends(topic)[partition]
        # Asked for after the start: what is decided between the two is read in vain, nothing is missed.
        stop = self.written_ends(topic)[partition]
        return self._early_reader.read(topic, partition, start, stop)

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        check_time(timestamp_ms)
        ends, found = self.ends(topic), self._offsets(topic, OffsetSpec.for_timestamp(timestamp_ms))
        return {number: ends[number] if found[number] < 0 else min(found[number], ends[number]) for number in ends}

    def delete_before(self, topic: str, offsets: Offsets) -> None:
        starts, ends = self.starts(topic), self.ends(topic)
        for number, offset in offsets.items():
            if number not in starts:
                raise UnknownPartition(topic, number, len(starts))
            if not 0 <= offset <= ends[number]:
                raise OffsetOutOfRange(topic, number, offset, starts[number], ends[number])
        wanted = as_partitions({(topic, number): offset for number, offset in offsets.items()})
        self._client.patiently(
            lambda left_s: [future.result(left_s) for future in self._client.admin.delete_records(wanted).values()]
        )
        crash.here(CrashPoint.START_MOVED)

    def _offsets(
        self, topic: str, spec: OffsetSpec, level: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[int, int]:
        # A new partition, or a broker that has just started, has no leader yet: asked again until it has.
        return self._client.patiently(lambda left_s: self._offsets_once(topic, spec, level, left_s))

    def _offsets_once(self, topic: str, spec: OffsetSpec, level: IsolationLevel, timeout_s: float) -> dict[int, int]:
        wanted = {TopicPartition(topic, number): spec for number in range(self._topics.count(topic))}
        answers = self._client.admin.list_offsets(wanted, isolation_level=level)
        offsets = {each.partition: int(future.result(timeout_s).offset) for each, future in answers.items()}
        if OFFSET_INVALID in offsets.values():
            # What the library answers, without an error, when the broker goes away while it is asked.
            raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
        return offsets

    def _end_if_readable(self, topic: str, partition: int, offset: int) -> int:
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


class KafkaReader:
    """Reads ranges of partitions, and keeps the consumers that are not in use."""

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
                yield _as_record(message)
                if lowest == stop:
                    return

    def close(self) -> None:
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return

    def _messages(self, consumer: Consumer) -> Iterator[Message]:
        """Messages one by one as they arrive; `LogUnavailable` when none comes within the timeout."""
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


def _as_record(message: Message) -> Record:
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
