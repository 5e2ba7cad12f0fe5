"""What has become of a stage, and what a reset would do to it: for charts, lists and questions before a change.

- `BatchHistoryStore`: what the last batches of a stage came to, by time. The ledger is read from its end, so many
  batches at most: what is older than these is not told, and `since` says so.
- `LagHistory`, `Speeds`: lag and rate over the last hour, and how fast a stage moves in each partition. Pure.
- `batch_page`: the ledger of a flow in pages, over all its stages, the batch that began last first.
- `reset_ahead`: what a reset would pass over, and what it would read again. Offsets have holes, so the figures say how
  many records it is at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from towpath.core.clock import MICROS, to_datetime, to_micros
from towpath.db import Database, Queries, Transaction
from towpath.flow.delivery.ledger import Batch, Ledger
from towpath.flow.delivery.positions import Spot
from towpath.flow.stage.status import stage_statuses
from towpath.flow.stage.store import StageRow, read_stops
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log

MOST_BATCHES = 5_000
EVERY_S = 30.0  # from one point to the next
MOST_POINTS = 120
K = TypeVar("K")
Mark = tuple[int, int]  # generation and batch id: of a stage, those before it come next
NEWEST: Mark = (10**9 - 1, 10**18 - 1)  # before this one lie all of them
EARLIEST, LATEST = "earliest", "latest"
MEANS = {
    EARLIEST: "It begins anew at the first record that each topic still has, with a new checkpoint. Records are "
    "loaded again: an index or a table knows them by their ids and takes them once; topics and files get them twice.",
    LATEST: "It goes on with records that come from now on, with a new checkpoint. What was not read yet is never "
    "loaded.",
}


class BatchHistoryStore:
    """Reads inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.flow.stage", "history", database.dialect)

    def read(self, tx: Transaction, flow: str, stage: str, since: datetime, width: timedelta) -> BatchHistory:
        """Since that time, in stretches of a width."""
        width_us = int(width.total_seconds() * MICROS)
        which = {"flow": flow, "stage": stage, "since_us": to_micros(since), "width_us": width_us}
        found: dict[int, HistoryInterval] = {}
        oldest, batches = to_micros(since), 0
        for number, count, read, first in tx.rows(self._sql["counted"], {**which, "limit": MOST_BATCHES}):
            found[number] = HistoryInterval(to_datetime(number * width_us), count, read)
            oldest = first if not batches else oldest
            batches += count
        for number, code, count in tx.rows(self._sql["failed"], {**which, "limit": MOST_BATCHES}):
            found[number].failed = {**found[number].failed, str(code): count}
        is_cut = batches >= MOST_BATCHES
        return BatchHistory(width, to_datetime(oldest) if is_cut else since, list(found.values()))


@dataclass(frozen=True, slots=True)
class BatchHistory:
    """Stretches in which something was committed, the oldest first."""

    width: timedelta
    since: datetime  # before that nothing is known, or was asked for
    stretches: list[HistoryInterval]

    @property
    def codes(self) -> list[str]:
        """Those that were met, by number."""
        return sorted({code for each in self.stretches for code in each.failed}, key=int)


@dataclass(slots=True)
class HistoryInterval:
    """What was committed from a time on, for as long as a stretch lasts."""

    at: datetime
    batches: int = 0
    read: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)  # by code


class LagHistory:
    """Points of the last hour. It goes on over restarts, since a stage's row has it."""

    def __init__(self, stored: Iterable[Sequence[Any]] = ()) -> None:
        self._points = deque((LagPoint(*each) for each in stored), MOST_POINTS)
        self._highest = 0
        self._kept_at: float | None = None

    def see(self, lag: int, rate: float, now: float, clock: Callable[[], float]) -> None:
        """`now` is the time by which points are spaced, `clock` the one that they are given."""
        self._highest = max(self._highest, lag)
        if self._kept_at is None or now - self._kept_at >= EVERY_S:
            self._points.append(LagPoint(int(clock()), self._highest, rate))
            self._highest, self._kept_at = lag, now

    def stored(self) -> list[list[float]]:
        """For the row."""
        return [list(point) for point in self._points]


