"""One lane at work: its producer, what was read of it, and the release of what is due.

docs/explanation/desk.md has the numbers. A release is planned in the lane's row, in the transaction that moves its
cases (9); its number is committed in the log with the records (10). A successor compares the two numbers: equal, the
planned release was made; the log's is lower by one, it was not, and the row's *before* counts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db import Transaction
from towpath.desk.case_state import CaseState
from towpath.desk.lane import Beyond, Lane
from towpath.desk.lane_choice import Standing, Terms, choose
from towpath.desk.lane_record import Waiting
from towpath.desk.sending import TOWPATH
from towpath.desk.sending_parts import MOST_BYTES, SendingParts
from towpath.errors import BadRecord, TopicReplaced
from towpath.events import Event, EventKind
from towpath.flow.topics import FlowTopics, producer_of, shortened
from towpath.log.log import LogTransaction
from towpath.log.record import Record

logger = logging.getLogger(__name__)

WINDOW = 5_000  # records that were read and have not gone
WINDOW_BYTES = 16 << 20
MOST_BEYOND = 2_000  # released beyond the safe position: with more, the lane waits for its first
PORTION = 1_000
TRUSTED_S = 2.0
REMIND_S = 3600.0  # a log may forget positions that nobody has moved for days
RELEASABLE = (CaseState.WAITING, CaseState.REPLAYING)


def lanes_group(flow: str) -> str:
    """Its positions in the lane topic are how far each lane is done."""
    return shortened(f"towpath.desk.{flow}.lanes")


def releases_group(flow: str) -> str:
    """Its positions in the lane topic are no offsets, but the number of each lane's last release."""
    return shortened(f"towpath.desk.{flow}.releases")


