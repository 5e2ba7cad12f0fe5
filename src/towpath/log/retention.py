"""Deleting old records: first they are gone for every reader, then, portion by portion, they free their room."""

from __future__ import annotations

from collections.abc import Callable

from towpath.db import Database, Transaction
from towpath.errors import BadValue
from towpath.events import Event, EventKind
from towpath.log.record_store import RecordStore
from towpath.log.topic_store import OFFSET_BITS, TopicStore
from towpath.settings import LogSettings

NEVER = "never"
LONGEST_S = 1000 * 366 * 86400.0


def chosen_retention(wanted: float | str | None, settings: LogSettings) -> float | None:
    """The age at which records of a new topic are deleted; None: never."""
    if wanted is None:
        return settings.retention_s
    if wanted == NEVER:
        return None
    if isinstance(wanted, str) or not 0 < wanted <= LONGEST_S:
        raise BadValue(f"a retention is a number of seconds above 0, at most 1000 years, or {NEVER!r}, not {wanted!r}")
    return float(wanted)


class Retention:
    """Of the SQLite log. Kafka does this by itself."""

    def __init__(self, database: Database, topics: TopicStore, records: RecordStore) -> None:
        self._database = database
        self._topics = topics
        self._records = records

    def expire(self, record: Callable[[Transaction, Event], None]) -> int:
        """Move the starts over records past their time, but never past what a group has still to read."""
        now_ms = self._database.now() // 1000
        with self._database.read() as tx:
            partitions = self._topics.expiring(tx)
        moved = 0
        for partition_id, topic, number, start, end, retention_ms, lowest in partitions:
            base = partition_id << OFFSET_BITS
            stop = end if lowest is None else min(end, lowest)
            with self._database.read() as tx:
                place = self._records.first_since(tx, base + start, base + stop, now_ms - retention_ms)
            new_start = stop if place is None else place - base
            if new_start > start:
                data = {"from": start, "to": new_start}
                with self._database.transaction() as tx:
                    if self._topics.expire_before(tx, partition_id, new_start):
                        record(tx, Event(EventKind.RECORDS_EXPIRED, f"{topic}/{number}", data=data))
                        moved += 1
        return moved

    def free_room(self) -> int:
        """Delete the rows that nobody can see any more; returns how many. Also those that a crash left behind."""
        with self._database.read() as tx:
            deleted = self._topics.of_deleted(tx)
            starts = self._topics.starts(tx)
        gone = {partition_id for partition_id, _ in deleted}
        freed = 0
        for partition_id, start in starts:
            base = partition_id << OFFSET_BITS
            stop = (partition_id + 1) << OFFSET_BITS if partition_id in gone else base + start
            freed += self._free(base, stop)
        for partition_id, topic_id in deleted:
            with self._database.transaction() as tx:
                self._topics.remove_partition(tx, partition_id, topic_id)
        return freed

    def _free(self, place: int, stop: int) -> int:
        freed = 0
        while True:
            with self._database.read() as tx:
                end = self._records.end_of_portion(tx, place, stop)
            if end is None:
                return freed
            with self._database.single() as tx:
                freed += self._records.delete(tx, place, end)
            place = end
