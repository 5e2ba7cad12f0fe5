"""The table `desk_position`: how far the desk is in topics of flows. Moves with what was made of the records."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from towpath.db import Database, Queries, Transaction
from towpath.errors import DatabaseUnavailable


class Reading(StrEnum):
    """What a topic is read for."""

    ERRORS = "errors"
    OUTCOMES = "outcomes"


class DeskPosition(NamedTuple):
    """Where the desk goes on in one partition, and what it has read there for the flow."""

    flow: str
    topic: str
    topic_id: str
    partition: int
    reading: Reading
    position: int
    records: int = 0
    repeats: int = 0


class PositionStore:
    """Reads and moves positions inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk", "positions", database.dialect)

    def of_flow(self, tx: Transaction, flow: str) -> list[DeskPosition]:
        rows = tx.rows(self._sql["positions"], {"flow": flow})
        return [
            DeskPosition(flow, topic, topic_id, partition, Reading(kind), *counts)
            for topic, topic_id, partition, kind, *counts in rows
        ]

    def begin(self, tx: Transaction, position: DeskPosition) -> None:
        """Nothing happens when another has begun with that partition."""
        flow, topic, topic_id, partition, reading, at, *_ = position
        said = {"flow": flow, "topic": topic, "topic_id": topic_id, "partition": partition, "kind": reading}
        tx.run(self._sql["begin_position"], {**said, "position": at})

    def move(self, tx: Transaction, position: DeskPosition, to: int, records: int = 0) -> None:
        """Go on from there; `DatabaseUnavailable` when another was faster: nothing of this transaction counts."""
        moved = {"from_position": position.position, "to": to, "records": records}
        if not tx.rows(self._sql["move_position"], {**_where(position), **moved}):
            raise DatabaseUnavailable(
                f"another intake has read {position.topic}/{position.partition} beyond {position.position}; "
                "nothing was written"
            )

    def count_repeats(self, tx: Transaction, position: DeskPosition, repeats: int) -> None:
        """Some of what was read had been told before."""
        if repeats:
            tx.run(self._sql["count_repeats"], {**_where(position), "repeats": repeats})


def _where(position: DeskPosition) -> dict[str, str | int]:
    return {"flow": position.flow, "topic_id": position.topic_id, "partition": position.partition}
