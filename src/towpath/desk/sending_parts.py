"""What relay and replayer are made of, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.db.processes import Process, ProcessStore
from towpath.desk.case_store import CaseStore
from towpath.desk.lane_store import LaneStore
from towpath.desk.outbox_store import OutboxStore
from towpath.errors import TopicExists, UnknownTopic
from towpath.events import Events
from towpath.flow.topics import FOREVER
from towpath.log.log import Log
from towpath.log.open import KAFKA_PREFIX
from towpath.settings import Settings

SMALL_PORTION = 1_000  # records of one transaction: one of SQLite's stays under 250 ms
LARGE_PORTION = 10_000
MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class SendingParts:
    """Made once for a process."""

    settings: Settings
    database: Database
    events: Events
    event_log: EventLog
    log: Log
    process: Callable[[], Process]
    blob: Callable[[str], bytes]  # the contents of a body that is kept in a file
    cases: CaseStore
    lanes: LaneStore
    outbox: OutboxStore
    processes: ProcessStore

    @classmethod
    def of(
        cls,
        settings: Settings,
        database: Database,
        events: Events,
        event_log: EventLog,
        log: Log,
        process: Callable[[], Process],
        blob: Callable[[str], bytes],
    ) -> Self:
        stores = CaseStore(database), LaneStore(database), OutboxStore(database), ProcessStore(database)
        return cls(settings, database, events, event_log, log, process, blob, *stores)

    @property
    def portion(self) -> int:
        """How many records go into one transaction."""
        return SMALL_PORTION if self._is_small else LARGE_PORTION

    @property
    def portion_bytes(self) -> int:
        """How many bytes."""
        return MOST_BYTES if self._is_small else 4 * MOST_BYTES

    @property
    def _is_small(self) -> bool:
        return self.database.dialect == "sqlite" or not self.settings.log.url.startswith(KAFKA_PREFIX)

    def dead_among(self, owners: Callable[[Transaction], set[str]]) -> set[str]:
        """Which owners are not alive."""
        # Owners first, living second: who claims has a row already, so nobody alive can be missed.
        with self.database.glance() as tx:
            found = owners(tx) - {self.process().id}
        if not found:
            return set()
        with self.database.beats.glance() as tx:
            return found - self.processes.living(tx, found)

    def has_topic(self, name: str) -> bool:
        try:
            self.log.topic(name)
        except UnknownTopic:
            return False
        return True

    def ensure_lanes(self, topic: str, partitions: int) -> None:
        """A lane topic with so many partitions at least, kept for ever."""
        try:
            found = self.log.topic(topic)
        except UnknownTopic:
            try:
                self.log.create_topic(topic, partitions, retention_s=FOREVER)
                return
            except TopicExists:  # another process was faster
                found = self.log.topic(topic)
        if found.partitions < partitions:
            self.log.add_partitions(topic, partitions)