class LaneRun:
    """Given up after any failure: the next one finds out from the log how far this one came."""

    def __init__(self, parts: SendingParts, lane: Lane, most: int = PORTION) -> None:
        """`most` is how many may go at once: 1 where a topic has refused one of several."""
        self._parts = parts
        self._me = parts.process().id
        self._reentry = FlowTopics.of(lane.flow).reentry
        self._producer = parts.log.producer(producer_of("desk", lane.flow, "lane", str(lane.partition)))
        crash.here(CrashPoint.LANE_OPENED)
        self.lane = lane
        self._most = most
        self._standing = self._found(lane)
        self._window: list[Waiting] = []
        self._bytes = 0
        self._read_to = self._standing.position
        self._reminded = time.monotonic()
        self._found_at = float("-inf")  # when the re-entry topic was seen
        self.next_at: int | None = None  # when the first of what is known is due

    def close(self) -> None:
        self._producer.close()

    # 8: what is there

    def _found(self, lane: Lane) -> Standing:
        """Where the lane is, by the numbers of the last release in its row and in the log."""
        place = (lane.topic, lane.partition)
        number = self._parts.log.positions(releases_group(lane.flow)).get(place)
        position = self._parts.log.positions(lanes_group(lane.flow)).get(place)
        if number is None and lane.release > 1:
            logger.warning("the log has forgotten how far lane %s is; its row says release %d", lane.name, lane.release)
            number = lane.release
        if (number or 0) == lane.release:
            return Standing(lane.position, lane.beyond.after)
        kept = lane.beyond.before if (number or 0) == lane.release - 1 else ()
        standing = Standing(position or 0, kept)
        self._mend(number or 0, standing)
        return standing

    def _mend(self, number: int, standing: Standing) -> None:
        beyond = Beyond(standing.beyond, standing.beyond)
        with self._parts.database.transaction() as tx:
            self._parts.lanes.mend(tx, self.lane, self._me, number, standing.position, beyond)
        with self._parts.database.glance() as tx:
            self.lane = self._parts.lanes.read(tx, self.lane.flow, self.lane.partition)

    def _fill(self, end: int) -> None:
        """Read on, as long as there is room."""
        if end < self._read_to:
            raise TopicReplaced(self.lane.topic, None, None)
        if self._read_to >= end or not self._has_room():
            return
        done = {*self._standing.beyond}
        for record in self._parts.log.read(self.lane.topic, self.lane.partition, self._read_to, end):
            self._read_to = record.offset + 1
            if record.offset not in done:
                self._keep(record)
            if not self._has_room():
                return
        self._read_to = end  # the last offsets may hold nothing

    def _keep(self, record: Record) -> None:
        try:
            waiting = Waiting.read(record)
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

    def _terms(self, now: int) -> Terms:
        settings, lane = self._parts.settings.desk, self.lane
        order = "strict" if len(self._standing.beyond) >= MOST_BEYOND else settings.lane_order
        return Terms(now, order, lane.jitter_ms * 1000, lane.hurried_to, min(self._most, PORTION), MOST_BYTES)

    def _release(self, taken: Sequence[Waiting]) -> int:
        gone = {waiting.offset for waiting in taken}
        left = [waiting for waiting in self._window if waiting.offset not in gone]
        after = self._standing.after(gone, [waiting.offset for waiting in left], self._read_to)
        is_open = self._has_reentry()
        with self._parts.database.transaction() as tx:  # 9
            valid = self._move(tx, taken) if is_open else self._give_up(tx, taken, self._no_topic())
            number = self._parts.lanes.plan(tx, self.lane, self._me, after.position, self._beyond(after))
            crash.here(CrashPoint.LANE_BEFORE_COMMIT)
        crash.here(CrashPoint.LANE_AFTER_COMMIT)
        try:
            self._send(valid, number, after)  # 10
        except BadRecord as problem:
            if len(valid) == 1:
                self._refuse(valid, problem)
            raise
        crash.here(CrashPoint.LANE_RELEASED)
        self._standing, self._window = after, left
        self._bytes = sum(waiting.bytes for waiting in left)
        self._most = PORTION
        if valid:
            self._tell(len(valid))  # 11
        return len(taken)

    def _move(self, tx: Transaction, taken: Sequence[Waiting]) -> list[Waiting]:
        """Those that nobody has called back; their cases say that they are replayed."""
        cases = self._parts.cases
        now = cases.lock(tx, {waiting.case_id for waiting in taken})
        valid = [
            waiting
            for waiting in taken
            if (case := now.get(waiting.case_id)) is not None
            and case.ticket == waiting.ticket
            and case.state in RELEASABLE
        ]
        due = [waiting.case_id for waiting in valid if now[waiting.case_id].state is CaseState.WAITING]
        cases.move(
            tx, due, CaseState.REPLAYING, frm=[CaseState.WAITING], who=TOWPATH, why=f"due in lane {self.lane.name}"
        )
        return valid

    def _give_up(self, tx: Transaction, taken: Sequence[Waiting], why: str) -> list[Waiting]:
        """There is nowhere to send them: they are in front of a person again."""
        cases = self._parts.cases
        now = cases.lock(tx, {waiting.case_id for waiting in taken})
        same = [each.case_id for each in taken if each.case_id in now and now[each.case_id].ticket == each.ticket]
        opened = cases.move(
            tx,
            same,
            CaseState.OPEN,
            frm=RELEASABLE,
            who=TOWPATH,
            why=why,
            ticket=True,
            what="not sent",
            gives_back=True,
        )
        if opened:
            data = {"cases": opened[:20], "count": len(opened)}
            self._parts.event_log.record(tx, Event(EventKind.RECORDS_NOT_SENT, self.lane.flow, why=why, data=data))
        return []

    def _has_reentry(self) -> bool:
        """Asked once in a while: an append to a topic that was deleted since fails, and then it is asked again."""
        if time.monotonic() - self._found_at > TRUSTED_S:
            if not self._parts.has_topic(self._reentry):
                return False
            self._found_at = time.monotonic()
        return True

    def _no_topic(self) -> str:
        flow = self.lane.flow
        return f"the topic {self._reentry} is gone, so flow {flow} cannot take it; run the flow, and replay"

    def _beyond(self, after: Standing) -> Beyond:
        return Beyond(self._standing.beyond, after.beyond)

    def _send(self, valid: Sequence[Waiting], number: int, after: Standing) -> None:
        """In one transaction of the log: the records, where the lane is, and the number of the release."""
        with self._producer.transaction() as out:
            if valid:
                out.append(self._reentry, [waiting.released() for waiting in valid])
            self._commit(out, number, after)

    def _commit(self, out: LogTransaction, number: int, standing: Standing) -> None:
        lane = self.lane
        out.commit_positions(lanes_group(lane.flow), {(lane.topic, lane.partition): standing.position})
        out.commit_positions(releases_group(lane.flow), {(lane.topic, lane.partition): number})
        self._reminded = time.monotonic()

    def _remind(self) -> None:
        """Commit once more what is committed, so that the log does not forget it."""
        if time.monotonic() - self._reminded > REMIND_S and self.lane.release:
            with self._producer.transaction() as out:
                self._commit(out, self.lane.release, self._standing)

    def _refuse(self, valid: Sequence[Waiting], problem: BadRecord) -> None:
        """The re-entry topic does not take this one: it is put in front of a person, and passed over next time."""
        with self._parts.database.transaction() as tx:
            self._give_up(tx, valid, f"the topic {self._reentry} does not take it: {problem}")

    def _tell(self, count: int) -> None:
        self._parts.events.publish(Event(EventKind.LANE_RELEASED, self.lane.name, data={"count": count}))
