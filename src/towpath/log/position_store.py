"""The `log_position` and `log_producer` tables: how far groups have come, and who may write for a producer."""

from __future__ import annotations

from towpath.db import Database, Queries, Transaction
from towpath.errors import BadValue, ProducerFenced
from towpath.log.log import Positions
from towpath.log.topic_store import OFFSET_BITS, TopicStore


class PositionStore:
    """Positions by group, topic and partition."""

    def __init__(self, database: Database, topics: TopicStore) -> None:
        self._queries = Queries("towpath.log", "positions", database.dialect)
        self._topics = topics

    def read(self, tx: Transaction, group: str) -> dict[tuple[str, int], int]:
        rows = tx.rows(self._queries["read_positions"], {"group": group})
        return {(topic, number): position for topic, number, position in rows}

    def commit(self, tx: Transaction, group: str, positions: Positions) -> None:
        for (topic, number), position in positions.items():
            values = {"group": group, "topic": topic, "partition": number, "next": position}
            if tx.run(self._queries["set_position"], values) == 0:
                self._topics.partition(tx, topic, number)  # raises: says which of the two is not there

    def groups(self, tx: Transaction) -> list[str]:
        return [name for (name,) in tx.rows(self._queries["list_groups"], {})]

    def forget_group(self, tx: Transaction, group: str) -> None:
        tx.run(self._queries["forget_group"], {"group": group})

    def forget_topic(self, tx: Transaction, topic_id: str) -> None:
        tx.run(self._queries["forget_topic"], {"topic_id": topic_id})

    def open_producer(self, tx: Transaction, name: str) -> int:
        """Fence the older ones of this name; returns the epoch of the new one."""
        return int(tx.rows(self._queries["open_producer"], {"name": name})[0][0])

    def check_producer(self, tx: Transaction, name: str, epoch: int) -> None:
        if not tx.rows(self._queries["is_current_producer"], {"name": name, "epoch": epoch}):
            raise ProducerFenced(name)


def check_positions(positions: Positions) -> None:
    """Positions are offsets: whole numbers from 0."""
    for (topic, number), position in positions.items():
        if type(position) is not int or not 0 <= position < 1 << OFFSET_BITS:
            raise BadValue(f"a position is an offset from 0, not {position!r} (for {topic}/{number})")
