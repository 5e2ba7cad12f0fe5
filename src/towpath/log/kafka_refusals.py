"""Which records of a transaction a broker has refused.

A broker refuses batches. It tells which records of a batch were at fault, but where it was one only, the client
(librdkafka 2.16) reports that fault for each of its companions. Where several were, the others are told apart.
"""

from __future__ import annotations

from collections import defaultdict

from confluent_kafka import KafkaError

from towpath.log.kafka_client import REFUSED
from towpath.log.record import Headers

Refused = list[Headers]


class Refusals:
    """What is reported of records that were not taken, by the batch that they must have been in."""

    def __init__(self) -> None:
        self._refused: defaultdict[tuple[str, int], Refused] = defaultdict(list)
        self._companions: set[tuple[str, int]] = set()

    def add(self, code: int, topic: str, partition: int, headers: Headers) -> None:
        if code in REFUSED:
            self._refused[topic, partition].append(headers)
        elif code == KafkaError._INVALID_DIFFERENT_RECORD:
            self._companions.add((topic, partition))

    @property
    def topics(self) -> set[str]:
        return {topic for topic, _ in self._refused}

    def told(self) -> tuple[Refused, bool]:
        """Records that were refused, and whether each of them was for its own fault."""
        sure = [
            headers
            for place, found in self._refused.items()
            if len(found) == 1 or place in self._companions
            for headers in found
        ]
        return (sure, True) if sure else (next(iter(self._refused.values()), []), False)
