"""Offsets of Kafka: where partitions start and end, and where groups are in them."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from towpath.errors import BadValue, LogUnavailable, OffsetOutOfRange, UnknownPartition
from towpath.log.groups import OWN
from towpath.log.kafka_client import KafkaClient, code_of
from towpath.log.kafka_topics import KafkaTopics
from towpath.log.log import Offsets, Positions

UNSETTLED_PAUSE_S = 0.02
_NO_GROUP = frozenset({KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID})


class KafkaOffsets:
    """All of them as a reader of committed records sees them."""

    def __init__(self, client: KafkaClient, topics: KafkaTopics) -> None:
        self._client = client
        self._topics = topics

    def starts(self, topic: str) -> dict[int, int]:
        return self._list(topic, OffsetSpec.earliest())

    def ends(self, topic: str) -> dict[int, int]:
        return self._list(topic, OffsetSpec.latest())

    def at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        if timestamp_ms < 0:
            raise BadValue(f"a time is milliseconds since 1970, not {timestamp_ms!r}")
        found, ends = self._list(topic, OffsetSpec.for_timestamp(timestamp_ms)), self.ends(topic)
        return {number: ends[number] if found[number] < 0 else min(found[number], ends[number]) for number in ends}

    def delete_before(self, topic: str, offsets: Offsets) -> None:
        starts, ends = self.starts(topic), self.ends(topic)
        for number, offset in offsets.items():
            if number not in starts:
                raise UnknownPartition(topic, number, len(starts))
            if not 0 <= offset <= ends[number]:
                raise OffsetOutOfRange(topic, number, offset, starts[number], ends[number])
        wanted = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        for future in self._client.admin.delete_records(wanted).values():
            self._client.answer(future)

    def positions(self, group: str) -> dict[tuple[str, int], int]:
        deadline = time.monotonic() + self._client.timeout_s
        while True:
            found = self._positions(group)
            if not any(each.error for each in found):
                return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}
            if time.monotonic() > deadline:
                raise LogUnavailable(f"{self._client.servers}: a transaction holds the positions of {group!r}")
            time.sleep(UNSETTLED_PAUSE_S)  # a transaction that moves them is being committed or aborted

    def _positions(self, group: str) -> list[TopicPartition]:
        request = [ConsumerGroupTopicPartitions(group)]
        answer = self._client.admin.list_consumer_group_offsets(request, require_stable=True)[group]
        try:
            return list(answer.result(self._client.timeout_s).topic_partitions)
        except KafkaException as error:
            if code_of(error) in _NO_GROUP:
                return []
            raise self._client.failure(error) from error

    def commit(self, group: str, positions: Positions) -> None:
        for topic, number in positions:
            self._topics.check_partition(topic, number)
        request = ConsumerGroupTopicPartitions(group, as_partitions(positions))
        answer = self._client.answer(self._client.admin.alter_consumer_group_offsets([request])[group])
        for each in answer.topic_partitions:
            if each.error is not None:
                raise self._client.failure(each.error)

    def groups(self) -> list[str]:
        listed = self._client.answer(self._client.admin.list_consumer_groups())
        names = sorted(group.group_id for group in listed.valid if not group.group_id.startswith(OWN))
        return [name for name in names if self.positions(name)]

    def forget(self, group: str) -> None:
        try:
            self._client.admin.delete_consumer_groups([group])[group].result(self._client.timeout_s)
        except KafkaException as error:
            if code_of(error) not in _NO_GROUP:
                raise self._client.failure(error) from error

    def _list(self, topic: str, spec: OffsetSpec) -> dict[int, int]:
        deadline = time.monotonic() + self._client.timeout_s
        while True:
            try:
                return self._list_once(topic, spec)
            except LogUnavailable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(UNSETTLED_PAUSE_S)  # a new partition, or a broker that has just started, has no leader yet

    def _list_once(self, topic: str, spec: OffsetSpec) -> dict[int, int]:
        wanted = {TopicPartition(topic, number): spec for number in range(self._topics.count(topic))}
        answers = self._client.admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        return {each.partition: self._client.answer(future).offset for each, future in answers.items()}


def as_partitions(positions: Mapping[tuple[str, int], int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number, position) for (topic, number), position in positions.items()]
