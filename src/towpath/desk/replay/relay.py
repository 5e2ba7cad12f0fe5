"""The relay: what the outbox holds is appended to topics, each row once (docs/explanation/desk.md, 5 to 7).

One process sends for a flow: it has the flow's row in `desk_relay`, which is freed when the process dies. A process
that does not know yet that it was declared dead is fenced by the producer of its successor.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.service import RoundResult, Service
from towpath.db.wakeups import Wakeup
from towpath.desk.cases.model import Body, CaseState
from towpath.desk.replay.lane import lane_record, lane_topic
from towpath.desk.replay.outbox import RELAY_BELL, OutboxItem, OutboxTarget, Parking, ReplayContext
from towpath.errors import BadRecord, DatabaseError, LogError, ProducerFenced
from towpath.flow.records.errors import PREFIX
from towpath.flow.records.reentry import reentry_record
from towpath.flow.topics import FlowTopics, producer_of, shortened
from towpath.log.record import NewRecord, Record, check_record

HEADERS_BYTES = 1_000  # about as much as the headers of a record take
Refused = dict[str, list[OutboxItem]]  # by the reason

logger = logging.getLogger(__name__)


class Relay(Service):
    """Sends for all flows that no other living process sends for."""

    name = "relay"

    def __init__(self, parts: ReplayContext) -> None:
        super().__init__(parts.events)
        self._parts = parts
        self._flows: dict[str, FlowRelay] = {}
        self._bell: Wakeup | None = None

    def run_once(self) -> RoundResult:
        if self._bell is not None:
            self._bell.clear()
        self._free_the_dead()
        done = sum(self._send(flow) for flow in self._claimed())
        return RoundResult(done, 0 if done else self._parts.settings.desk.relay_s)

    def _free_the_dead(self) -> None:
        """Flows whose relay has died belong to no process."""
        parts = self._parts
        dead = parts.dead_among(parts.outbox.owners)
        if dead:
            with parts.database.transaction() as tx:
                parts.outbox.free(tx, dead)

    def _claimed(self) -> list[str]:
        """The flows that have something to send and are this process's."""
        parts, me = self._parts, self._parts.process()
        with parts.database.glance() as tx:
            flows = parts.outbox.flows(tx, me.id)
        if flows:
            me.check_leased()
        return [flow for flow in flows if flow in self._flows or self._claim(flow)]

    def _claim(self, flow: str) -> bool:
        parts = self._parts
        with parts.database.transaction() as tx:
            return parts.outbox.claim(tx, flow, parts.process().id)

    def _send(self, flow: str) -> int:
        try:
            relay = self._flows.get(flow)
            if relay is None:
                relay = self._flows[flow] = FlowRelay(self._parts, flow)
            return relay.send()
        except ProducerFenced:
            self._close(flow)
            return 0  # whoever has taken over goes on
        except BaseException:
            self._close(flow)  # the next round asks the log how far this one came
            raise

    def _close(self, flow: str) -> None:
        relay = self._flows.pop(flow, None)
        if relay is not None:
            with suppress(LogError):
                relay.close()

    def start(self) -> None:
        self._parts.process()  # a process row before the first claim, and an error here rather than in the loop
        if self._bell is None:
            self._bell = self._parts.database.wakeups.hang(RELAY_BELL)
        super().start()

    def rest(self, seconds: float) -> None:
        if self._bell is not None:
            self._bell.wait(seconds)

    def wake(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def on_stop(self) -> None:
        for flow in list(self._flows):
            self._close(flow)
        with suppress(DatabaseError), self._parts.database.transaction() as tx:
            self._parts.outbox.free(tx, [self._parts.process().id])


class FlowRelay:
    """The relay of one flow. Given up after any failure: the next one asks the log how far this one came."""

    def __init__(self, parts: ReplayContext, flow: str) -> None:
        """5: fences the relay that was before, and deletes what it has appended."""
        self._parts = parts
        self._flow = flow
        self._lanes = lane_topic(flow)
        self._group = relay_group(flow)
        self._parking = Parking(parts.database)
        self._one_by_one = 0  # rows that are sent alone, because one of them was refused
        parts.ensure_lanes(self._lanes, 1)
        self._producer = parts.log.producer(producer_of("desk", flow, "relay"))
        self._sent = parts.log.positions(self._group).get((self._lanes, 0), 0)
        crash.here(CrashPoint.RELAY_OPENED)
        if self._sent:
            self._delete(self._sent)

    def close(self) -> None:
        self._producer.close()

    def send(self) -> int:
        """6 and 7, for one portion; returns how many rows that were."""
        rows = self._next_rows()
        if not rows:
            return 0
        ready, refused = self._made([row for row in rows if row.is_wanted])
        if refused:
            self._refuse(refused)
            crash.here(CrashPoint.RELAY_REFUSED)
        try:
            self._append(ready, rows[-1].seq)
        except BadRecord as problem:
            self._search(rows, ready, problem)
            return len(rows)
        self._delete(rows[-1].seq)
        return len(rows)

    def _next_rows(self) -> list[OutboxItem]:
        parts = self._parts
        limit = 1 if self._one_by_one else parts.portion
        with parts.database.glance() as tx:
            rows = parts.outbox.page(tx, self._flow, self._sent, limit)
        self._one_by_one = max(0, self._one_by_one - len(rows))
        return _within(rows, parts.portion_bytes)

    def _made(self, rows: Sequence[OutboxItem]) -> tuple[list[Outgoing], Refused]:
        """6: the records of these rows, and those of which none can be made or that have nowhere to go."""
        parts = self._parts
        missing = self._missing(rows)
        with parts.database.glance() as tx:
            bodies = parts.cases.bodies(tx, [row.case_id for row in rows])
        ready: list[Outgoing] = []
        refused: Refused = defaultdict(list)
        for row in rows:
            try:
                made = outgoing(self._flow, row, bodies.get(row.case_id), parts.blob)
                if made.topic in missing:
                    raise NotSendable(missing[made.topic])
                ready.append(made)
            except NotSendable as reason:
                refused[str(reason)].append(row)
        return ready, refused

    def _missing(self, rows: Sequence[OutboxItem]) -> Mapping[str, str]:
        """Topics that are not there, with what to say about it. The lanes are made."""
        lanes = [row.lane for row in rows if row.lane is not None]
        if lanes:
            self._parts.ensure_lanes(self._lanes, max(lanes) + 1)
        wanted = {topic_of(self._flow, row): row.target for row in rows if row.target is not OutboxTarget.LANE}
        gone = {topic: target for topic, target in wanted.items() if not self._parts.has_topic(topic)}
        return {topic: _gone(self._flow, topic, target) for topic, target in gone.items()}

    def _append(self, ready: Sequence[Outgoing], upto: int) -> None:
        """7: all of them and the number of the last, in one transaction of the log."""
        by_topic: dict[str, list[NewRecord]] = defaultdict(list)
        for each in ready:
            by_topic[each.topic].append(each.record)
        with self._producer.transaction() as out:
            for topic, records in by_topic.items():
                out.append(topic, records)
            out.commit_positions(self._group, {(self._lanes, 0): upto})
        self._sent = upto
        crash.here(CrashPoint.RELAY_SENT)

    def _delete(self, upto: int) -> None:
        """What is in its topic leaves the outbox; what went to its source is settled with it."""
        parts = self._parts
        with parts.database.transaction() as tx:
            for (who, why), ids in parts.outbox.resent(tx, self._flow, upto).items():
                settled = parts.cases.move(tx, ids, CaseState.RESENT, frm=[CaseState.REPLAYING], who=who, why=why)
                self._parking.release(tx, settled)
            parts.outbox.delete(tx, self._flow, upto)
            crash.here(CrashPoint.RELAY_BEFORE_COMMIT)
        crash.here(CrashPoint.RELAY_AFTER_COMMIT)

    def _search(self, rows: Sequence[OutboxItem], ready: Sequence[Outgoing], problem: BadRecord) -> None:
        """One of them was refused: too large for any topic, or found alone, it is put in front of a person.

        Before it is found, those of its company are sent one by one.
        """
        if large := too_large(ready, self._parts.settings.log.max_record_bytes):
            self._refuse(large)
            crash.here(CrashPoint.RELAY_REFUSED)
        elif len(ready) == 1:
            self._refuse({f"the topic {ready[0].topic} does not take it: {problem}": [ready[0].row]})
        else:
            self._one_by_one = len(rows)
        self._producer.close()
        self._producer = self._parts.log.producer(self._producer.name)

    def _refuse(self, refused: Mapping[str, Sequence[OutboxItem]]) -> None:
        """What cannot be sent is in front of a person, with the reason; its row is passed over from now on."""
        with self._parts.database.transaction() as tx:
            for why, rows in refused.items():
                self._parts.give_up(tx, self._flow, ((row.case_id, row.ticket) for row in rows), why)


def relay_group(flow: str) -> str:
    """Its position in partition 0 of the lane topic is the number of the last row of the outbox that was appended."""
    return shortened(f"towpath.desk.{flow}.relay")


def _within(rows: Sequence[OutboxItem], most_bytes: int) -> list[OutboxItem]:
    """As many of the rows as have room, one at least."""
    room = most_bytes
    found: list[OutboxItem] = []
    for row in rows:
        room -= row.body_bytes + HEADERS_BYTES
        if found and room < 0:
            break
        found.append(row)
    return found


def _gone(flow: str, topic: str, target: OutboxTarget) -> str:
    if target is OutboxTarget.SOURCE:
        return f"the topic {topic} is gone; make it again and resend, or abandon the case"
    return f"the topic {topic} is gone, so flow {flow} cannot take it; run the flow, which makes it, and replay"


class NotSendable(Exception):
    """Why a record cannot be sent, and what to do about it, as a sentence for a person."""


class Outgoing(NamedTuple):
    """A record and where it goes."""

    row: OutboxItem
    topic: str
    record: NewRecord


def outgoing(flow: str, row: OutboxItem, body: Body | None, blob: Callable[[str], bytes]) -> Outgoing:
    """Raises `NotSendable`."""
    if body is None:
        raise NotSendable("its body is not kept any more, so there is nothing to send; abandon it")
    try:
        error = Record("", 0, 0, 0, row.key, body.read(blob), body.headers)
        return Outgoing(row, topic_of(flow, row), _record(row, error))
    except OSError as problem:
        why = f"the file with its body cannot be read ({problem.strerror}); put it back and replay"
        raise NotSendable(why) from problem
    except KeyError as missing:
        raise NotSendable(f"its headers do not say {missing.args[0]}, so no stage would take it; abandon it") from None


def topic_of(flow: str, row: OutboxItem) -> str:
    """Where a row is to be appended."""
    match row.target:
        case OutboxTarget.LANE:
            return lane_topic(flow)
        case OutboxTarget.REENTRY:
            return _reentry(flow)
        case OutboxTarget.SOURCE:
            return row.topic


@lru_cache(maxsize=100)
def _reentry(flow: str) -> str:
    return FlowTopics.of(flow).reentry


def _record(row: OutboxItem, error: Record) -> NewRecord:
    if row.target is OutboxTarget.SOURCE:
        own = tuple(header for header in error.headers if not header[0].startswith(PREFIX))
        return NewRecord(error.value, error.key, own)
    back = reentry_record(error, row.case_id, row.attempt, ticket=row.ticket)
    if row.lane is None or row.due_at is None:
        return back
    return lane_record(back, row.lane, row.due_at)


def too_large(made: Sequence[Outgoing], max_bytes: int) -> dict[str, list[OutboxItem]]:
    """The rows of those that no topic would take, by what to do about it."""
    found: dict[str, list[OutboxItem]] = defaultdict(list)
    for each in made:
        try:
            check_record(each.record, max_bytes)
        except BadRecord as problem:
            found[f"{problem}; raise that setting, or edit the body, and replay it again"].append(each.row)
    return dict(found)
