"""The Kafka log, and the plain client beside it: the same broker, topics, properties and batches."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from bench.log import plain_kafka
from bench.log.workload import PARTITIONS, TOPIC, Batch, batches, rate, reading_rate
from towpath.log.kafka.log import KafkaLog
from towpath.settings import LogSettings


class OnKafka:
    """Appends to new topics; reads one that is filled once. A client has sent a record before it is measured."""

    def __init__(self, bootstrap: str, records: int) -> None:
        self._bootstrap = bootstrap
        self._records = records
        self._settings = LogSettings(url=f"kafka://{bootstrap}")
        self._is_filled = False
        self.log = KafkaLog(bootstrap, self._settings)

    def append(self) -> float:
        return self._rate(lambda topic: lambda batch: self.log.append(topic, batch))

    def plain_append(self) -> float:
        client = plain_kafka.producer(self._bootstrap, self._settings)
        return self._rate(lambda topic: lambda batch: plain_kafka.append(client, topic, batch))

    def transactions(self) -> float:
        producer = self.log.producer(f"bench-{uuid4().hex[:8]}")

        def append(topic: str, batch: Batch) -> None:
            with producer.transaction() as transaction:
                transaction.append(topic, batch)

        try:
            return self._rate(lambda topic: lambda batch: append(topic, batch))
        finally:
            producer.close()

    def plain_transactions(self) -> float:
        client = plain_kafka.transactional_producer(self._bootstrap, self._settings)
        return self._rate(lambda topic: lambda batch: plain_kafka.append_transaction(client, topic, batch))

    def read(self) -> float:
        log = self.filled()
        next(log.read(TOPIC, 0, 0))
        found = (record for number in range(PARTITIONS) for record in log.read(TOPIC, number, 0))
        return reading_rate(found, self._records)

    def plain_read(self) -> float:
        ends = self.filled().ends(TOPIC)
        client = plain_kafka.consumer(self._bootstrap)
        try:
            next(plain_kafka.read(client, TOPIC, ends))
            return reading_rate(plain_kafka.read(client, TOPIC, ends), self._records)
        finally:
            client.close()

    def filled(self) -> KafkaLog:
        """The log with all records in a topic."""
        if not self._is_filled:
            self.log.create_topic(TOPIC, PARTITIONS)
            for batch in batches(self._records):
                self.log.append(TOPIC, batch)
            self._is_filled = True
        return self.log

    def _rate(self, appender: Callable[[str], Callable[[Batch], object]]) -> float:
        warm, measured = (f"bench-{uuid4().hex[:8]}" for _ in range(2))
        for topic in (warm, measured):
            self.log.create_topic(topic, PARTITIONS)
        try:
            appender(warm)(next(batches(1)))
            return rate(appender(measured), self._records)
        finally:
            for topic in (warm, measured):
                self.log.delete_topic(topic)
