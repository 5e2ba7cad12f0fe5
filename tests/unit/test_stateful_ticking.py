"""When ticks are sent: for what is due, once, until a committed batch has read them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from towpath.errors import LogUnavailable
from towpath.flow.records.reentry import SHARD, STAGE, TICK, said_by
from towpath.flow.run.context import StageContext
from towpath.flow.run.timers import Shard, StageTimer
from towpath.log.record import NewRecord, Position


class Stage:
    """As much of a stage as a ticker asks for: what is due, and a topic that gives each record the next offset."""

    def __init__(self) -> None:
        self.due: dict[Shard, int] = {}
        self.sent: list[NewRecord] = []
        self.is_away = False
        stage = SimpleNamespace(name="orders", is_stateful=True)
        self.row = SimpleNamespace(generation=1)
        parts: Any = SimpleNamespace(
            stage=stage,
            name="f/orders",
            row=self.row,
            dues=SimpleNamespace(read=lambda row: None, at=self._at, forget=lambda: None),
            log=SimpleNamespace(append=self._append),
            topics=SimpleNamespace(reentry="f.reentry"),
            topic_ids={"f.reentry": "id"},
        )
        self.ticker = StageTimer(cast(StageContext, parts))

    def _at(self, clock: Callable[[int], int]) -> dict[Shard, int]:
        return self.due

    def _append(self, topic: str, records: list[NewRecord]) -> list[Position]:
        if self.is_away:
            raise LogUnavailable("away")
        first = len(self.sent)
        self.sent += records
        return [(0, first + at) for at in range(len(records))]

    def look(self) -> list[str]:
        """The shards that got a tick."""
        before = len(self.sent)
        self.ticker.look()
        return [said_by(record.headers)[SHARD] for record in self.sent[before:]]


def test_a_tick_for_each_thing_that_is_due_and_no_more_until_they_are_read() -> None:
    stage = Stage()
    assert (stage.look(), stage.ticker.has_due) == ([], False)
    stage.due = {Shard(0, 3): 2, Shard(1, 9): 1}
    assert stage.look() == ["3", "3", "9"]
    assert said_by(stage.sent[-1].headers) == {STAGE: "orders", TICK: "1", SHARD: "9"}
    assert stage.look() == []
    assert stage.ticker.has_due, "it is not done yet"
    stage.due[Shard(0, 4)] = 1
    assert stage.look() == ["4"], "others do not wait for it"
    stage.ticker.passed({("id", 0): 2})
    assert stage.look() == ["3", "3"], "they were read, and there is still something due"
    stage.due = {}
    assert (stage.look(), stage.ticker.has_due) == ([], False)


def test_what_cannot_be_sent_is_sent_later() -> None:
    stage = Stage()
    stage.due, stage.is_away = {Shard(0, 3): 1}, True
    assert stage.look() == []
    stage.is_away = False
    assert stage.look() == ["3"]


def test_after_a_reset_or_a_commit_that_nobody_saw_it_is_sent_again() -> None:
    stage = Stage()
    stage.due = {Shard(0, 3): 1}
    assert stage.look() == ["3"]
    stage.row.generation = 2
    assert stage.look() == ["3"]
    stage.ticker.forget()
    assert stage.look() == ["3"]
