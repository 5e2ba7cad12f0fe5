"""The replayer: lanes release what is due, back to the stages (docs/explanation/desk.md, 8 to 11).

Several processes share the lanes. A lane belongs to the process in its row; that of a dead one is freed by any other.
Who has two lanes fewer than another asks for one, and gets it when its owner has finished a round.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from towpath import crash
from towpath.clock import MICROS
from towpath.crash import CrashPoint
from towpath.desk.lane import Lane, lane_topic
from towpath.desk.lane_run import PORTION, LaneRun
from towpath.desk.sending_parts import SendingParts
from towpath.errors import BadRecord, DatabaseError, LaneLost, LogError, ProducerFenced, UnknownTopic
from towpath.service import Result, Service

logger = logging.getLogger(__name__)

Key = tuple[str, int]  # flow and partition
GONE = (ProducerFenced, LaneLost)  # another process has the lane


class Replayer(Service):
    """Serves the lanes of all flows."""

    name = "replayer"

    def __init__(self, parts: SendingParts) -> None:
        super().__init__(parts.events)
        self._parts = parts
        self._runs: dict[Key, LaneRun] = {}
        self._most: dict[Key, int] = {}

    def run_once(self) -> Result:
        self._parts.process().check_leased()
        self._free_the_dead()
        lanes = self._shared(self._claimed(self._lanes()))
        done = self._release(lanes)
        return Result(done, 0 if done else self._rest_s())

    @property
    def lanes(self) -> list[Key]:
        """Those that this process has at work."""
        return sorted(self._runs)

    # Who has which

    def _lanes(self) -> list[Lane]:
        with self._parts.database.glance() as tx:
            return self._parts.lanes.of_flow(tx)

    def _free_the_dead(self) -> None:
        parts = self._parts
        dead = parts.dead_among(parts.lanes.owners)
        if dead:
            with parts.database.transaction() as tx:
                parts.lanes.free(tx, dead)

    def _claimed(self, lanes: Sequence[Lane]) -> list[Lane]:
        """The lanes as they are after this process has taken those that nobody has."""
        if all(lane.owner is not None for lane in lanes):
            return list(lanes)
        parts, me = self._parts, self._parts.process().id
        with parts.database.transaction() as tx:
            found = [parts.lanes.claim(tx, lane, me) or lane if lane.owner is None else lane for lane in lanes]
        crash.here(CrashPoint.LANE_CLAIMED)
        return found

    def _shared(self, lanes: Sequence[Lane]) -> list[Lane]:
        """This process's lanes, less one that another has asked for; and one of another's is asked for."""
        parts, me = self._parts, self._parts.process().id
        mine = [lane for lane in lanes if lane.owner == me]
        wanted = [lane for lane in mine if lane.wanted_by is not None]
        self._ask(lanes, len(mine))
        for lane in wanted:
            self._close((lane.flow, lane.partition))
            with parts.database.transaction() as tx:
                parts.lanes.hand_over(tx, lane, me)
        return [lane for lane in mine if lane not in wanted]

    def _ask(self, lanes: Sequence[Lane], mine: int) -> None:
        counts = Counter(lane.owner for lane in lanes if lane.owner is not None)
        me = self._parts.process().id
        if not counts or any(lane.wanted_by == me for lane in lanes):
            return
        richest, count = counts.most_common(1)[0]
        free = [lane for lane in lanes if lane.owner == richest and lane.wanted_by is None]
        if richest != me and count - mine >= 2 and free:
            with self._parts.database.transaction() as tx:
                self._parts.lanes.want(tx, free[-1], me)

    # What they release

    def _release(self, lanes: Sequence[Lane]) -> int:
        """One portion of each lane. One that fails does not keep the others from theirs."""
        kept = {(lane.flow, lane.partition) for lane in lanes}
        for key in self._runs.keys() - kept:
            self._close(key)
        ends = {flow: self._ends(flow) for flow in {lane.flow for lane in lanes}}
        done, failure = 0, None
        for lane in lanes:
            try:
                done += self._step(lane, ends[lane.flow].get(lane.partition, 0))
            except Exception as error:
                self._close((lane.flow, lane.partition))
                failure = failure if isinstance(error, GONE) else failure or error
        if failure is not None:
            raise failure
        return done

    def _ends(self, flow: str) -> dict[int, int]:
        try:
            return self._parts.log.ends(lane_topic(flow))
        except UnknownTopic:
            return {}  # nothing was sent into it yet

    def _step(self, lane: Lane, end: int) -> int:
        key = (lane.flow, lane.partition)
        run = self._runs.get(key)
        if run is None:
            if not end:
                return 0
            run = self._runs[key] = LaneRun(self._parts, lane, self._most.get(key, PORTION))
            lane = run.lane
        try:
            done = run.step(lane, end, self._parts.database.now())
        except BadRecord:
            self._most[key] = 1
            raise
        if done:
            self._most.pop(key, None)
        return done

    def _rest_s(self) -> float:
        """Until the next record that is known is due, but not longer than a look at what is new."""
        look_s = self._parts.settings.desk.lane_s
        next_at = min((run.next_at for run in self._runs.values() if run.next_at is not None), default=None)
        if next_at is None:
            return look_s
        return min(max((next_at - self._parts.database.now()) / MICROS, 0.001), look_s)

    def _close(self, key: Key) -> None:
        run = self._runs.pop(key, None)
        if run is not None:
            with suppress(LogError):
                run.close()

    def start(self) -> None:
        self._parts.process()  # a process row before the first claim, and an error here rather than in the loop
        super().start()

    def on_stop(self) -> None:
        for key in list(self._runs):
            self._close(key)
        with suppress(DatabaseError), self._parts.database.transaction() as tx:
            self._parts.lanes.free(tx, [self._parts.process().id])
