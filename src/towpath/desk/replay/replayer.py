"""The replayer: lanes release what is due, back to the stages (docs/explanation/desk.md, 8 to 11).

Several processes share the lanes. A lane belongs to the process in its row; that of a dead one is freed by any other.
A process that has two lanes fewer than another asks for one, and gets it when the owner has finished a round.

A release is planned in the lane's row, in the transaction that moves its cases (9); its number is committed in the
log with the records (10). A successor compares the two numbers: equal, the planned release was made; the log's is
lower by one, it was not, and the row's *before* counts.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from towpath.core import crash
from towpath.core.clock import MICROS
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.core.service import RoundResult, Service
from towpath.db import Transaction
from towpath.desk.cases.model import CaseState
from towpath.desk.replay.lane import Lane, LaneProgress, LaneRecord, LaneTerms, ReleasedAbove, choose, lane_topic
from towpath.desk.replay.outbox import MOST_BYTES, SENDABLE, TOWPATH, ReplayContext
from towpath.errors import BadRecord, DatabaseError, LaneLost, LogError, ProducerFenced, TopicReplaced, UnknownTopic
from towpath.flow.topics import FlowTopics, producer_of, shortened
from towpath.log.log import LogTransaction
from towpath.log.record import Record

WINDOW = 5_000  # records that were read and have not gone
WINDOW_BYTES = 16 << 20
MOST_BEYOND = 2_000  # released beyond the safe position: with more, the lane waits for its first
PORTION = 1_000
TRUSTED_S = 2.0
REMIND_S = 3600.0  # a log may forget positions that nobody has moved for days

logger = logging.getLogger(__name__)
Key = tuple[str, int]  # flow and partition
GONE = (ProducerFenced, LaneLost)  # another process has the lane


class Replayer(Service):
    """Serves the lanes of all flows."""

    name = "replayer"

    def __init__(self, parts: ReplayContext) -> None:
        super().__init__(parts.events)
        self._parts = parts
        self._runs: dict[Key, LaneRun] = {}
        self._most: dict[Key, int] = {}

    def run_once(self) -> RoundResult:
        self._parts.process().check_leased()
        self._free_the_dead()
        lanes = self._shared(self._claimed(self._lanes()))
        done = self._release(lanes)
        return RoundResult(done, 0 if done else self._rest_s())

    @property
    def lanes(self) -> list[Key]:
        """The lanes that this process serves."""
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


class LaneRun:
    """One lane at work. Given up after any failure: the next one finds out from the log how far this one came."""

    def __init__(self, parts: ReplayContext, lane: Lane, most: int = PORTION) -> None:
        """`most` is how many may go at once: 1 where a topic has refused one of several."""
        self._parts = parts
        self._me = parts.process().id
        self._reentry = FlowTopics.of(lane.flow).reentry
        self._producer = parts.log.producer(producer_of("desk", lane.flow, "lane", str(lane.partition)))
        crash.here(CrashPoint.LANE_OPENED)
        self.lane = lane
        self._most = most
        self._progress = self._found(lane)
        self._window: list[LaneRecord] = []
        self._bytes = 0
        self._read_to = self._progress.position
        self._reminded = time.monotonic()
        self._found_at = float("-inf")  # when the re-entry topic was seen
        self.next_at: int | None = None  # when the first of what is known is due

    def close(self) -> None:
        self._producer.close()

    # 8: what is there

    def _found(self, lane: Lane) -> LaneProgress:
        """Where the lane is, by the numbers of the last release in its row and in the log."""
        place = (lane.topic, lane.partition)
        number = self._parts.log.positions(releases_group(lane.flow)).get(place)
        position = self._parts.log.positions(lanes_group(lane.flow)).get(place)
        if number is None and lane.release > 1:
            logger.warning("the log has forgotten how far lane %s is; its row says release %d", lane.name, lane.release)
            number = lane.release
        if (number or 0) == lane.release:
            return LaneProgress(lane.position, lane.beyond.after)
        kept = lane.beyond.before if (number or 0) == lane.release - 1 else ()
        progress = LaneProgress(position or 0, kept)
        self._mend(number or 0, progress)
        return progress

    def _mend(self, number: int, progress: LaneProgress) -> None:
        beyond = ReleasedAbove(progress.beyond, progress.beyond)
        with self._parts.database.transaction() as tx:
            self._parts.lanes.mend(tx, self.lane, self._me, number, progress.position, beyond)
        with self._parts.database.glance() as tx:
            self.lane = self._parts.lanes.read(tx, self.lane.flow, self.lane.partition)

    def _fill(self, end: int) -> None:
        """Read on, as long as there is room."""
        if end < self._read_to:
            raise TopicReplaced(self.lane.topic, None, None)
        if self._read_to >= end or not self._has_room():
            return
        done = {*self._progress.beyond}
        for record in self._parts.log.read(self.lane.topic, self.lane.partition, self._read_to, end):
            self._read_to = record.offset + 1
            if record.offset not in done:
                self._keep(record)
            if not self._has_room():
                return
        self._read_to = end  # the last offsets may hold nothing

    def _keep(self, record: Record) -> None:
        try:
            waiting = LaneRecord.read(record)
        except (KeyError, ValueError):
            # Somebody has appended it by hand: there is no case that waits for it.
            logger.warning("%s/%d/%d is no record of a lane; passed over", *record[:3])
            return
        self._window.append(waiting)
        self._bytes += waiting.bytes

    def _has_room(self) -> bool:
        return len(self._window) < WINDOW and self._bytes < WINDOW_BYTES

    # 8 to 11

    def step(self, lane: Lane, end: int, now: int) -> int:
        """Release what is due; `lane` is its row as it is now, `end` the end of its partition. Returns how many."""
        self.lane = lane
        self._fill(end)
        self._remind()
        if lane.is_paused:
            self.next_at = None
            return 0
        choice = choose(self._window, self._terms(now))
        self.next_at = choice.next_at
        if not choice.taken:
            return 0
        taken = [self._window[place] for place in choice.taken]
        return self._release(taken)

    def _terms(self, now: int) -> LaneTerms:
        settings, lane = self._parts.settings.desk, self.lane
        order = "strict" if len(self._progress.beyond) >= MOST_BEYOND else settings.lane_order
        return LaneTerms(now, order, lane.jitter_ms * 1000, lane.hurried_to, min(self._most, PORTION), MOST_BYTES)

    def _release(self, taken: Sequence[LaneRecord]) -> int:
        gone = {waiting.offset for waiting in taken}
        left = [waiting for waiting in self._window if waiting.offset not in gone]
        after = self._progress.after(gone, [waiting.offset for waiting in left], self._read_to)
        is_open = self._has_reentry()
        beyond = ReleasedAbove(self._progress.beyond, after.beyond)
        with self._parts.database.transaction() as tx:  # 9
            valid = self._move(tx, taken) if is_open else []
            if not is_open:
                flow = self.lane.flow
                why = f"the topic {self._reentry} is gone, so flow {flow} cannot take it; run the flow, and replay"
                self._give_up(tx, taken, why)
            number = self._parts.lanes.plan(tx, self.lane, self._me, after.position, beyond)
            crash.here(CrashPoint.LANE_BEFORE_COMMIT)
        crash.here(CrashPoint.LANE_AFTER_COMMIT)
        try:
            self._send(valid, number, after)  # 10
        except BadRecord as problem:
            if len(valid) == 1:
                self._refuse(valid, problem)
            raise
        crash.here(CrashPoint.LANE_RELEASED)
        self._progress, self._window = after, left
        self._bytes = sum(waiting.bytes for waiting in left)
        self._most = PORTION
        if valid:  # 11
            self._parts.events.publish(Event(EventKind.LANE_RELEASED, self.lane.name, data={"count": len(valid)}))
        return len(taken)

    def _move(self, tx: Transaction, taken: Sequence[LaneRecord]) -> list[LaneRecord]:
        """The records that were not called back; their cases move to *replaying*."""
        cases = self._parts.cases
        now = cases.lock(tx, {waiting.case_id for waiting in taken})
        valid = [
            waiting
            for waiting in taken
            if (case := now.get(waiting.case_id)) is not None
            and case.ticket == waiting.ticket
            and case.state in SENDABLE
        ]
        due = [waiting.case_id for waiting in valid if now[waiting.case_id].state is CaseState.WAITING]
        cases.move(
            tx, due, CaseState.REPLAYING, frm=[CaseState.WAITING], who=TOWPATH, why=f"due in lane {self.lane.name}"
        )
        return valid

    def _give_up(self, tx: Transaction, taken: Sequence[LaneRecord], why: str) -> None:
        self._parts.give_up(tx, self.lane.flow, ((waiting.case_id, waiting.ticket) for waiting in taken), why)

    def _has_reentry(self) -> bool:
        """Asked once in a while: an append to a topic that was deleted since fails, and then it is asked again."""
        if time.monotonic() - self._found_at > TRUSTED_S:
            if not self._parts.has_topic(self._reentry):
                return False
            self._found_at = time.monotonic()
        return True

    def _send(self, valid: Sequence[LaneRecord], number: int, after: LaneProgress) -> None:
        """In one transaction of the log: the records, where the lane is, and the number of the release."""
        with self._producer.transaction() as out:
            if valid:
                out.append(self._reentry, [waiting.released() for waiting in valid])
            self._commit(out, number, after)

    def _commit(self, out: LogTransaction, number: int, progress: LaneProgress) -> None:
        lane = self.lane
        out.commit_positions(lanes_group(lane.flow), {(lane.topic, lane.partition): progress.position})
        out.commit_positions(releases_group(lane.flow), {(lane.topic, lane.partition): number})
        self._reminded = time.monotonic()

    def _remind(self) -> None:
        """Commit once more what is committed, so that the log does not forget it."""
        if time.monotonic() - self._reminded > REMIND_S and self.lane.release:
            with self._producer.transaction() as out:
                self._commit(out, self.lane.release, self._progress)

    def _refuse(self, valid: Sequence[LaneRecord], problem: BadRecord) -> None:
        """The re-entry topic does not take this one: it is put in front of a person, and passed over next time."""
        with self._parts.database.transaction() as tx:
            self._give_up(tx, valid, f"the topic {self._reentry} does not take it: {problem}")


def lanes_group(flow: str) -> str:
    """Its positions in the lane topic are how far each lane is done."""
    return shortened(f"towpath.desk.{flow}.lanes")


def releases_group(flow: str) -> str:
    """Its positions in the lane topic are no offsets, but the number of each lane's last release."""
    return shortened(f"towpath.desk.{flow}.releases")
