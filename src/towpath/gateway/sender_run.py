"""One sender at work in this process: its producer, and how far it is; and the slots of all senders of this process.

docs/explanation/boundary.md has the numbers. What is about to go into the log is planned in the sender's row (3); in
one transaction of the log go the records and the number of bytes that are then acknowledged (4); then the plan
becomes what is (5). The process that serves the sender after a crash opens the producer, which settles what an older
one has under way, and compares the log's number with the plan's (1).

The log keeps how far a sender is in a group of its own, whose position is a number of bytes. It is a position in a
topic that never has a record: in the topic of the lines it would look like a reader that is behind, and nothing there
would ever be deleted.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property

from towpath.blocks.rule import OPEN, BlockBarrier
from towpath.blocks.service import BlockService, BlockStore
from towpath.core import crash
from towpath.core.clock import MICROS, Clock
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind, Events
from towpath.db import Database, Transaction
from towpath.errors import BadRecord, LineTooLong, LogError, NotYet, TopicExists, UnknownTopic
from towpath.flow.topics import FOREVER, producer_of, shortened
from towpath.gateway.line_records import LineRecords, RecordMaker, numbered
from towpath.gateway.lines.lines import LineRefusal, cut_lines, too_long
from towpath.gateway.uploads.model import ChunkReceipt, SenderPlan, UploadSender
from towpath.gateway.uploads.store import SenderStore, UploadStore
from towpath.gateway.uploads.streams import Stream, Streams
from towpath.log.log import Log
from towpath.log.record import NewRecord
from towpath.log.sqlite.log import SqliteLog
from towpath.settings import Settings

Which = tuple[str, str]  # upload and sender
PATIENCE_S = 10.0  # how long a request waits for another one of its sender
RECENT_S = 30.0  # longer than a turn of many senders takes

# Of one transaction. On SQLite others wait for it; a broker would rather have few large ones.
SQLITE_LINES = 8_000
SQLITE_BYTES = 4 << 20
BROKER_LINES = 100_000
BROKER_BYTES = 32 << 20
# Senders at work on SQLite: while one writes, the next ones make their records. With one, all would wait for it to wake
# up; with fifty, some would wait for the lock until they had to give up.
AT_ONCE = 8

TOPIC = "towpath.uploads"
SPOT = (TOPIC, 0)
GROUP_PREFIX = "towpath.gateway."

logger = logging.getLogger(__name__)
LEAST_RECORD_BYTES = 16 << 10  # a topic that does not take even this much takes nothing
FORGOTTEN_S = 3600  # how long before its last sign the records of a plan may have gone into the log
TRIES = 5


class SenderRun:
    """One sender at work. Given up after any failure: the next one finds out from the log how far this one came."""

    def __init__(self, parts: SenderContext, stream: Stream, upload: str, sender: str) -> None:
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

    def _settled(self) -> UploadSender:
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

    def _decide(self, found: UploadSender, plan: SenderPlan, number: int | None) -> UploadSender | None:
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

    def _differs(self, found: UploadSender, number: int) -> LogError:
        self._prove(number)
        return LogError(
            f"the log has {number} bytes of sender {self._name} of upload {self._upload}, and its row says "
            f"{found.position}: log and database are not of the same time. Abort the upload, and send it again."
        )

    def _was_sent(self, found: UploadSender, plan: SenderPlan) -> bool:
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

    def take(self, session: int, sequence: int, data: bytes, *, is_last: bool) -> ChunkReceipt:
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

    def skip(self, session: int, sequence: int, length: int, crc32: int, beginning: bytes, why: str) -> ChunkReceipt:
        """Pass over a line, which becomes a refused one of which only the beginning is kept."""
        before, most = self.sender, self._parts.settings.gateway.line_bytes
        refusal = too_long(most) if length > most else LineRefusal("skipped", why, is_cut=True)
        record = self._maker.refused(refusal, beginning, before.line + 1)
        plan = SenderPlan(
            before.position + length, before.line + 1, sequence, crc32, before.refused + 1, blocked=before.blocked
        )
        with self._parts.turn():
            self._commit(session, plan, [record])
        self._tell(before)
        return self.sender.taken()

    def _rules(self) -> BlockBarrier:
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
            plan = SenderPlan(
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

    def _smaller(self, made: LineRecords, plan: SenderPlan, problem: BadRecord) -> int:
        """The topic does not take one of them: large ones become refused lines. Nothing has gone, so the plan goes."""
        with self._parts.database.transaction() as tx:
            if self._parts.senders.discard(tx, self.sender, plan) is None:
                raise self._lost()
        largest = max(len(record.value or b"") + len(record.key or b"") for record in made.records)
        if largest < LEAST_RECORD_BYTES:
            raise problem
        return largest * 3 // 4

    def _commit(self, session: int, plan: SenderPlan, records: Sequence[NewRecord]) -> None:
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

    def _settle(self, tx: Transaction, before: UploadSender, plan: SenderPlan) -> UploadSender | None:
        """The plan is what is, and what block rules have caught is counted with it: once."""
        settled = self._parts.senders.settle(tx, before, plan)
        if settled is not None and plan.caught:
            self._parts.rules.note_caught(tx, plan.caught)
        return settled

    def _send(self, plan: SenderPlan, records: Sequence[NewRecord]) -> None:
        """In one transaction of the log: the records, and how many bytes are acknowledged with them."""
        with self._producer.transaction() as out:
            if records:
                out.append(self._topic, records)
            out.commit_positions(self._group, {SPOT: plan.position})

    def _lost(self) -> NotYet:
        retry_s = self._parts.settings.gateway.retry_after_s
        return NotYet("busy", f"another process has taken over sender {self._name}; send the chunk again", retry_s)

    def _tell(self, before: UploadSender) -> None:
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


def sender_group(upload: str, sender: str) -> str:
    """The group of a sender; the janitor forgets it when the upload has ended."""
    return shortened(f"{GROUP_PREFIX}{upload}.{sender}")


def sender_producer(upload: str, sender: str) -> str:
    """The producer of a sender: whoever opens it last is the one that serves it."""
    return producer_of("gateway", upload, sender)


def ensure_topic(log: Log, name: str, partitions: int | None = None, *, is_forever: bool = False) -> None:
    """Make the topic if it is not there."""
    try:
        log.topic(name)
    except UnknownTopic:
        with suppress(TopicExists):  # another process was faster
            log.create_topic(name, partitions, retention_s=FOREVER if is_forever else None)


class SenderSlots:
    """Slots by sender, made when first asked for, closed when nobody has used them for a while."""

    def __init__(self, clock: Clock, retry_after_s: float) -> None:
        self._clock = clock
        self._retry_after_s = retry_after_s
        self._lock = threading.Lock()
        self._slots: dict[Which, SenderSlot] = {}

    @contextmanager
    def slot(self, upload: str, sender: str) -> Iterator[SenderSlot]:
        """The slot of a sender, for one at a time; `NotYet` when another request of it takes too long."""
        slot = self._taken((upload, sender))
        try:
            yield slot
        finally:
            slot.used_at = self._clock.monotonic()
            slot.lock.release()

    def _taken(self, which: Which) -> SenderSlot:
        while True:
            with self._lock:
                slot = self._slots.setdefault(which, SenderSlot())
            if not slot.lock.acquire(timeout=PATIENCE_S):
                message = f"another request of sender {which[1]} is being worked on; send it again"
                raise NotYet("busy", message, self._retry_after_s)
            if not slot.is_gone:
                return slot
            slot.lock.release()

    def count(self) -> int:
        """How many send: what was taken of them last is not long ago, and they have not finished."""
        since = self._clock.monotonic() - RECENT_S
        with self._lock:
            return sum(slot.run is not None and slot.used_at > since for slot in self._slots.values())

    def close_idle(self, idle_s: float) -> int:
        """Let go of those that were not used for so long; returns how many."""
        before = self._clock.monotonic() - idle_s
        with self._lock:
            slots = list(self._slots.items())
        return sum(self._close(which, slot, before) for which, slot in slots)

    def _close(self, which: Which, slot: SenderSlot, before: float) -> bool:
        if not slot.lock.acquire(blocking=False):
            return False  # at work
        try:
            if slot.used_at > before or slot.is_gone:
                return False
            slot.is_gone = True
            slot.drop()
        finally:
            slot.lock.release()
        with self._lock:
            self._slots.pop(which, None)
        return True

    def close(self) -> None:
        """Let go of all, once nobody is at work with them."""
        with self._lock:
            slots, self._slots = self._slots, {}
        for slot in slots.values():
            with slot.lock:
                slot.is_gone = True
                slot.drop()


class SenderSlot:
    """One sender: who holds its lock may use its run."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.run: SenderRun | None = None
        self.used_at = 0.0
        self.is_gone = False

    def drop(self) -> None:
        """Let go of the run: the next one finds out from the log how far it came."""
        run, self.run = self.run, None
        if run is not None:
            with suppress(LogError):  # what is committed stays, and the rest is not waited for
                run.close()


