"""The complaints of one database: what `runtime.complaints` is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

from towpath.access.block_rule import BlockAction, BlockMatch
from towpath.access.blocks import Blocks
from towpath.catalog.complaint import Complaint, NewComplaint
from towpath.catalog.complaint_janitor import ComplaintJanitor
from towpath.catalog.complaint_origin import Origins, origin_at, record_of
from towpath.catalog.complaint_resending import forget_sending, resend_once
from towpath.catalog.complaint_state import OPEN, ComplaintMove, ComplaintState
from towpath.catalog.complaint_store import ComplaintStore
from towpath.db import Database, Transaction
from towpath.db.by_hand import check_who, check_why, commit_by_hand
from towpath.db.event_log import EventLog
from towpath.errors import BadValue, IllegalComplaintMove, RecordUnknown, TooFast
from towpath.events import Event, EventKind, Events
from towpath.log.log import Log
from towpath.settings import ComplaintSettings

READER = "a reader"  # in whose name what comes without one is written down
LONGEST = {"target": 300, "document": 1_000, "said": 5_000, "contact": 300, "flow": 300}
LONGEST_REPLY = 5_000
MOST_ABOUT = 100
COME_BACK_S = 3600.0


class Complaints:
    """What readers say about documents. Each change is one transaction with its event."""

    def __init__(
        self,
        database: Database,
        settings: ComplaintSettings,
        events: Events,
        event_log: EventLog,
        blocks: Blocks,
        log: Callable[[], Log],
    ) -> None:
        self.settings = settings
        self._database = database
        self._events = events
        self._event_log = event_log
        self._blocks = blocks
        self._log = log
        self._store = ComplaintStore(database)
        self._origins = Origins(database)

    # Looking

    def list(
        self, *, state: ComplaintState | None = None, limit: int = 100, before: int | None = None
    ) -> list[Complaint]:
        """The newest first; `before` is the number of the last one of the page before."""
        with self._database.glance() as tx:
            return self._store.page(tx, limit=limit, before=before, state=state)

    def show(self, number: int) -> Complaint:
        """One of them; raises `UnknownComplaint`."""
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
        """Write down what somebody says; `who` of the staff, or None: a reader, of whom not too many are heard."""
        _check(new)
        return commit_by_hand(self._database, lambda tx: self._make(tx, new, who))

    def _make(self, tx: Transaction, new: NewComplaint, who: str | None) -> Complaint:
        most = self.settings.most_new
        if who is None and self._store.new(tx, most) >= most:
            raise TooFast("there are more complaints than anybody has looked at; come back later", COME_BACK_S)
        origin = self._origins.of_document(tx, new.document, new.flow)
        made = self._store.add(tx, new, who, origin)
        data = {"target": new.target, "document": new.document, "record": None if origin is None else str(origin)}
        self._event_log.record(tx, Event(EventKind.COMPLAINT_MADE, str(made.number), who or READER, data=data))
        return made

    # Acting

    def take(self, number: int, *, who: str, why: str) -> Complaint:
        """Say that this person is at it."""
        return self._change(number, who, why, {"what": "taken"}, lambda tx: self._store.take(tx, number, who))

    def link(self, number: int, topic: str, partition: int, offset: int, *, who: str, why: str) -> Complaint:
        """Say which record its document was made from."""
        origin = origin_at(self._log(), topic, partition, offset)
        data = {"what": "linked", "record": str(origin)}
        return self._change(number, who, why, data, lambda tx: self._store.link(tx, number, origin))

    def dismiss(self, number: int, *, reply: str, who: str, why: str) -> Complaint:
        """Nothing is to be done; `reply` is what its reader may be told."""
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
        record = record_of(self._log(), self.show(number))
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
        resend_once(log, number, record_of(log, before))
        done = self._settle(number, ComplaintMove.RERUN, who, why, reply)
        forget_sending(log, number)
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
