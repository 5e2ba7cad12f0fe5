"""The log on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from towpath.errors import OffsetOutOfRange, UnknownPartition
from towpath.log.groups import check_user_group
from towpath.log.kafka_appender import KafkaAppender
from towpath.log.kafka_client import KafkaClient
from towpath.log.kafka_groups import KafkaGroups
from towpath.log.kafka_offsets import KafkaOffsets
from towpath.log.kafka_producer import KafkaProducer
from towpath.log.kafka_reader import KafkaReader
from towpath.log.kafka_topics import KafkaTopics
from towpath.log.log import Offsets, Positions
from towpath.log.position_store import check_positions
from towpath.log.record import NewRecord, Position, Record
from towpath.log.retention import chosen_retention
from towpath.log.topic import Topic, check_group, check_partition_count, check_topic_name
from towpath.settings import LogSettings


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
