"""Topics and positions of groups of a Kafka cluster.

Kafka's client has two ways to positions. The administrator's crashes the whole process when the group's coordinator is
moving or loading (librdkafka 2.16 follows a null pointer), which is just when a broker has restarted. So each group has
a consumer here that never joins it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from typing import TypeVar

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import ConfigResource, NewPartitions, NewTopic, ResourceType, TopicDescription

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import (
    BadName,
    BadValue,
    LogUnavailable,
    TopicExists,
    UnknownPartition,
    UnknownTopic,
)
from towpath.log.kafka.client import BATCH_OVERHEAD, KafkaClient, code_of, reason
from towpath.log.log import Positions
from towpath.log.topic import OWN, Topic

T = TypeVar("T")
SETTLE_PAUSE_S = 0.02
# How long a number of partitions is believed; a producer may be that late in using a new one.
TRUSTED_S = 1.0
FOR_EVER_MS = -1
LONGEST_COMMIT_MS = 45_000
NOT_THERE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})
_NO_GROUP = frozenset({KafkaError.GROUP_ID_NOT_FOUND, KafkaError.INVALID_GROUP_ID})


class KafkaTopics:
    """Topics through the administrator's interface. A change returns when brokers show it."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._counts: dict[str, tuple[float, int]] = {}
        self._limits: dict[str, int] = {}

    def create(self, name: str, partitions: int, retention_s: float | None) -> Topic:
        config = {
            "retention.ms": str(FOR_EVER_MS if retention_s is None else max(1, round(retention_s * 1000))),
            "max.message.bytes": str(self._client.settings.max_record_bytes + BATCH_OVERHEAD),
        }
        crash.here(CrashPoint.TOPIC_BEFORE_COMMIT)
        wanted = NewTopic(name, num_partitions=partitions, config=config)
        self._change(name, self._client.admin.create_topics([wanted])[name])
        crash.here(CrashPoint.TOPIC_AFTER_COMMIT)
        return self._await_change(lambda: self._is_made(name, partitions))

    def read(self, name: str) -> Topic:
        found = self._look([name])
        if not found:
            raise UnknownTopic(name)
        return found[0]

    def all(self) -> list[Topic]:
        names = sorted(self.counts())
        return self._look(names) if names else []

    def counts(self) -> dict[str, int]:
        """The number of partitions of every topic that is not Kafka's own."""
        metadata = self._client.patiently(lambda left_s: self._client.admin.list_topics(timeout=left_s))
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if not name.startswith("__")}

    def count(self, name: str) -> int:
        """How many partitions the topic has; asked of the broker once in a while."""
        asked_at, count = self._counts.get(name, (float("-inf"), 0))
        if time.monotonic() - asked_at > TRUSTED_S:
            found = self._describe([name])
            if not found:
                raise UnknownTopic(name)
            count = len(found[0].partitions)
        return count

    def limit(self, name: str) -> int:
        """How many bytes the topic takes at once; asked of the broker once, and again when it has refused something."""
        if name not in self._limits:
            self._limits[name] = self._client.patiently(lambda left_s: self._limit_once(name, left_s))
        return self._limits[name]

    def forget_limit(self, name: str) -> None:
        self._limits.pop(name, None)

    def _limit_once(self, name: str, timeout_s: float) -> int:
        resource = ConfigResource(ResourceType.TOPIC, name)
        config = self._client.admin.describe_configs([resource])[resource].result(timeout_s)
        return int(config["max.message.bytes"].value)

    def check_partition(self, name: str, number: int) -> None:
        count = self.count(name)
        if not 0 <= number < count:
            raise UnknownPartition(name, number, count)

    def delete(self, name: str) -> None:
        self.read(name)
        crash.here(CrashPoint.TOPIC_BEFORE_COMMIT)
        self._change(name, self._client.admin.delete_topics([name])[name])
        crash.here(CrashPoint.TOPIC_AFTER_COMMIT)
        self._await_change(lambda: not self._describe([name]) or None)
        self._counts.pop(name, None)

    def add_partitions(self, name: str, partitions: int) -> Topic:
        now = self.read(name)
        if partitions < now.partitions:
            raise BadValue(f"topic {name!r} has {now.partitions} partitions; they cannot be made fewer ({partitions})")
        if partitions > now.partitions:
            self._change(name, self._client.admin.create_partitions([NewPartitions(name, partitions)])[name])
        return self._await_change(lambda: self._is_made(name, partitions))

    def _is_made(self, name: str, partitions: int) -> Topic | None:
        found = self._describe([name])
        has_leaders = found and all(p.leader is not None and p.leader.id >= 0 for p in found[0].partitions)
        if not has_leaders or len(found[0].partitions) < partitions:
            return None
        return next(iter(self._look([name])), None)

    def _await_change(self, look: Callable[[], T | None]) -> T:
        deadline = time.monotonic() + self._client.timeout_s
        while True:
            seen = look()
            if seen is not None:
                return seen
            if time.monotonic() > deadline:
                raise LogUnavailable(f"{self._client.servers}: the change was accepted, but brokers do not show it yet")
            time.sleep(SETTLE_PAUSE_S)

    def _describe(self, names: Sequence[str]) -> list[TopicDescription]:
        """Descriptions of those topics that exist."""
        return self._client.patiently(lambda left_s: self._describe_once(names, left_s))

    def _describe_once(self, names: Sequence[str], timeout_s: float) -> list[TopicDescription]:
        futures = self._client.admin.describe_topics(TopicCollection(list(names)))
        found = []
        for future in futures.values():
            try:
                topic = future.result(timeout_s)
            except KafkaException as error:
                if code_of(error) not in NOT_THERE:
                    raise
            else:
                found.append(topic)
                self._counts[topic.name] = (time.monotonic(), len(topic.partitions))
        return found

    def _look(self, names: Sequence[str]) -> list[Topic]:
        """Those topics that exist, with their retention. One deleted between the two questions makes it ask again."""
        return self._client.patiently(lambda left_s: self._with_retention(self._describe_once(names, left_s), left_s))

    def _with_retention(self, found: Sequence[TopicDescription], timeout_s: float) -> list[Topic]:
        if not found:
            return []
        resources = {topic.name: ConfigResource(ResourceType.TOPIC, topic.name) for topic in found}
        answers = self._client.admin.describe_configs(list(resources.values()))
        topics = []
        for topic in found:
            config = answers[resources[topic.name]].result(timeout_s)
            retention_ms = int(config["retention.ms"].value)
            retention_s = None if retention_ms < 0 else retention_ms / 1000
            topics.append(Topic(topic.name, _id_text(topic.topic_id), len(topic.partitions), retention_s))
        return topics

    def _change(self, name: str, future: Future[None]) -> None:
        try:
            self._client.once(future.result)
        except KafkaException as error:
            raise self._refusal(error, name) from error

    def _refusal(self, error: KafkaException, name: str) -> Exception:
        match code_of(error):
            case KafkaError.TOPIC_ALREADY_EXISTS:
                return TopicExists(name)
            case KafkaError.UNKNOWN_TOPIC_OR_PART:
                return UnknownTopic(name)
            case KafkaError.TOPIC_EXCEPTION:
                return BadName(f"Kafka refuses {name!r}: {reason(error)}")
        return self._client.failure(error)


class KafkaGroups:
    """Positions of groups. Each question has a consumer of its own: one that is kept costs sockets and threads."""

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
        """A consumer that can ask for the group's positions. The caller closes it."""
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


def _id_text(topic_id: Uuid) -> str:
    """As Kafka's own tools write it; the library takes another alphabet."""
    return str(topic_id).translate(str.maketrans("+/", "-_"))
