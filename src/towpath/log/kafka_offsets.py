"""Offsets of Kafka: where partitions start and end."""

from __future__ import annotations

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from towpath import crash
from towpath.crash import CrashPoint
from towpath.errors import OffsetOutOfRange, UnknownPartition
from towpath.log.kafka_client import KafkaClient
from towpath.log.kafka_topics import KafkaTopics
from towpath.log.log import Offsets
from towpath.log.record import check_time


class KafkaOffsets:
    """As a reader of committed records sees them, where nothing else is said."""

    def __init__(self, client: KafkaClient, topics: KafkaTopics) -> None:
        self._client = client
        self._topics = topics

    def starts(self, topic: str) -> dict[int, int]:
        return self._list(topic, OffsetSpec.earliest())

    def ends(self, topic: str) -> dict[int, int]:
        return self._list(topic, OffsetSpec.latest())

    def uncommitted_ends(self, topic: str) -> dict[int, int]:
        """The offset after the last record, committed or not."""
        return self._list(topic, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    def at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        check_time(timestamp_ms)
        ends, found = self.ends(topic), self._list(topic, OffsetSpec.for_timestamp(timestamp_ms))
        return {number: ends[number] if found[number] < 0 else min(found[number], ends[number]) for number in ends}

    def delete_before(self, topic: str, offsets: Offsets) -> None:
        starts, ends = self.starts(topic), self.ends(topic)
        for number, offset in offsets.items():
            if number not in starts:
                raise UnknownPartition(topic, number, len(starts))
            if not 0 <= offset <= ends[number]:
                raise OffsetOutOfRange(topic, number, offset, starts[number], ends[number])
        wanted = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        self._client.patiently(
            lambda left_s: [future.result(left_s) for future in self._client.admin.delete_records(wanted).values()]
        )
        crash.here(CrashPoint.START_MOVED)

    def _list(
        self, topic: str, spec: OffsetSpec, level: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> dict[int, int]:
        # A new partition, or a broker that has just started, has no leader yet: asked again until it has.
        return self._client.patiently(lambda left_s: self._list_once(topic, spec, level, left_s))

    def _list_once(self, topic: str, spec: OffsetSpec, level: IsolationLevel, timeout_s: float) -> dict[int, int]:
        wanted = {TopicPartition(topic, number): spec for number in range(self._topics.count(topic))}
        answers = self._client.admin.list_offsets(wanted, isolation_level=level)
        offsets = {each.partition: int(future.result(timeout_s).offset) for each, future in answers.items()}
        if OFFSET_INVALID in offsets.values():
            # What the library answers, without an error, when the broker goes away while it is asked.
            raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
        return offsets
