"""The `flow_due` table: when something in the state of a stage is due, for each shard that has told.

Workers tell it with the reports of a batch, and it is written in the transaction that commits the batch: whoever starts
the stage after a crash finds what belongs to the state that Spark will have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from towpath.db import Database, Queries, Transaction
from towpath.flow.stage_store import Stage
from towpath.flow.stored_json import to_stored


class Shard(NamedTuple):
    """One shard of the state of one operator of a stage."""

    operator: int
    number: int

    @classmethod
    def of(cls, text: str) -> Shard:
        """`operator/number`, as reports have it."""
        operator, _, number = text.partition("/")
        return cls(int(operator), int(number))


class Dues:
    """What is due in one stage: as the table has it, and in memory. Safe to use from several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.flow", "dues", database.dialect)
        self._lock = Lock()
        self._generation = 0
        self._changes = 0  # what is read from the table while one comes may be older than it
        self._known: dict[Shard, list[int]] = {}

    def read(self, stage: Stage) -> None:
        """Look into the table, unless it is known what it has."""
        while self._generation != stage.generation:
            self._read(stage)

    def _read(self, stage: Stage) -> None:
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

    def save(self, tx: Transaction, stage: Stage, told: Mapping[str, Sequence[int]]) -> None:
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
