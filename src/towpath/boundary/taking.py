"""One sender at work in this process: its producer, and how far it is.

docs/explanation/boundary.md has the numbers. What is about to go into the log is planned in the sender's row (3); in
one transaction of the log go the records and the number of bytes that are then acknowledged (4); then the plan becomes
what is (5). Who comes after a crash opens the producer, which settles what an older one has under way, and compares the
log's number with the plan's (1).
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property

from towpath import crash
from towpath.access.barrier import OPEN, Barrier
from towpath.boundary.line_records import LineRecords, RecordMaker, numbered
from towpath.boundary.lines import cut_lines
from towpath.boundary.refusal import Refusal, too_long
from towpath.boundary.sender import Plan, Sender, Taken
from towpath.boundary.sender_place import SPOT, sender_group, sender_producer
from towpath.boundary.streams import Stream
from towpath.boundary.taking_parts import TakingParts
from towpath.clock import MICROS
from towpath.crash import CrashPoint
from towpath.db import Transaction
from towpath.errors import BadRecord, LineTooLong, LogError, NotYet
from towpath.events import Event, EventKind
from towpath.log.record import NewRecord

logger = logging.getLogger(__name__)

LEAST_RECORD_BYTES = 16 << 10  # a topic that does not take even this much takes nothing
FORGOTTEN_S = 3600  # how long before its last sign the records of a plan may have gone into the log
TRIES = 5


class SenderRun:
    """Given up after any failure: the next one finds out from the log how far this one came."""

    def __init__(self, parts: TakingParts, stream: Stream, upload: str, sender: str) -> None:
        self._parts = parts
        self._stream, self._upload, self._name = stream, upload, sender
        self._group = sender_group(upload, sender)
        self._barrier = OPEN
        self._producer = parts.log.producer(sender_producer(upload, sender))
        crash.here(CrashPoint.SENDER_OPENED)
        try:
            self.sender = self._settled()
            self._topic = stream.input(self.sender.input).topic
            self._maker = self._made()
        except BaseException:
            self._producer.close()
            raise

    def close(self) -> None:
        self._producer.close()

    def _made(self) -> RecordMaker:
        settings = self._parts.settings
        partitions = self._parts.log.topic(self._topic).partitions
        most = (settings.gateway.line_bytes, settings.log.max_record_bytes)
        return RecordMaker(self._stream, self.sender, partitions, *most)

    # 1: what is there

    def _settled(self) -> Sender:
        """The sender with no plan."""
        number = self._parts.log.positions(self._group).get(SPOT)
        for _ in range(TRIES):
            with self._parts.database.read() as tx:
                found = self._parts.senders.read(tx, self._upload, self._name)
            if number not in (None, found.position, found.plan and found.plan.position):
                raise self._differs(found, number or 0)
            if found.plan is None:
                return found
            if (settled := self._decide(found, found.plan, number)) is not None:
                return settled
        raise self._lost()

    def _decide(self, found: Sender, plan: Plan, number: int | None) -> Sender | None:
        """The plan is what is if the log has its number; None when somebody else has decided meanwhile."""
        was_sent = self._was_sent(found, plan) if number is None and found.position else number == plan.position
        self._prove(plan.position if was_sent else found.position)
        with self._parts.database.transaction() as tx:
            store = self._parts.senders
            settled = self._settle(tx, found, plan) if was_sent else store.discard(tx, found, plan)
            crash.here(CrashPoint.CHUNK_SETTLE_BEFORE_COMMIT)
        crash.here(CrashPoint.CHUNK_SETTLED)
        return settled

    def _prove(self, number: int) -> None:
        """Commit the log's number once more; `ProducerFenced` when somebody has opened the producer after this one.

        Then the plan may be that one's, and on its way. Otherwise nobody has sent since the number was read.
        """
        with self._producer.transaction() as out:
            out.commit_positions(self._group, {SPOT: number})

    def _differs(self, found: Sender, number: int) -> LogError:
        self._prove(number)
        return LogError(
            f"the log has {number} bytes of sender {self._name} of upload {self._upload}, and its row says "
            f"{found.position}: log and database are not of the same time. Abort the upload, and send it again."
        )

    def _was_sent(self, found: Sender, plan: Plan) -> bool:
        """The log has forgotten how far the sender was: its records are looked for."""
        logger.warning("the log has forgotten how far sender %s of upload %s is", self._name, self._upload)
        topic = self._stream.input(found.input).topic
        log, since = self._parts.log, found.touched_us // MICROS - FORGOTTEN_S
        starts, ends = log.offsets_at(topic, max(since, 0) * 1000), log.ends(topic)
        wanted = {("upload", self._upload.encode()), ("sender", self._name.encode())}
        return any(
            wanted <= {*record.headers} and found.line < int(dict(record.headers)["line"] or 0) <= plan.line
            for partition, start in starts.items()
            for record in log.read(topic, partition, start, ends[partition])
        )

    # 2 to 5

    def take(self, session: int, sequence: int, data: bytes, *, is_last: bool) -> Taken:
        """Take the whole lines at the beginning of what comes behind the sender's position."""
        settings, before = self._parts.settings.gateway, self.sender
        cut = cut_lines(data, before.format, settings.line_bytes, is_last=is_last)
        if not cut.lines and cut.is_too_long:
            raise LineTooLong(before.position, before.line + 1, settings.line_bytes)
        self._barrier = self._rules()
        at = 0
        for lines, is_end in _portions(cut.lines, self._parts.most_lines, self._parts.most_bytes):
            used = cut.used - at if is_end else sum(map(len, lines)) + len(lines)
            with self._parts.turn():
                self._take(session, sequence if is_end else self.sender.sequence, lines, data[at : at + used])
            at += used
        if cut.lines:
            self._tell(before)
        return self.sender.taken()

    def skip(self, session: int, sequence: int, length: int, crc32: int, beginning: bytes, why: str) -> Taken:
        """Pass over a line, which becomes a refused one of which only the beginning is kept."""
        before, most = self.sender, self._parts.settings.gateway.line_bytes
        refusal = too_long(most) if length > most else Refusal("skipped", why, is_cut=True)
        record = self._maker.refused(refusal, beginning, before.line + 1)
        plan = Plan(
            before.position + length, before.line + 1, sequence, crc32, before.refused + 1, blocked=before.blocked
        )
        with self._parts.turn():
            self._commit(session, plan, [record])
        self._tell(before)
        return self.sender.taken()

    def _rules(self) -> Barrier:
        """The block rules that may be for what this sender sends; mostly there are none, and that costs nothing."""
        rules = self._parts.blocks.in_force()
        return rules.for_sender(self._stream.name, self._owner, self._topic) if rules else rules

    @cached_property
    def _owner(self) -> str:
        with self._parts.database.read() as tx:
            return self._parts.uploads.read(tx, self._upload).owner

    def _take(self, session: int, sequence: int, lines: Sequence[bytes], data: bytes) -> None:
        before = self.sender
        numbers, behind = numbered(lines, before.line + 1)
        crc32 = zlib.crc32(data, before.crc32)
        most: int | None = None
        while True:
            made = self._maker.make(lines, numbers, most, self._barrier)
            if len(lines) > 1 and _size(made) > self._parts.most_bytes:
                return self._halve(session, sequence, lines, data)
            plan = Plan(
                before.position + len(data),
                behind - 1,
                sequence,
                crc32,
                before.refused + made.refused,
                blocked=before.blocked + made.blocked,
                caught=dict(made.caught),
            )
            try:
                return self._commit(session, plan, made.records)
            except BadRecord as problem:
                most = self._smaller(made, plan, problem)

    def _halve(self, session: int, sequence: int, lines: Sequence[bytes], data: bytes) -> None:
        """As records they are more than one transaction holds: names of columns stand in each."""
        half = len(lines) // 2
        used = sum(map(len, lines[:half])) + half
        self._take(session, self.sender.sequence, lines[:half], data[:used])
        self._take(session, sequence, lines[half:], data[used:])

    def _smaller(self, made: LineRecords, plan: Plan, problem: BadRecord) -> int:
        """The topic does not take one of them: large ones become refused lines. Nothing has gone, so the plan goes."""
        with self._parts.database.transaction() as tx:
            if self._parts.senders.discard(tx, self.sender, plan) is None:
                raise self._lost()
        largest = max(len(record.value or b"") + len(record.key or b"") for record in made.records)
        if largest < LEAST_RECORD_BYTES:
            raise problem
        return largest * 3 // 4

    def _commit(self, session: int, plan: Plan, records: Sequence[NewRecord]) -> None:
        before = self.sender
        with self._parts.database.transaction() as tx:  # 3
            planned = self._parts.senders.plan(tx, before, session, plan)
            crash.here(CrashPoint.CHUNK_PLAN_BEFORE_COMMIT)
        if planned is None:
            raise self._lost()
        crash.here(CrashPoint.CHUNK_PLANNED)
        self._send(plan, records)  # 4
        crash.here(CrashPoint.CHUNK_SENT)
        with self._parts.database.transaction() as tx:  # 5
            self._parts.uploads.touch(tx, self._upload)  # first, as whoever finishes a sender does: locks in one order
            settled = self._settle(tx, before, plan)
            crash.here(CrashPoint.CHUNK_SETTLE_BEFORE_COMMIT)
        crash.here(CrashPoint.CHUNK_SETTLED)
        if settled is None:
            raise self._lost()
        self.sender = settled

    def _settle(self, tx: Transaction, before: Sender, plan: Plan) -> Sender | None:
        """The plan is what is, and what block rules have caught is counted with it: once."""
        settled = self._parts.senders.settle(tx, before, plan)
        if settled is not None and plan.caught:
            self._parts.rules.note_caught(tx, plan.caught)
        return settled

    def _send(self, plan: Plan, records: Sequence[NewRecord]) -> None:
        """In one transaction of the log: the records, and how many bytes are acknowledged with them."""
        with self._producer.transaction() as out:
            if records:
                out.append(self._topic, records)
            out.commit_positions(self._group, {SPOT: plan.position})

    def _lost(self) -> NotYet:
        retry_s = self._parts.settings.gateway.retry_after_s
        return NotYet("busy", f"another process has taken over sender {self._name}; send the chunk again", retry_s)

    def _tell(self, before: Sender) -> None:
        now = self.sender
        data = {
            "input": now.input,
            "bytes": now.position - before.position,
            "lines": now.line - before.line,
            "refused": now.refused - before.refused,
            "blocked": now.blocked - before.blocked,
        }
        self._parts.events.publish(Event(EventKind.CHUNK_TAKEN, f"{self._upload}/{self._name}", data=data))


def _portions(lines: Sequence[bytes], most_lines: int, most_bytes: int) -> Iterator[tuple[Sequence[bytes], bool]]:
    """So many lines as go into one transaction, and whether they are the last ones."""
    begin, size = 0, 0
    for place, line in enumerate(lines):
        if place > begin and (place - begin >= most_lines or size + len(line) > most_bytes):
            yield lines[begin:place], False
            begin, size = place, 0
        size += len(line)
    if begin < len(lines):
        yield lines[begin:], True


def _size(made: LineRecords) -> int:
    return sum(len(record.value or b"") for record in made.records)