class SenderContext:
    """What the runs of all senders of a gateway share."""

    def __init__(
        self, settings: Settings, database: Database, events: Events, log: Callable[[], Log], *, blocks: BlockService
    ) -> None:
        self.settings = settings
        self.database = database
        self.events = events
        self.streams = Streams(settings.gateway)
        self.uploads = UploadStore(database)
        self.senders = SenderStore(database)
        self.blocks = blocks
        self.rules = BlockStore(database)
        self._open_log = log
        self._gate = FairGate(AT_ONCE)

    @cached_property
    def log(self) -> Log:
        """Opened by the first who sends: uploads can be looked at where there is none."""
        return self._open_log()

    def turn(self) -> AbstractContextManager[None]:
        """To be held while lines are taken: on SQLite by few at a time, and by none before its turn."""
        return self._gate.turn() if isinstance(self.log, SqliteLog) else nullcontext()

    @property
    def most_lines(self) -> int:
        return SQLITE_LINES if isinstance(self.log, SqliteLog) else BROKER_LINES

    @property
    def most_bytes(self) -> int:
        return SQLITE_BYTES if isinstance(self.log, SqliteLog) else BROKER_BYTES


class FairGate:
    """Places that are handed on to whoever has waited longest; a lock goes to whoever is quickest."""

    def __init__(self, places: int) -> None:
        self._lock = threading.Lock()
        self._free = places
        self._waiting: deque[threading.Event] = deque()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn, and pass it on at the end of the block."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        mine = threading.Event()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            self._waiting.append(mine)
        mine.wait()

    def _leave(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1