class LagPoint(NamedTuple):
    """The highest lag since the point before, and the rate at its end. `at` is seconds since 1970."""

    at: int
    lag: int
    rate: float


def lag_points(sample: Mapping[str, Any]) -> list[LagPoint]:
    """What the row of a stage tells of the last hour, the oldest first."""
    return [LagPoint(*each) for each in sample.get("history", ())]


class Speeds(Generic[K]):
    """Offsets a second, by what moves, over a window."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, dict[K, int]]] = deque()

    def see(self, positions: Mapping[K, int], now: float) -> None:
        self._seen.append((now, dict(positions)))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self._window_s:
            self._seen.popleft()

    def of(self, key: K) -> float:
        """0.0 until it was seen twice; a position that was moved back has no speed."""
        if len(self._seen) < 2:
            return 0.0
        (begin, first), (end, last) = self._seen[0], self._seen[-1]
        if key not in first or key not in last or end <= begin:
            return 0.0
        return round(max(0, last[key] - first[key]) / (end - begin), 1)


def batch_page(
    database: Database, flow: str, *, stage: str | None = None, limit: int = 100, marks: Sequence[Mark] | None = None
) -> BatchPage | None:
    """Of all stages, or of one. Raises `UnknownFlow`; None when the marks are not those of its stages."""
    names = [look.stage.name for look in stage_statuses(database, flow, stage)]
    if marks is not None and len(marks) != len(names):
        return None
    begin = dict(zip(names, marks or [NEWEST] * len(names), strict=True))
    ledger = Ledger(database)
    with database.read() as tx:
        found = [each for name in names for each in ledger.batches(tx, flow, name, limit + 1, begin[name])]
    # Within a stage, batches begin in the order of their numbers.
    found.sort(key=lambda each: (each.started_at, each.stage, each.generation, each.batch_id), reverse=True)
    part = found[:limit]
    for each in part:
        begin[each.stage] = each.generation, each.batch_id
    return BatchPage(part, tuple(begin.values()) if len(found) > limit else None)


class BatchPage(NamedTuple):
    """Some batches, and where the next page begins in each stage, by name; None: there is none."""

    batches: list[Batch]
    next: tuple[Mark, ...] | None


def reset_ahead(database: Database, log: Log, flow: str, to: str, stage: str | None = None) -> list[ResetPreview]:
    """For each partition of each stage, or of one stage; raises `UnknownFlow`, and `UnknownTopic` for a lost input."""
    return [
        each
        for look in stage_statuses(database, flow, stage)
        for each in _partitions(log, look.stage, read_stops(database, look.stage), to)
    ]


@dataclass(frozen=True, slots=True)
class ResetPreview:
    """Where a stage is in a partition, and where it would go on."""

    stage: str
    topic: str
    partition: int
    position: int | None  # None: it has read nothing of it
    start: int
    end: int
    goes_on_at: int

    @property
    def passed_over(self) -> int:
        """Offsets that would never be read."""
        return 0 if self.position is None else max(0, self.goes_on_at - max(self.position, self.start))

    @property
    def read_again(self) -> int:
        return 0 if self.position is None else max(0, min(self.position, self.end) - self.goes_on_at)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "passed_over": self.passed_over, "read_again": self.read_again}


def _partitions(log: Log, stage: StageRow, stops: Mapping[Spot, int], to: str) -> Iterator[ResetPreview]:
    reentry = FlowTopics.of(stage.flow).reentry
    for name in sorted({*stage.topics, *stage.topology.get("topics", ())}):
        id, ends, starts = log.topic(name).id, log.ends(name), log.starts(name)
        for number, end in sorted(ends.items()):
            position, start = stops.get((id, number)), min(starts.get(number, end), end)
            goes_on = end if to == LATEST else start
            if name == reentry:  # what the desk sent back is neither lost nor read twice
                goes_on = min(position or 0, end)
            yield ResetPreview(stage.name, name, number, position, start, end, goes_on)
