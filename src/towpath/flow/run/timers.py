"""Lets time pass for a stage with state: when something in it is due, and the ticks that tell it so.

The `flow_due` table says when something in the state of a stage is due, for each shard that has told. Workers tell it
with the reports of a batch, and it is written in the transaction that commits the batch: whoever starts the stage after
a crash finds what belongs to the state that Spark will have. `StageTimer` appends a tick (`stateful/keeper.py`) for
what is due.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from towpath.db import Database, Queries, Transaction
from towpath.db.database import to_stored
from towpath.errors import DatabaseUnavailable, LogError
from towpath.flow.delivery.positions import Spot
from towpath.flow.stage.store import StageRow
from towpath.flow.stateful.column_join import ColumnJoinKeeper
from towpath.flow.stateful.keeper import tick_record
from towpath.flow.stateful.operators import keepers_of
from towpath.log.record import Position

if TYPE_CHECKING:
    from towpath.flow.run.context import StageContext

logger = logging.getLogger(__name__)

NEVER = -(1 << 62)  # before any time: those of events may be before 1970


class StageTimer:
    """Used by the stage's own thread, while its query runs.

    A shard gets no further ticks until those that it got have been read. Who is killed in between forgets that, and
    sends them again: what finds nothing due is filtered.
    """

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._generation = 0
        self._sent: dict[Shard, list[Position]] = {}
        self._stops: Mapping[Spot, int] = {}  # up to where batches have read
        self._commits = 0  # that were told
        self._watermarks: tuple[int, Mapping[str, int]] | None = None  # by source, and after which commit it was asked

    def look(self) -> None:
        """Send what is due. What cannot be sent now is sent at the next look."""
        context = self._context
        if not context.stage.is_stateful:
            return
        if self._generation != context.row.generation:
            self._generation, self._sent = context.row.generation, {}
        try:
            wanted = {shard: count for shard, count in self._due().items() if not self._is_underway(shard)}
            if wanted:
                self._send(wanted)
        except (LogError, DatabaseUnavailable) as error:
            logger.warning("%s: what is due has to wait: %s", context.name, error)

    def _send(self, wanted: Mapping[Shard, int]) -> None:
        context = self._context
        order = [shard for shard, count in sorted(wanted.items()) for _ in range(count)]
        ticks = [tick_record(context.stage.name, *shard) for shard in order]
        places = context.log.append(context.topics.reentry, ticks)
        self._sent |= {shard: [] for shard in wanted}
        for shard, place in zip(order, places, strict=True):
            self._sent[shard].append(place)

    def _is_underway(self, shard: Shard) -> bool:
        """Whether the shard has got ticks that no committed batch has read."""
        id, stops = self._context.topic_ids[self._context.topics.reentry], self._stops
        return any(offset >= stops.get((id, partition), 0) for partition, offset in self._sent.get(shard, ()))

    def _due(self) -> dict[Shard, int]:
        self._context.dues.read(self._context.row)
        return self._context.dues.at(self._time)

    def _time(self, operator: int) -> int:
        """The time of day, as Spark gives it to batches; for a join on columns how far its watermark has come."""
        source = self._column_joins.get(operator)
        if source is None:
            return round(time.time() * 1000)
        return self._asked_watermarks().get(source, NEVER)

    def _asked_watermarks(self) -> Mapping[str, int]:
        """As the ledger has them. A batch may be committed while it is asked: then it is asked again the next time."""
        commits, known = self._commits, self._watermarks
        if known is None or known[0] != commits:
            known = self._watermarks = commits, self._context.watermarks()
        return known[1]

    @cached_property
    def _column_joins(self) -> dict[int, str]:
        """Their sources, by the number of the operator."""
        context = self._context
        keepers = keepers_of(context.stage, context.topics.reentry, context.max_record_bytes)
        return {at: keeper.source.name for at, keeper in enumerate(keepers) if isinstance(keeper, ColumnJoinKeeper)}

    @property
    def has_due(self) -> bool:
        """Whether there is something to be done now without any input; also when nobody can tell."""
        try:
            return self._context.stage.is_stateful and bool(self._due())
        except (LogError, DatabaseUnavailable):
            return True

    def passed(self, stops: Mapping[Spot, int]) -> None:
        """A batch was committed that has read so far."""
        self._stops = stops
        self._commits += 1

    def forget(self) -> None:
        """Nobody here has seen how the last batch was committed: ask the table."""
        self._generation = 0
        self._commits += 1
        self._context.dues.forget()


class TimerStore:
    """What is due in one stage: as the table has it, and in memory. Safe to use from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.flow.run", "timers", database.dialect)
        self._lock = Lock()
        self._generation = 0
        self._changes = 0  # what is read from the table while one comes may be older than it
        self._known: dict[Shard, list[int]] = {}

    def read(self, stage: StageRow) -> None:
        """Look into the table, unless it is known what it has."""
        while self._generation != stage.generation:
            self._read(stage)

    def _read(self, stage: StageRow) -> None:
        """Nothing is taken of it if there is news meanwhile: a lock would let the commit of a batch wait for us."""
        with self._lock:
            changes = self._changes
        which = {"flow": stage.flow, "stage": stage.name, "generation": stage.generation}
        with self._database.transaction() as tx:
            tx.run(self._sql["forget_dues"], which)
            rows = tx.rows(self._sql["read_dues"], which)
        known = {Shard(operator, number): json.loads(due) for operator, number, due in rows}
        with self._lock:
            if changes == self._changes:
                self._known, self._generation = known, stage.generation

    def forget(self) -> None:
        """Look into the table at the next `read`."""
        with self._lock:
            self._generation = 0
            self._changes += 1

    def save(self, tx: Transaction, stage: StageRow, told: Mapping[str, Sequence[int]]) -> None:
        """What the workers of a batch have told, in the transaction of its commit."""
        found = {Shard.of(name): list(due) for name, due in told.items()}
        with self._lock:
            is_known = self._generation == stage.generation
            news = {shard: due for shard, due in found.items() if not is_known or self._known.get(shard, []) != due}
        if news:
            which = {"flow": stage.flow, "stage": stage.name, "generation": stage.generation}
            rows = [[*shard, due] for shard, due in news.items()]
            tx.run(self._sql["save_dues"], {**which, "rows": to_stored(rows)})
            tx.after_commit(lambda: self._keep(news))

    def _keep(self, news: Mapping[Shard, list[int]]) -> None:
        with self._lock:
            self._known.update(news)
            self._changes += 1

    def at(self, clock: Callable[[int], int]) -> dict[Shard, int]:
        """How many things are due, for each shard that has some. `clock` has the time of an operator, in ms."""
        with self._lock:
            known = {shard: due for shard, due in self._known.items() if due}
        times = {operator: clock(operator) for operator in {shard.operator for shard in known}}
        counts = {shard: sum(time <= times[shard.operator] for time in due) for shard, due in known.items()}
        return {shard: count for shard, count in counts.items() if count}


class Shard(NamedTuple):
    """One shard of the state of one operator of a stage."""

    operator: int
    number: int

    @classmethod
    def of(cls, text: str) -> Shard:
        """`operator/number`, as reports have it."""
        operator, _, number = text.partition("/")
        return cls(int(operator), int(number))
