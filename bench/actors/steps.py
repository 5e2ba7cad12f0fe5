"""Transitions a second: one process, one new database, some runs."""

from __future__ import annotations

from dataclasses import dataclass

from bench.actors import programs
from bench.actors.contenders.contract import Order, Shape
from bench.actors.lines import AT_ONCE, Measure, Store
from bench.actors.stores import Stores
from bench.flow.process import crew


@dataclass(frozen=True)
class Task:
    """Who does what, where."""

    is_ours: bool
    store: Store
    shape: Shape
    runs: int  # about two seconds of work
    synchronous: str = "full"
    journal: str = ""

    def scaled(self, scale: float) -> int:
        return max(AT_ONCE if self.shape is not Shape.ONE_BY_ONE else 2, int(self.runs * scale))


_SQLITE, _POSTGRES = Store.SQLITE, Store.POSTGRES
_MANY, _ONE, _STARTS = Shape.AT_ONCE, Shape.ONE_BY_ONE, Shape.WITH_STARTS

TASKS: dict[Measure, Task] = {
    Measure.TOWPATH_FULL: Task(True, _SQLITE, _MANY, 2_000),
    Measure.TOWPATH_FULL_ONE: Task(True, _SQLITE, _ONE, 150),
    Measure.TOWPATH_FULL_STARTS: Task(True, _SQLITE, _STARTS, 1_500),
    Measure.TOWPATH_NORMAL: Task(True, _SQLITE, _MANY, 2_500, "normal"),
    Measure.TOWPATH_NORMAL_ONE: Task(True, _SQLITE, _ONE, 300, "normal"),
    Measure.TOWPATH_POSTGRES: Task(True, _POSTGRES, _MANY, 1_000),
    Measure.TOWPATH_POSTGRES_ONE: Task(True, _POSTGRES, _ONE, 60),
    Measure.TOWPATH_POSTGRES_STARTS: Task(True, _POSTGRES, _STARTS, 400),
    Measure.DBOS_FULL: Task(False, _SQLITE, _MANY, 64),
    Measure.DBOS_FULL_ONE: Task(False, _SQLITE, _ONE, 100),
    Measure.DBOS_WAL: Task(False, _SQLITE, _MANY, 96, "full", "wal"),
    Measure.DBOS_WAL_ONE: Task(False, _SQLITE, _ONE, 150, "full", "wal"),
    Measure.DBOS_NORMAL: Task(False, _SQLITE, _MANY, 160, "normal", "wal"),
    Measure.DBOS_NORMAL_ONE: Task(False, _SQLITE, _ONE, 250, "normal", "wal"),
    Measure.DBOS_POSTGRES: Task(False, _POSTGRES, _MANY, 128),
    Measure.DBOS_POSTGRES_ONE: Task(False, _POSTGRES, _ONE, 60),
}


def rate(task: Task, stores: Stores, scale: float) -> float:
    program = programs.ours("towpath_steps") if task.is_ours else programs.peer("dbos_steps")
    with stores.fresh(task.store) as url:
        order = Order(url, task.shape, task.scaled(scale), AT_ONCE, task.synchronous, task.journal)
        with crew(program, order.as_told()) as contender:
            contender.wait_until_ready()
            contender.begin()
            [figure] = contender.figures()
    return figure
