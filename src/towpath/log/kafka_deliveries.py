"""Handing records to Kafka's client, and what became of each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count, repeat

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from towpath.log.record import NewRecord, Position

Report = Callable[[KafkaError | None, Message | None], None]

BY_KEY = -1
NOW = 0
FULL_PAUSE_S = 0.05
SERVED_EVERY = 1_000
LEARN_TIMEOUT_S = 10.0
# What the client says of its own accord; a topic or partition may have come since it last looked.
UNLEARNED = frozenset({KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC})


def hand_over(
    producer: Producer,
    topic: str,
    records: Sequence[NewRecord],
    partitions: int,
    sequence: int,
    reports: Iterable[Report],
) -> int:
    """Give the client all of them; returns the sequence number after the last record without a key and partition."""
    produce = producer.produce
    for at, (report, (value, key, headers, timestamp_ms, number)) in enumerate(zip(reports, records, strict=False)):
        if number is None:
            number = BY_KEY
            if key is None:
                number = sequence % partitions
                sequence += 1
        while True:
            try:
                if headers or timestamp_ms:
                    produce(topic, value, key, number, report, None, timestamp_ms or NOW, list(headers) or None)
                else:
                    produce(topic, value, key, number, report)
                break
            except BufferError:
                producer.poll(FULL_PAUSE_S)
            except KafkaException as error:
                if error.args[0].code() not in UNLEARNED or not _learn(producer, topic, number):
                    report(error.args[0], None)
                    break
        if at % SERVED_EVERY == 0:
            producer.poll(0)
    return sequence


def _learn(producer: Producer, topic: str, number: int) -> bool:
    """Tell the client of what was made since it last looked; whether this partition is among it."""
    try:
        found = producer.list_topics(topic, LEARN_TIMEOUT_S).topics[topic].partitions
    except KafkaException:
        return False
    return bool(found) if number == BY_KEY else number in found


class Deliveries:
    """A batch on its way of which each record's place is wanted."""

    def __init__(self, producer: Producer, total: int) -> None:
        self._producer = producer
        self.positions: list[Position | None] = [None] * total
        self.errors: dict[int, KafkaError] = {}

    def hand_over(self, topic: str, records: Sequence[NewRecord], partitions: int, sequence: int) -> int:
        reports = map(partial, repeat(self._report), count())
        return hand_over(self._producer, topic, records, partitions, sequence, reports)

    def wait(self, timeout_s: float) -> None:
        """Until the fate of each record is known; a client whose broker is away says so by itself."""
        self._producer.flush(timeout_s)

    def _report(self, at: int, error: KafkaError | None, message: Message | None) -> None:
        if error is None and message is not None:
            self.positions[at] = (message.partition(), message.offset())
        elif error is not None:
            self.errors[at] = error
