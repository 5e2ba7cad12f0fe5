"""What is measured: one contender doing one operation in one way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bench.queue.contenders.contract import Operation
from bench.queue.field import Entry, Setting

# With FULL every commit waits for the disk: as many messages would take minutes.
FULL_ONE_BY_ONE = 800
REQUESTS_PER_ROUND = 12


class Discipline(StrEnum):
    """A row of the table, without store and processes."""

    SEND = "send one by one"
    SEND_BATCHES = "send in batches"
    DRAIN_ONE = "drain at batch 1"
    DRAIN_BEST = "drain at best batch"
    ROUND_TRIP = "round trip from idle"


@dataclass(frozen=True)
class Cell:
    """One measurement; two rows that need the same one share it."""

    entry: Entry
    setting: Setting
    operation: Operation
    batch: int
    processes: int
    count: int


@dataclass(frozen=True)
class Line:
    """A row: a discipline on a store with a number of processes."""

    discipline: Discipline
    setting: Setting
    processes: int

    def cell(self, entry: Entry, scale: float) -> Cell | None:
        """What `entry` does for this row, or None when it cannot; `scale` shortens the work."""
        if self.processes == 2 and not entry.two_workers and self.discipline != Discipline.ROUND_TRIP:
            return None
        operation, batch, count = self._work(entry)
        if count == 0:
            return None
        if batch == 1 and self.setting == Setting.SQLITE_FULL:
            count = min(count, FULL_ONE_BY_ONE)
        return Cell(entry, self.setting, operation, batch, self.processes, max(1, int(count * scale)))

    def _work(self, entry: Entry) -> tuple[Operation, int, int]:
        counts = entry.counts
        match self.discipline:
            case Discipline.SEND:
                return Operation.SEND, 1, counts.send
            case Discipline.SEND_BATCHES:
                return Operation.SEND_BATCHES, entry.send_batch, counts.send_batches
            case Discipline.DRAIN_ONE:
                return Operation.DRAIN, 1, counts.drain_one
            case Discipline.DRAIN_BEST:
                return Operation.DRAIN, entry.drain_batch, counts.drain_best
            case Discipline.ROUND_TRIP:
                return Operation.ASK, 1, REQUESTS_PER_ROUND


def lines(settings: list[Setting]) -> list[Line]:
    """All rows, store by store."""
    return [
        Line(discipline, setting, processes)
        for setting in settings
        for discipline, processes in (
            (Discipline.SEND, 1),
            (Discipline.SEND_BATCHES, 1),
            (Discipline.DRAIN_ONE, 1),
            (Discipline.DRAIN_ONE, 2),
            (Discipline.DRAIN_BEST, 1),
            (Discipline.DRAIN_BEST, 2),
            (Discipline.ROUND_TRIP, 2),
        )
    ]
