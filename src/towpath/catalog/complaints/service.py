"""The complaints of one database: what `runtime.complaints` is, and their janitor.

The record behind a complaint is found by the document's id where Towpath has made that, else a person names it. `rerun`
sends this record to its topic again, once, however often it is asked for: with the record the log commits, in one
transaction, a position of a group that only this complaint has. A retry after a crash opens the producer, which settles
what an older one has under way, and looks for that position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

from towpath.blocks.rule import BlockAction, BlockMatch
from towpath.blocks.service import BlockService
from towpath.catalog.complaints.store import (
    OPEN,
    Complaint,
    ComplaintMove,
    ComplaintState,
    ComplaintStore,
    DocumentOrigin,
    NewComplaint,
)
from towpath.core.clock import MICROS
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.errors import (
    BadValue,
    IllegalComplaintMove,
    OffsetOutOfRange,
    RecordUnknown,
    TooFast,
    TopicExists,
    UnknownPartition,
    UnknownTopic,
)
from towpath.flow.sinks.index.reader import parse_coordinates
from towpath.flow.stage.store import StageStore
from towpath.flow.topics import FOREVER, producer_of
from towpath.log.log import Log
from towpath.log.record import NewRecord, Record
from towpath.settings import ComplaintSettings

READER = "a reader"  # in whose name what comes without one is written down
LONGEST = {"target": 300, "document": 1_000, "said": 5_000, "contact": 300, "flow": 300}
LONGEST_REPLY = 5_000
MOST_ABOUT = 100
COME_BACK_S = 3600.0
MOST_PER_COMMIT = 1_000

TOPIC = "towpath.complaints"  # it never has a record: positions in it hold no reader back
SPOT = (TOPIC, 0)
SENT = 1


class Complaints:
    """All operations on complaints. Each change is one transaction with its event."""

    def __init__(
        self,
        database: Database,
        settings: ComplaintSettings,
        events: Events,
        event_log: EventLog,
        blocks: BlockService,
        log: Callable[[], Log],
    ) -> None:
        self.settings = settings
        self._database = database
        self._events = events
        self._event_log = event_log
        self._blocks = blocks
        self._log = log
        self._store = ComplaintStore(database)
        self._stages = StageStore(database)

    # Looking

    def list(
        self, *, state: ComplaintState | None = None, limit: int = 100, before: int | None = None
    ) -> list[Complaint]:
        """The newest first; `before` is the number of the last one of the page before."""
        with self._database.glance() as tx:
            return self._store.page(tx, limit=limit, before=before, state=state)

    def show(self, number: int) -> Complaint:
        """A complaint by its number; raises `UnknownComplaint`."""
        with self._database.glance() as tx:
            return self._store.read(tx, number)

    def others(self, complaint: Complaint) -> Sequence[Complaint]:
        """What else was said about its document, the newest first."""
        about = complaint.about
        with self._database.glance() as tx:
            found = self._store.about(tx, about.target, about.document, MOST_ABOUT)
        return [each for each in found if each.number != complaint.number]

    def counts(self) -> dict[ComplaintState, int]:
        """How many there are in each state."""
        with self._database.glance() as tx:
            return self._store.counts(tx)

    # Making

    def make(self, new: NewComplaint, *, who: str | None = None) -> Complaint:
        """Record a complaint, made by `who` of the staff, or by a reader (None); `TooFast` when too many wait."""
        _check(new)
        return commit_by_hand(self._database, lambda tx: self._make(tx, new, who))

    def _make(self, tx: Transaction, new: NewComplaint, who: str | None) -> Complaint:
        most = self.settings.most_new
        if who is None and self._store.new(tx, most) >= most:
            raise TooFast("there are more complaints than anybody has looked at; come back later", COME_BACK_S)
        origin = self._origin_of(tx, new.document, new.flow)
        made = self._store.add(tx, new, who, origin)
        data = {"target": new.target, "document": new.document, "record": None if origin is None else str(origin)}
        self._event_log.record(tx, Event(EventKind.COMPLAINT_MADE, str(made.number), who or READER, data=data))
        return made

    def _origin_of(self, tx: Transaction, document: str, flow: str | None) -> DocumentOrigin | None:
        """The record behind a document id that Towpath has made. None for other ids, or when flows disagree."""
        place = parse_coordinates(document)
        if place is None:
            return None
        topic, incarnation, partition, offset, _ = place
        known = [stage.topics.get(topic, ()) for stage in self._stages.list(tx, flow)]
        ids = {each[incarnation] for each in known if incarnation < len(each)}
        return DocumentOrigin(topic, ids.pop(), partition, offset) if len(ids) == 1 else None

    # Acting

    def take(self, number: int, *, who: str, why: str) -> Complaint:
        """Record that this person works on it."""
        return self._change(number, who, why, {"what": "taken"}, lambda tx: self._store.take(tx, number, who))

    def link(self, number: int, topic: str, partition: int, offset: int, *, who: str, why: str) -> Complaint:
        """Record which record its document was made from."""
        origin = _origin_at(self._log(), topic, partition, offset)
        data = {"what": "linked", "record": str(origin)}
        return self._change(number, who, why, data, lambda tx: self._store.link(tx, number, origin))

    def dismiss(self, number: int, *, reply: str, who: str, why: str) -> Complaint:
        """Settle it without doing anything; `reply` is what its reader may be told."""
        if not reply.strip():
            raise BadValue("a complaint is dismissed with a reply for its reader")
        return self._settle(number, ComplaintMove.DISMISS, who, why, reply)

    def block(
        self,
        number: int,
        *,
        until: str | date | datetime,
        who: str,
        why: str,
        action: BlockAction = BlockAction.IGNORE,
        approved_by: str | None = None,
        reply: str | None = None,
    ) -> Complaint:
        """Keep records of its key out of its topic from now on, by a rule that is made with it."""
        match = self._match(number)
        check_who(who)
        check_why(why)
        _check_reply(reply)

        def act(tx: Transaction) -> Complaint:
            reason = f"complaint {number}: {why}"
            made = self._blocks.add_in(tx, action, match, until=until, who=who, why=reason, approved_by=approved_by)
            rule = made.rule.number
            done = self._store.settle(tx, number, ComplaintMove.BLOCK, who=who, why=why, reply=reply, rule=rule)
            self._record(tx, number, who, why, {"what": ComplaintMove.BLOCK, "rule": rule})
            return done

        return commit_by_hand(self._database, act)

    def _match(self, number: int) -> BlockMatch:
        record = _record_of(self._log(), self.show(number))
        if record.key is None:
            raise RecordUnknown(f"its record has no key; say which records: towpath block add --topic {record.topic}")
        try:
            return BlockMatch.of(topic=record.topic, key=record.key.decode())
        except UnicodeDecodeError as error:
            raise RecordUnknown("the key of its record is no text; say which records: towpath block add") from error

    def rerun(self, number: int, *, who: str, why: str, reply: str | None = None) -> Complaint:
        """Send its record to its topic again, where it counts as a new one. Asked for again, it is sent once."""
        check_who(who)
        check_why(why)
        _check_reply(reply)
        before, log = self.show(number), self._log()
        if before.state not in OPEN:
            raise IllegalComplaintMove(number, before.state, f"being {ComplaintMove.RERUN}", OPEN)
        _resend_once(log, number, _record_of(log, before))
        done = self._settle(number, ComplaintMove.RERUN, who, why, reply)
        log.forget_group(group_of(number))  # it is settled: nobody will ask again
        return done

    def _settle(self, number: int, move: ComplaintMove, who: str, why: str, reply: str | None) -> Complaint:
        _check_reply(reply)
        data = {"what": move.value}
        return self._change(
            number, who, why, data, lambda tx: self._store.settle(tx, number, move, who=who, why=why, reply=reply)
        )

    def _change(
        self, number: int, who: str, why: str, data: Mapping[str, object], act: Callable[[Transaction], Complaint]
    ) -> Complaint:
        check_who(who)
        check_why(why)

        def both(tx: Transaction) -> Complaint:
            made = act(tx)
            self._record(tx, number, who, why, data)
            return made

        return commit_by_hand(self._database, both)

    def _record(self, tx: Transaction, number: int, who: str, why: str, data: Mapping[str, object]) -> None:
        self._event_log.record(tx, Event(EventKind.COMPLAINT_CHANGED_BY_HAND, str(number), who, why, data))

    def janitor(self) -> ComplaintJanitor:
        """Deletes what was settled long ago; `towpath api run` runs one."""
        return ComplaintJanitor(self._database, self.settings, self._events)


class ComplaintJanitor(Service):
    """Deletes complaints that were settled long ago.

    Runs in every process that answers requests; two at once only share the work.
    """

    name = "complaint janitor"

    def __init__(self, database: Database, settings: ComplaintSettings, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._settings = settings
        self._store = ComplaintStore(database)

    def run_once(self) -> RoundResult:
        return RoundResult(self.clean(), self._settings.janitor_s)

    def clean(self) -> int:
        """Delete all that is past its time; returns how many."""
        if self._settings.retention_s is None:
            return 0
        before_us, total = self._database.now() - int(self._settings.retention_s * MICROS), 0
        while True:
            with self._database.single() as tx:
                deleted = self._store.forget(tx, before_us, MOST_PER_COMMIT)
            total += deleted
            if deleted < MOST_PER_COMMIT or self.is_stopping:
                return total


def _origin_at(log: Log, topic: str, partition: int, offset: int) -> DocumentOrigin:
    """The place of a record that a person names; `RecordUnknown` when there is none."""
    found = log.topic(topic)
    if log.record(topic, partition, offset) is None:
        raise RecordUnknown(f"{topic}/{partition}/{offset} holds no record")
    return DocumentOrigin(topic, found.id, partition, offset)


def _record_of(log: Log, complaint: Complaint) -> Record:
    """The record behind a complaint; raises `RecordUnknown`."""
    origin = complaint.origin
    if origin is None:
        raise RecordUnknown(
            f"nobody knows which record document {complaint.about.document!r} was made from; say it: "
            f"towpath complaint act {complaint.number} link --record TOPIC/PARTITION/OFFSET"
        )
    try:
        is_there = log.topic(origin.topic).id == origin.topic_id
        found = log.record(origin.topic, origin.partition, origin.offset) if is_there else None
    except (UnknownTopic, UnknownPartition, OffsetOutOfRange):
        found = None
    if found is None:
        raise RecordUnknown(f"the record {origin} is not in the log any more")
    return found


def _resend_once(log: Log, number: int, record: Record) -> None:
    """Send the record to its topic as a new one; raises `ProducerFenced` when somebody else does this meanwhile."""
    _ensure_topic(log)
    producer = log.producer(producer_of("complaint", str(number)))
    try:
        if SPOT in log.positions(group_of(number)):
            return
        with producer.transaction() as out:
            out.append(record.topic, [NewRecord(record.value, record.key, record.headers)])
            out.commit_positions(group_of(number), {SPOT: SENT})
    finally:
        producer.close()


def group_of(number: int) -> str:
    return f"towpath.complaint.{number}"


def _ensure_topic(log: Log) -> None:
    try:
        log.topic(TOPIC)
    except UnknownTopic:
        try:
            log.create_topic(TOPIC, 1, retention_s=FOREVER)
        except TopicExists:
            return  # another process was faster


def _check(new: NewComplaint) -> None:
    for name, most in LONGEST.items():
        text = getattr(new, name)
        if text is None and name in ("contact", "flow"):
            continue
        if not text.strip() or len(text) > most:
            raise BadValue(f"{'text' if name == 'said' else name}: it has 1 to {most} characters")


def _check_reply(reply: str | None) -> None:
    if reply is not None and not 0 < len(reply.strip()) <= LONGEST_REPLY:
        raise BadValue(f"reply: it has 1 to {LONGEST_REPLY} characters")
