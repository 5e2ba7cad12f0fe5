"""The relay of one flow: its producer, and how far it has come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db import Transaction
from towpath.desk.case_state import CaseState
from towpath.desk.lane import lane_topic
from towpath.desk.outbox_store import Going
from towpath.desk.outgoing import NotSendable, Outgoing, outgoing, too_large, topic_of
from towpath.desk.parking import Parking
from towpath.desk.sending import TOWPATH
from towpath.desk.sending_parts import SendingParts
from towpath.desk.target import Target
from towpath.errors import BadRecord
from towpath.events import Event, EventKind
from towpath.flow.topics import producer_of, shortened
from towpath.log.record import NewRecord

HEADERS_BYTES = 1_000  # about as much as the headers of a record take
SHOWN_CASES = 20
SENDABLE = (CaseState.WAITING, CaseState.REPLAYING)

Refused = dict[str, list[Going]]  # by the reason


def relay_group(flow: str) -> str:
    """Its position in partition 0 of the lane topic is the number of the last row of the outbox that was appended."""
    return shortened(f"towpath.desk.{flow}.relay")


class FlowRelay:
    """Given up after any failure: the next one asks the log how far this one came."""

    def __init__(self, parts: SendingParts, flow: str) -> None:
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

    def _next_rows(self) -> list[Going]:
        parts = self._parts
        limit = 1 if self._one_by_one else parts.portion
        with parts.database.glance() as tx:
            rows = parts.outbox.page(tx, self._flow, self._sent, limit)
        self._one_by_one = max(0, self._one_by_one - len(rows))
        return _within(rows, parts.portion_bytes)

    def _made(self, rows: Sequence[Going]) -> tuple[list[Outgoing], Refused]:
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

    def _missing(self, rows: Sequence[Going]) -> Mapping[str, str]:
        """Topics that are not there, with what to say about it. The lanes are made."""
        lanes = [row.lane for row in rows if row.lane is not None]
        if lanes:
            self._parts.ensure_lanes(self._lanes, max(lanes) + 1)
        wanted = {topic_of(self._flow, row): row.target for row in rows if row.target is not Target.LANE}
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

    def _search(self, rows: Sequence[Going], ready: Sequence[Outgoing], problem: BadRecord) -> None:
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

    def _refuse(self, refused: Mapping[str, Sequence[Going]]) -> None:
        """What cannot be sent is in front of a person, with the reason; its row is passed over from now on."""
        with self._parts.database.transaction() as tx:
            for why, rows in refused.items():
                self._open(tx, rows, why)

    def _open(self, tx: Transaction, rows: Sequence[Going], why: str) -> None:
        parts = self._parts
        now = parts.cases.lock(tx, [row.case_id for row in rows])
        same = [row.case_id for row in rows if row.case_id in now and now[row.case_id].ticket == row.ticket]
        opened = parts.cases.move(
            tx, same, CaseState.OPEN, frm=SENDABLE, who=TOWPATH, why=why, ticket=True, what="not sent", gives_back=True
        )
        if opened:
            data = {"cases": opened[:SHOWN_CASES], "count": len(opened)}
            parts.event_log.record(tx, Event(EventKind.RECORDS_NOT_SENT, self._flow, why=why, data=data))


def _within(rows: Sequence[Going], most_bytes: int) -> list[Going]:
    """As many of the rows as have room, one at least."""
    room = most_bytes
    found: list[Going] = []
    for row in rows:
        room -= row.body_bytes + HEADERS_BYTES
        if found and room < 0:
            break
        found.append(row)
    return found


def _gone(flow: str, topic: str, target: Target) -> str:
    if target is Target.SOURCE:
        return f"the topic {topic} is gone; make it again and resend, or abandon the case"
    return f"the topic {topic} is gone, so flow {flow} cannot take it; run the flow, which makes it, and replay"
