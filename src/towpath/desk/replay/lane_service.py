"""What people do about lanes: look, pause, resume, hurry and empty. Each change is a transaction with its event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from towpath.core.events import Event, EventKind
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.desk.replay.lane import Lane, LaneLoad, LaneStore
from towpath.desk.replay.outbox import OutboxWriter

T = TypeVar("T")

EMPTIED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class LaneView:
    """A lane and what waits in it."""

    lane: Lane
    crowd: LaneLoad


class LaneService:
    """Shows lanes, and pauses, resumes, hurries and empties them."""

    def __init__(self, database: Database, event_log: EventLog) -> None:
        self._database = database
        self._event_log = event_log
        self._lanes = LaneStore(database)
        self._sends = OutboxWriter(database)

    def list(self, flow: str | None = None) -> list[LaneView]:
        """The lanes of one flow, or of all."""
        with self._database.read() as tx:
            lanes = self._lanes.of_flow(tx, flow)
            crowds = {each: self._lanes.crowds(tx, each) for each in {lane.flow for lane in lanes}}
        return [LaneView(lane, crowds[lane.flow].get(lane.partition, LaneLoad())) for lane in lanes]

    def show(self, flow: str, partition: int) -> LaneView:
        """One of them; raises `UnknownLane`."""
        with self._database.read() as tx:
            lane = self._lanes.read(tx, flow, partition)
            return LaneView(lane, self._lanes.crowds(tx, flow).get(partition, LaneLoad()))

    def pause(self, flow: str, partition: int, *, who: str, why: str) -> bool:
        """Release nothing of it until it is resumed; false when it is paused already."""
        return self._change(flow, partition, "pause", who, why, partial(self._lanes.pause, is_paused=True))

    def resume(self, flow: str, partition: int, *, who: str, why: str) -> bool:
        """Go on; false when it is not paused."""
        return self._change(flow, partition, "resume", who, why, partial(self._lanes.pause, is_paused=False))

    def hurry(self, flow: str, partition: int, *, who: str, why: str) -> int:
        """All that waits in it counts as due; returns how much that is."""
        return self._change(flow, partition, "hurry", who, why, self._hurry)

    def empty(self, flow: str, partition: int, *, who: str, why: str) -> int:
        """All that waits in it goes to the desk, in front of persons; returns how much that was."""
        check_who(who)
        check_why(why)
        emptied = 0
        while moved := commit_by_hand(self._database, lambda tx: self._empty(tx, flow, partition, who, why)):
            emptied += moved
        return emptied

    def _hurry(self, tx: Transaction, lane: Lane) -> int:
        crowd = self._lanes.crowds(tx, lane.flow).get(lane.partition, LaneLoad())
        if crowd.last_due is not None:
            self._lanes.hurry(tx, lane, crowd.last_due + 1)
        return crowd.cases

    def _empty(self, tx: Transaction, flow: str, partition: int, who: str, why: str) -> int:
        lane = self._lanes.read(tx, flow, partition)
        waiting = self._lanes.waiting_in(tx, lane, EMPTIED_AT_ONCE)
        opened = self._sends.recall(tx, waiting, who=who, why=why)
        if opened:
            self._record(tx, lane, "empty", who, why, {"cases": len(opened)})
        return len(opened)

    def _change(
        self, flow: str, partition: int, what: str, who: str, why: str, act: Callable[[Transaction, Lane], T]
    ) -> T:
        check_who(who)
        check_why(why)

        def change(tx: Transaction) -> T:
            lane = self._lanes.read(tx, flow, partition)
            done = act(tx, lane)
            if done:
                self._record(tx, lane, what, who, why, {})
            return done

        return commit_by_hand(self._database, change)

    def _record(self, tx: Transaction, lane: Lane, what: str, who: str, why: str, data: dict[str, Any]) -> None:
        event = Event(EventKind.LANE_CHANGED_BY_HAND, lane.name, who, why, {"what": what, **data})
        self._event_log.record(tx, event)
