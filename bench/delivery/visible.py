"""What readers see of a topic, while it is written."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

DELIVERY = "towpath.delivery"
AT_ONCE = 10_000
ASK_S = 5.0
QUIET_S = 1.0


class Visible:
    """Reads committed records only, from the beginning on, and knows each delivery again."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)]
        common = {"bootstrap.servers": bootstrap, "group.id": uuid4().hex, "enable.auto.commit": False}
        self._reader = Consumer({**common, "isolation.level": "read_committed"})
        self._reader.assign(self._places)
        self._watcher = Consumer({**common, "isolation.level": "read_uncommitted"})
        self.seen = 0
        self.deliveries: set[bytes] = set()

    def written(self) -> int:
        """How many records are there, also those of open transactions."""
        return sum(int(self._watcher.get_watermark_offsets(place, ASK_S)[1]) for place in self._places)

    def read(self, within_s: float) -> int:
        """Take what has come, or wait so long for something; returns how many there were."""
        came = self._reader.consume(AT_ONCE, within_s)
        for message in came:
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            self.deliveries.add(_header(message))
        self.seen += len(came)
        return len(came)

    def read_all(self) -> None:
        """Until nothing comes for a moment."""
        while self.read(QUIET_S):
            pass

    def close(self) -> None:
        self._reader.close()
        self._watcher.close()


def _header(message: Any) -> bytes:
    value: bytes = dict(message.headers())[DELIVERY]
    return value
