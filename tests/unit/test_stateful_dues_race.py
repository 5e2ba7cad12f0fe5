"""What is due is read by the thread of the stage while batches are committed by another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

from towpath.db import Transaction
from towpath.errors import DatabaseUnavailable
from towpath.flow.run.context import StageContext
from towpath.flow.run.timers import NEVER, Shard, StageTimer, TimerStore
from towpath.flow.stage.store import StageRow

STAGE = cast(StageRow, SimpleNamespace(flow="f", name="s", generation=1))


class Table:
    """A database with one table, and a moment between what a transaction has read and its end."""

    dialect = "sqlite"

    def __init__(self) -> None:
        self.rows: dict[Shard, str] = {}
        self.looks = 0
        self.meanwhile: Callable[[], None] = lambda: None

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        self.looks += 1
        after: list[Callable[[], None]] = []
        found = [(*shard, due) for shard, due in self.rows.items()]
        yield SimpleNamespace(run=lambda *sql: None, rows=lambda *sql: found, after_commit=after.append)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        for each in after:
            each()


def test_what_is_committed_while_the_table_is_read_is_not_forgotten() -> None:
    table = Table()
    dues = TimerStore(cast(Any, table))
    table.rows = {Shard(0, 9): "[7]"}

    def commit() -> None:
        table.rows[Shard(0, 3)] = "[5]"
        with table.transaction() as tx:
            dues.save(cast(Transaction, tx), STAGE, {"0/3": [5]})

    table.meanwhile = commit
    dues.read(STAGE)
    assert dues.at(lambda operator: 10) == {Shard(0, 3): 1, Shard(0, 9): 1}
    looks = table.looks
    dues.read(STAGE)
    assert table.looks == looks, "it is known now"


def test_to_forget_while_the_table_is_read_is_to_read_it_again() -> None:
    table = Table()
    dues = TimerStore(cast(Any, table))

    def lost() -> None:
        table.rows[Shard(0, 3)] = "[5]"
        dues.forget()

    table.meanwhile = lost
    dues.read(STAGE)
    assert dues.at(lambda operator: 10) == {Shard(0, 3): 1}


class Ledger:
    """The watermarks of a join, and a moment while they are asked for."""

    def __init__(self) -> None:
        self.watermarks: Mapping[str, int] | None = {}
        self.meanwhile: Callable[[], None] = lambda: None
        dues = SimpleNamespace(read=lambda row: None, at=lambda clock: {Shard(0, 1): 1} if clock(0) >= 100 else {})
        stage = SimpleNamespace(is_stateful=True)
        parts: Any = SimpleNamespace(watermarks=self._asked, dues=dues, stage=stage, row=STAGE)
        self.ticker = StageTimer(cast(StageContext, parts))
        self.ticker.__dict__["_column_joins"] = {0: "both"}

    def _asked(self) -> Mapping[str, int]:
        if self.watermarks is None:
            raise DatabaseUnavailable("away")
        found = self.watermarks
        self.meanwhile()
        return found


def test_a_watermark_is_asked_for_again_when_a_batch_was_committed_meanwhile() -> None:
    ledger = Ledger()
    assert ledger.ticker._time(0) == NEVER

    def commit() -> None:
        ledger.watermarks, ledger.meanwhile = {"both": 200}, lambda: None
        ledger.ticker.passed({})

    ledger.ticker.passed({})
    ledger.watermarks, ledger.meanwhile = {"both": 100}, commit
    assert ledger.ticker._time(0) == 100
    assert ledger.ticker._time(0) == 200
    ledger.watermarks = {"both": 300}
    assert ledger.ticker._time(0) == 200, "it is known now"
    ledger.ticker.passed({})
    assert ledger.ticker._time(0) == 300


def test_nobody_ends_for_want_of_work_while_the_database_is_away() -> None:
    ledger = Ledger()
    found: list[bool] = []
    watermarks: Mapping[str, int] | None
    for watermarks in ({}, None, {"both": 99}, {"both": 100}):
        ledger.ticker.passed({})
        ledger.watermarks = watermarks
        found.append(ledger.ticker.has_due)
    assert found == [False, True, False, True]
