"""Positions of groups in Kafka.

Kafka's client has two ways to them. The administrator's crashes the whole process when the group's coordinator is
moving or loading (librdkafka 2.16 follows a null pointer), which is just when a broker has restarted. So each group has
a consumer here that never joins it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from towpath.log.groups import OWN
from towpath.log.kafka_client import KafkaClient, code_of
from towpath.log.kafka_topics import KafkaTopics
from towpath.log.log import Positions

LONGEST_COMMIT_MS = 45_000
_NO_GROUP = frozenset({KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID})


class KafkaGroups:
    """A consumer for each question, closed after it: one that is kept costs sockets and threads."""

    def __init__(self, client: KafkaClient, topics: KafkaTopics) -> None:
        self._client = client
        self._topics = topics

    def positions(self, group: str, topics: Iterable[str] | None = None) -> dict[tuple[str, int], int]:
        """Where the group is in these topics, or in all. Waits for a commit of them that is under way."""
        counts = self._topics.counts() if topics is None else {topic: self._topics.count(topic) for topic in topics}
        wanted = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        if not wanted:
            return {}
        with closing(self.consumer(group)) as consumer:
            found = self._client.patiently(lambda left_s: consumer.committed(wanted, left_s))
        for each in found:
            if each.error is not None and each.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self._client.failure(each.error)
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def commit(self, group: str, positions: Positions) -> None:
        for topic, number in positions:
            self._topics.check_partition(topic, number)
        if not positions:
            return
        wanted = as_partitions(positions)
        with closing(self.consumer(group)) as consumer:
            self._client.patiently(lambda _: consumer.commit(offsets=wanted, asynchronous=False))

    def names(self) -> list[str]:
        listed = self._client.patiently(lambda left_s: self._client.admin.list_consumer_groups().result(left_s))
        for error in listed.errors:
            raise self._client.failure(error)
        return sorted(group.group_id for group in listed.valid if not group.group_id.startswith(OWN))

    def forget(self, group: str) -> None:
        def delete(left_s: float) -> None:
            try:
                self._client.admin.delete_consumer_groups([group])[group].result(left_s)
            except KafkaException as error:
                if code_of(error) not in _NO_GROUP:
                    raise

        self._client.patiently(delete)

    def consumer(self, group: str) -> Consumer:
        """A consumer that can ask for the group's positions. Whoever takes it closes it."""
        properties = {
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            # How long the library waits for the answer to a commit; the call itself takes no limit.
            "session.timeout.ms": max(1, min(LONGEST_COMMIT_MS, int(self._client.timeout_s * 1000))),
        }
        return self._client.make(Consumer, properties)


def as_partitions(positions: Mapping[tuple[str, int], int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number, position) for (topic, number), position in positions.items()]
