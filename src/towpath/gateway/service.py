"""The gateway: what clients ask for when they send. HTTP is in `towpath.web`; here is what it means.

Every act is safe to repeat, since a client that was cut off does not know whether it was done. `Readiness` decides
whether a sender has to wait: for another input of its upload, or for the flow, which has too much to read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from uuid import UUID, uuid4

from towpath.core import crash
from towpath.core.clock import MICROS, Clock
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.errors import (
    BadValue,
    ChunkGap,
    ChunkTooLarge,
    IllegalUploadMove,
    LineTooLong,
    NotYet,
    ProducerFenced,
    SessionReplaced,
    SumDiffers,
    TowpathError,
    UnknownUpload,
    UploadExists,
    UploadTooLarge,
)
from towpath.flow.stage.store import StageRow, StageStore
from towpath.gateway.completion.plan import PassStore
from towpath.gateway.lines.lines import LARGEST, SHOWN_CHARACTERS, BytePosition, known_bytes
from towpath.gateway.sender_run import TOPIC, SenderContext, SenderRun, SenderSlot, SenderSlots, ensure_topic
from towpath.gateway.uploads.model import (
    ChunkReceipt,
    SenderRequest,
    StoredUpload,
    UploadMove,
    UploadSender,
    UploadState,
    UploadStatus,
)
from towpath.gateway.uploads.streams import Stream, Streams, check_columns, check_new, is_same

TRUSTED_S = 1.0  # how long what was found out about a flow is believed

logger = logging.getLogger(__name__)
LONGEST_LABEL = 200
SETTLED_AT_ONCE = 100
LEAST_SHARE_BYTES = 16 << 10  # smaller chunks cost more than they bring
MOST_LISTED = 1_001  # a thousand, and one more to see whether there are more


class Gateway:
    """Uploads and their senders. `owner` is the name of who asks; None is an operator, who may see all."""

    def __init__(self, parts: SenderContext, event_log: EventLog, clock: Clock) -> None:
        self._parts = parts
        self._event_log = event_log
        self._settings = parts.settings.gateway
        self._slots = SenderSlots(clock, self._settings.retry_after_s)
        self._readiness = Readiness(parts, clock)

    @property
    def streams(self) -> Streams:
        return self._parts.streams

    # Uploads

    def open(
        self, stream: str, senders: Sequence[SenderRequest], *, owner: str, label: str = "", id: str | None = None
    ) -> UploadStatus:
        """Open an upload for a stream. With an `id` of the client's own, asking twice opens one."""
        found, id = self.streams.stream(stream), _checked_id(id)
        check_who(owner)
        check_new(found, senders)
        if len(label) > LONGEST_LABEL:
            raise BadValue(f"label: at most {LONGEST_LABEL} characters, not {len(label)}")
        self._ensure_topics(found, senders)
        status = commit_by_hand(self._parts.database, lambda tx: self._open(tx, id, stream, senders, owner, label))
        crash.here(CrashPoint.UPLOAD_OPENED)
        return status

    def _open(
        self, tx: Transaction, id: str, stream: str, senders: Sequence[SenderRequest], owner: str, label: str
    ) -> UploadStatus:
        upload, is_new = self._parts.uploads.open(tx, id=id, stream=stream, owner=owner, label=label)
        if not is_new:
            status = self._status(tx, upload)
            if upload.owner != owner or upload.stream != stream or not is_same(senders, status.senders):
                raise UploadExists(id)
            return status
        for place, new in enumerate(senders):
            self._parts.senders.add(tx, id, new, place)
        data = {"stream": stream, "label": label, "senders": {new.name: new.input for new in senders}}
        self._event_log.record(tx, Event(EventKind.UPLOAD_OPENED, id, owner, data=data))
        crash.here(CrashPoint.UPLOAD_OPEN_BEFORE_COMMIT)
        return self._status(tx, upload)

    def _ensure_topics(self, stream: Stream, senders: Sequence[SenderRequest]) -> None:
        ensure_topic(self._parts.log, TOPIC, 1, is_forever=True)  # where senders keep how far they are
        for name in {new.input for new in senders}:
            input = stream.input(name)
            ensure_topic(self._parts.log, input.topic, input.partitions)

    def status(self, upload: str, *, owner: str | None) -> UploadStatus:
        """An upload with its senders; `UnknownUpload` when it is somebody else's."""
        with self._parts.database.read() as tx:
            return self._status(tx, self._owned(tx, upload, owner))

    def list(
        self,
        *,
        owner: str | None = None,
        stream: str | None = None,
        state: UploadState | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[StoredUpload]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        if not 1 <= limit <= MOST_LISTED:
            raise BadValue(f"limit={limit}: it is 1 to {MOST_LISTED}")
        which = {"owner": owner, "stream": stream}
        with self._parts.database.glance() as tx:
            return self._parts.uploads.page(tx, **which, state=state, before=before, limit=limit)

    def abort(self, upload: str, *, owner: str | None, who: str, why: str) -> UploadStatus:
        """Give it up. What was taken stays in the log, and the flow goes on with it. Twice does no harm."""
        check_who(who)
        check_why(why)
        return commit_by_hand(self._parts.database, lambda tx: self._abort(tx, upload, owner, who, why))

    def _abort(self, tx: Transaction, upload: str, owner: str | None, who: str, why: str) -> UploadStatus:
        found = self._owned(tx, upload, owner)
        if found.state is not UploadState.ABORTED:
            data = {"stream": found.stream, "from": found.state}
            found = self._parts.uploads.move(tx, found.id, UploadMove.ABORT, who=who, why=why)
            self._event_log.record(tx, Event(EventKind.UPLOAD_ABORTED_BY_HAND, found.id, who, why, data))
        return self._status(tx, found)

    # Senders

    def session(
        self, upload: str, sender: str, *, owner: str | None, columns: Sequence[str] | None = None
    ) -> UploadSender:
        """A new connection of a sender, which alone counts from now on, and how far the sender is.

        `columns` are those of a CSV: said now if they were not said at the opening, and otherwise the same. A sender
        that has finished is given as it is.
        """
        with self._slot(upload, sender) as slot:
            stream, before = self._seen(upload, sender, owner)
            if columns is not None:
                check_columns(stream, before, columns)
            if before.is_finished:
                return before
            with self._parts.database.transaction() as tx:
                self._parts.uploads.touch(tx, before.upload)
                found = self._parts.senders.next_session(tx, before.upload, sender, columns)
            crash.here(CrashPoint.SESSION_RAISED)
            if found is None:
                raise self._refusal(before.upload, sender)
            return found if found.plan is None else self._run(slot, stream, found).sender

    def ready(self, upload: str, sender: str, *, owner: str | None) -> None:
        """Whether a chunk of the sender can be taken now; `NotYet` when it has to wait."""
        stream, found = self._seen(upload, sender, owner)
        self._readiness.check(stream, found)

    def take(
        self,
        upload: str,
        sender: str,
        *,
        owner: str | None,
        session: int,
        offset: int,
        sequence: int,
        data: bytes,
        last: bool = False,
    ) -> ChunkReceipt:
        """Take the whole lines of a chunk; with `last` all of it. When it returns they are in the log.

        A chunk that is known is answered with how far the sender is, and so is one without a whole line: send more.
        """
        place = BytePosition(offset, sequence)
        if len(data) > self._settings.chunk_bytes:
            raise ChunkTooLarge(self._settings.chunk_bytes)
        with self._slot(upload, sender) as slot:
            stream, before = self._sending(upload, sender, owner, session)
            if before.plan is None and known_bytes(_place(before), place, len(data)) is None:
                return before.taken(is_repeat=True)
            self._readiness.check(stream, before)
            with self._guarded(slot, before, session):
                run = self._run(slot, stream, before)
                known = known_bytes(_place(run.sender), place, len(data))
                if known is None:
                    return run.sender.taken(is_repeat=True)
                self._check_size(run.sender, len(data) - known, data.count(b"\n", known))
                return run.take(session, sequence, data[known:], is_last=last)

    def next_bytes(self) -> int:
        """How large the next chunk of a sender may be, for all who send at the time to get the same.

        Every one of them gets a chunk a turn. Together they send one of the largest size: who waits for their turn
        waits no longer for many than for one.
        """
        most = self._settings.chunk_bytes
        return min(most, max(most // max(1, self._slots.count()), LEAST_SHARE_BYTES))

    def skip(
        self,
        upload: str,
        sender: str,
        *,
        owner: str | None,
        session: int,
        offset: int,
        sequence: int,
        bytes: int,
        crc32: int,
        beginning: bytes = b"",
        why: str = "",
    ) -> ChunkReceipt:
        """Pass over one line of so many bytes, its end included: it becomes a refused line with its beginning.

        `crc32` is that of all bytes up to the end of the line, which are never seen here.
        """
        place = BytePosition(offset, sequence)
        _check_number("bytes", bytes, 1, LARGEST - offset)
        _check_number("crc32", crc32, 0, 0xFFFFFFFF)
        with self._slot(upload, sender) as slot:
            stream, before = self._sending(upload, sender, owner, session)
            if before.plan is None and known_bytes(_place(before), place, bytes) is None:
                return before.taken(is_repeat=True)
            with self._guarded(slot, before, session):
                run = self._run(slot, stream, before)
                known = known_bytes(_place(run.sender), place, bytes)
                if known is None:
                    return run.sender.taken(is_repeat=True)
                if known:
                    raise ChunkGap(offset, run.sender.position)
                self._check_size(run.sender, bytes, 1)
                kept = beginning[: 4 * SHOWN_CHARACTERS]
                return run.skip(session, sequence, bytes, crc32, kept, why.strip() or "its sender has skipped it")

    def finish(
        self, upload: str, sender: str, *, owner: str | None, session: int, bytes: int, crc32: int
    ) -> UploadStatus:
        """End a sender after so many bytes with that sum. With the last sender, the upload closes."""
        with self._slot(upload, sender) as slot:
            _, before = self._seen(upload, sender, owner)
            if before.is_finished:
                _check_sum(before, bytes, crc32)
                return self.status(upload, owner=owner)
            stream, before = self._sending(upload, sender, owner, session)
            with self._guarded(slot, before, session):
                if before.plan is not None:
                    before = self._run(slot, stream, before).sender
                _check_sum(before, bytes, crc32)
                # Asked for after its last transaction, and before anybody can ask where its data ends.
                ends = self._parts.log.written_ends(stream.input(before.input).topic)
                status = self._finish(before, session, ends)
            slot.drop()
            return status

    def _finish(self, before: UploadSender, session: int, ends: dict[int, int]) -> UploadStatus:
        uploads, senders = self._parts.uploads, self._parts.senders
        with self._parts.database.transaction() as tx:
            upload = uploads.locked(tx, before.upload)  # so that of two last senders one closes it
            found = senders.finish(tx, before, session, ends)
            if found is None:
                raise NotYet("busy", f"sender {before.name} has moved on; ask again", self._settings.retry_after_s)
            data = {"bytes": found.position, "lines": found.line, "refused": found.refused, "blocked": found.blocked}
            name = f"{upload.id}/{found.name}"
            self._event_log.record(tx, Event(EventKind.SENDER_FINISHED, name, upload.owner, data=data))
            if not senders.receiving(tx, upload.id):
                upload = uploads.move(tx, upload.id, UploadMove.CLOSE)
                about = {"stream": upload.stream}
                self._event_log.record(tx, Event(EventKind.UPLOAD_RECEIVED, upload.id, data=about))
            status = self._status(tx, upload)
            crash.here(CrashPoint.SENDER_FINISH_BEFORE_COMMIT)
        crash.here(CrashPoint.SENDER_FINISHED)
        return status

    # Upkeep

    def close_idle(self) -> int:
        """Close what is kept open for senders that have not sent for a while; returns how many."""
        return self._slots.close_idle(self._settings.idle_s)

    def settle_idle(self) -> int:
        """Decide what was left under way by processes that died, for senders that do not come back; how many."""
        before_us = self._parts.database.now() - int(self._settings.settle_s * MICROS)
        with self._parts.database.glance() as tx:
            found = self._parts.senders.unsettled(tx, before_us, SETTLED_AT_ONCE)
        return sum(self._settle(each) for each in found)

    def _settle(self, sender: UploadSender) -> bool:
        try:
            with self._slots.slot(sender.upload, sender.name) as slot:
                stream, now = self._seen(sender.upload, sender.name, None)
                if now.plan is None:
                    return False  # whoever was at it has come to its end meanwhile
                self._run(slot, stream, now)
                slot.drop()
            return True
        except TowpathError as error:
            logger.warning("what sender %s of upload %s has under way: %s", sender.name, sender.upload, error)
            return False

    def close(self) -> None:
        """Let go of all producers."""
        self._slots.close()

    # What is there

    def _owned(self, tx: Transaction, upload: str, owner: str | None) -> StoredUpload:
        found = self._parts.uploads.read(tx, _checked_known(upload))
        if owner is not None and found.owner != owner:
            raise UnknownUpload(upload)
        return found

    def _status(self, tx: Transaction, upload: StoredUpload) -> UploadStatus:
        return UploadStatus(upload, tuple(self._parts.senders.of_upload(tx, upload.id)))

    def _seen(self, upload: str, sender: str, owner: str | None) -> tuple[Stream, UploadSender]:
        with self._parts.database.read() as tx:
            found = self._owned(tx, upload, owner)
            return self.streams.stream(found.stream), self._parts.senders.read(tx, found.id, sender)

    def _sending(self, upload: str, sender: str, owner: str | None, session: int) -> tuple[Stream, UploadSender]:
        """Stream and sender, checked: the sender may send in that session."""
        with self._parts.database.read() as tx:
            found = self._owned(tx, upload, owner)
            before = self._parts.senders.read(tx, found.id, sender)
        if found.state is not UploadState.RECEIVING:
            raise IllegalUploadMove(found.id, found.state, "send", (UploadState.RECEIVING,))
        if session != before.session:
            raise SessionReplaced(before.upload, before.name, session, before.session)
        if before.is_finished:
            raise BadValue(f"sender {sender} has finished at {before.position} bytes; nothing more is taken of it")
        return self.streams.stream(found.stream), before

    def _check_size(self, before: UploadSender, more_bytes: int, more_lines: int) -> None:
        most_bytes, most_lines = self._settings.upload_bytes, self._settings.upload_lines
        if most_bytes is None and most_lines is None:
            return
        with self._parts.database.glance() as tx:
            bytes, lines = self._parts.senders.taken(tx, before.upload)
        if most_bytes is not None and bytes + more_bytes > most_bytes:
            raise UploadTooLarge("bytes", most_bytes)
        if most_lines is not None and lines + more_lines > most_lines:
            raise UploadTooLarge("lines", most_lines)

    # Who is at work

    def _slot(self, upload: str, sender: str) -> AbstractContextManager[SenderSlot]:
        return self._slots.slot(_checked_known(upload), sender)

    def _run(self, slot: SenderSlot, stream: Stream, before: UploadSender) -> SenderRun:
        """The run of the slot if it is where the row is; otherwise another process, or a failure, was in between."""
        run = slot.run
        if run is None or before.plan is not None or run.sender.position != before.position:
            slot.drop()
            run = slot.run = SenderRun(self._parts, stream, before.upload, before.name)
        return run

    @contextmanager
    def _guarded(self, slot: SenderSlot, before: UploadSender, session: int) -> Iterator[None]:
        """After any failure the run is given up; what other processes have changed is told as what it is."""
        try:
            yield
        except (LineTooLong, ChunkGap, SumDiffers, UploadTooLarge):
            raise  # found out before anything was begun
        except (ProducerFenced, NotYet) as error:
            slot.drop()
            self._sending(before.upload, before.name, None, session)  # raises when that is why
            message = f"another process has served sender {before.name} meanwhile; send it again"
            raise NotYet("busy", message, self._settings.retry_after_s) from error
        except BaseException:
            slot.drop()
            raise

    def _refusal(self, upload: str, sender: str) -> TowpathError:
        """Why nothing is taken of a sender any more."""
        with self._parts.database.read() as tx:
            found = self._parts.uploads.read(tx, upload)
        if found.state is UploadState.RECEIVING:
            return NotYet("busy", f"sender {sender} has just finished; ask again", self._settings.retry_after_s)
        return IllegalUploadMove(found.id, found.state, "send", (UploadState.RECEIVING,))


def _place(sender: UploadSender) -> BytePosition:
    return BytePosition(sender.position, sender.sequence)


def _check_sum(sender: UploadSender, bytes: int, crc32: int) -> None:
    if (bytes, crc32) != (sender.position, sender.crc32):
        raise SumDiffers(
            f"sender {sender.name} says {bytes} bytes with the sum {crc32}, and {sender.position} bytes with the sum "
            f"{sender.crc32} are there; send what is missing, or abort if the data was changed"
        )


def _check_number(name: str, value: int, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise BadValue(f"{name}={value!r}: it is a whole number from {least} to {most}")


def _checked_id(id: str | None) -> str:
    try:
        return str(uuid4() if id is None else UUID(id))
    except (ValueError, AttributeError, TypeError) as error:
        raise BadValue(f"id={id!r}: the id of an upload is a UUID") from error


def _checked_known(id: str) -> str:
    try:
        return str(UUID(id))
    except (ValueError, AttributeError, TypeError) as error:
        raise UnknownUpload(str(id)) from error


class Readiness:
    """Whether a sender has to wait. Asked before every chunk, so what takes time is looked up once a second."""

    def __init__(self, parts: SenderContext, clock: Clock) -> None:
        self._parts = parts
        self._clock = clock
        self._passes = PassStore(parts.database)
        self._stages = StageStore(parts.database)
        self._lock = threading.Lock()
        self._behind: dict[tuple[str, str], tuple[float, int]] = {}  # by flow and topic: when asked, how many

    def check(self, stream: Stream, sender: UploadSender) -> None:
        """Raise `NotYet` when the sender has to wait."""
        for name in stream.input(sender.input).after:
            self._check_passed(sender, name)
        if stream.flow:
            self._check_behind(stream.flow, stream.input(sender.input).topic)

    def _check_passed(self, sender: UploadSender, name: str) -> None:
        with self._parts.database.read() as tx:
            is_sent = any(each.input == name for each in self._parts.senders.of_upload(tx, sender.upload))
            is_passed = not is_sent or self._passes.has_passed(tx, sender.upload, name)
        if not is_passed:
            raise self._not_yet(
                "after", f"{sender.input} is taken when {name} of this upload is through; send it later"
            )

    def _check_behind(self, flow: str, topic: str) -> None:
        most = self._parts.settings.gateway.behind_records
        behind = self._known_behind(flow, topic)
        if behind > most:
            message = f"flow {flow} has about {behind} records of {topic} to read (gateway.behind_records is {most})"
            raise self._not_yet("behind", f"{message}; send it later")

    def _known_behind(self, flow: str, topic: str) -> int:
        now = self._clock.monotonic()
        with self._lock:
            asked_at, behind = self._behind.get((flow, topic), (float("-inf"), 0))
        if now - asked_at > TRUSTED_S:
            behind = self._measured(flow, topic)
            with self._lock:
                self._behind[flow, topic] = (now, behind)
        return behind

    def _measured(self, flow: str, topic: str) -> int:
        """How far the slowest stage is behind the end of the topic. Offsets are no counts, but near enough for this."""
        with self._parts.database.read() as tx:
            stages = self._stages.list(tx, flow)
        positions = [found for stage in stages if (found := _positions(stage, topic))]
        if not positions:
            return 0
        starts, ends = self._parts.log.starts(topic), self._parts.log.ends(topic)
        return max(
            sum(max(0, end - max(each.get(number, 0), starts.get(number, 0))) for number, end in ends.items())
            for each in positions
        )

    def _not_yet(self, reason: str, message: str) -> NotYet:
        return NotYet(reason, message, self._parts.settings.gateway.retry_after_s)


def _positions(stage: StageRow, topic: str) -> dict[int, int]:
    """Where the stage was in the topic when it last said so, by partition."""
    partitions = stage.sample.get("partitions", ())
    return {each["partition"]: each["position"] for each in partitions if each["topic"] == topic}
