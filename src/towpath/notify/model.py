"""Notices: what people should hear of, their table `notify_notice`, and many of them as one message.

Digests and the state of a target's deliveries are pure: values in, values out.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from towpath.core.clock import MICROS, to_datetime
from towpath.core.events import Event, EventKind
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.db.event_log import EventLog
from towpath.queue.model import Message
from towpath.queue.states import MessageState
from towpath.settings import NotifySettings

MOST_SHOWN = 50
LONGEST_TITLE = 300
LONGEST_SUBJECT = 300
Digest = dict[str, Any]


class NoticeKind(StrEnum):
    """What people are told of. Each is also an event of the same name."""

    GROUP_FOUND = "group_found"  # errors of a kind that was not there before
    GROUP_REGRESSED = "group_regressed"  # a group was resolved or archived, and errors come again
    LANE_STUCK = "lane_stuck"  # what is due is not released
    DESK_GROWING = "desk_growing"  # many cases have been opened in a short time
    DUTY_FAILED = "duty_failed"  # a process has died too often before it was ready, and is not started again

    @property
    def event(self) -> EventKind:
        return EventKind(self.value)


class NoticeState(StrEnum):
    """How far a notice is. docs/reference/access-states.md is held equal to this."""

    WAITING = "waiting"  # it is collected with others until the window ends
    HANDED = "handed"  # it is in the queue, for each target that wants it


MOVES: Mapping[NoticeState, frozenset[NoticeState]] = {
    NoticeState.WAITING: frozenset({NoticeState.HANDED}),
    NoticeState.HANDED: frozenset(),
}
NAMES = {
    NoticeKind.GROUP_FOUND: ("new group of errors", "new groups of errors"),
    NoticeKind.GROUP_REGRESSED: ("group of errors is back", "groups of errors are back"),
    NoticeKind.LANE_STUCK: ("lane is stuck", "lanes are stuck"),
    NoticeKind.DESK_GROWING: ("flow fills the desk", "flows fill the desk"),
    NoticeKind.DUTY_FAILED: ("process cannot be kept running", "processes cannot be kept running"),
}
_WAITS = (MessageState.NEW, MessageState.ACK)
_GIVEN_UP = (MessageState.ERR, MessageState.DEAD)


@dataclass(frozen=True, slots=True)
class Notice:
    """What happened, to what, in a line for people. The same kind of the same subject is told once for a while."""

    kind: NoticeKind
    subject: str
    title: str
    data: Mapping[str, Any] = field(default_factory=dict)


class Teller(Protocol):
    """Where parts of Towpath report what people should hear of."""

    def tell(self, tx: Transaction, notice: Notice) -> None:
        """Say it, in the transaction in which it was found; it counts when that commits."""


class Notices:
    """The `Teller` of a database: notices wait in a table until their window ends. Each new one is an event too."""

    def __init__(self, database: Database, event_log: EventLog, settings: NotifySettings) -> None:
        self._database = database
        self._event_log = event_log
        self._settings = settings
        self._store = NoticeStore(database)

    def tell(self, tx: Transaction, notice: Notice) -> None:
        not_since_us = self._database.now() - int(self._settings.repeat_s * MICROS)
        if self._store.add(tx, notice, not_since_us):
            event = Event(notice.kind.event, notice.subject, why=notice.title, data=notice.data)
            self._event_log.record(tx, event)


class NoticeStore:
    """Writes and moves notices inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.notify", "notices", database.dialect)

    def add(self, tx: Transaction, notice: Notice, not_since_us: int) -> bool:
        """Whether it is new: the same neither waits nor was handed over since then."""
        named = {"kind": notice.kind, "subject": storable(notice.subject)[:LONGEST_SUBJECT]}
        if tx.rows(self._sql["count_again"], {**named, "not_since": not_since_us}):
            return False
        params = {
            **named,
            "title": storable(notice.title)[:LONGEST_TITLE],
            "data": storable(json.dumps(dict(notice.data), default=str)),
        }
        return bool(tx.rows(self._sql["add_notice"], params)[0][0] == 1)

    def waiting_since_us(self, tx: Transaction) -> int | None:
        since: int | None = tx.rows(self._sql["waiting_since"], {})[0][0]
        return since

    def last_handed_us(self, tx: Transaction) -> int | None:
        last: int | None = tx.rows(self._sql["last_handed"], {})[0][0]
        return last

    def hand_over(self, tx: Transaction, limit: int) -> list[StoredNotice]:
        """The oldest that wait, which are handed over by this transaction."""
        rows = tx.rows(self._sql["hand_over"], {"limit": limit})
        return sorted(map(StoredNotice.from_row, rows), key=lambda notice: notice.seq)

    def page(self, tx: Transaction, *, limit: int, before: int | None) -> list[StoredNotice]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        rows = tx.rows(self._sql["list_notices"], {"limit": limit, "before": before})
        return [StoredNotice.from_row(row) for row in rows]

    def forget(self, tx: Transaction, older_than_us: int, limit: int) -> int:
        return tx.run(self._sql["forget_notices"], {"older_than": older_than_us, "limit": limit})


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """A notice as its row has it."""

    seq: int
    kind: NoticeKind
    subject: str
    title: str
    data: dict[str, Any]
    times: int
    state: NoticeState
    at: datetime
    last_at: datetime
    handed_at: datetime | None

    @classmethod
    def from_row(cls, row: Row) -> StoredNotice:
        seq, kind, subject, title, data, times, state, at, last_at, handed_at = row
        return cls(
            seq,
            NoticeKind(kind),
            subject,
            title,
            json.loads(data),
            times,
            NoticeState(state),
            to_datetime(at),
            to_datetime(last_at),
            None if handed_at is None else to_datetime(handed_at),
        )


def digest(notices: Sequence[StoredNotice], kinds: Collection[str]) -> Digest | None:
    """The message for one target; None when no notice is for it. `more` are counted, but not listed."""
    wanted = [notice for notice in notices if notice.kind in kinds]
    if not wanted:
        return None
    counts = Counter(notice.kind for notice in wanted)
    return {
        "title": _title(counts),
        "counts": {kind.value: counts[kind] for kind in NoticeKind if counts[kind]},
        "notices": [_item(notice) for notice in wanted[:MOST_SHOWN]],
        "more": max(0, len(wanted) - MOST_SHOWN),
    }


def trial() -> Digest:
    """What `towpath notify try` sends."""
    return {"title": "a notification to try the way", "counts": {}, "notices": [], "more": 0}


def as_text(found: Digest) -> str:
    """The digest as plain text."""
    lines = [one_line(found["title"]), ""]
    for notice in found["notices"]:
        times = f" (× {notice['times']})" if notice["times"] > 1 else ""
        lines.append(f"- {one_line(notice['title'])}{times}")
        lines.append(f"  {one_line(notice['kind'])} {one_line(notice['subject'])}, {notice['at']}")
    if found["more"]:
        lines.append(f"… and {found['more']} more")
    return "\n".join(lines) + "\n"


def one_line(text: str) -> str:
    """The text without what could end a line, a header or the order of its letters."""
    return " ".join("".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text).split())


@dataclass(frozen=True, slots=True)
class TargetDelivery:
    """The state of the newest messages of one target."""

    waiting: int  # neither taken nor given up
    tries: int  # of the one among these that has failed most often: how often
    next_try_at: datetime | None
    error: str | None  # what the last try said, of what waits or was given up after the last that was taken
    delivered_at: datetime | None  # the last that was taken
    given_up_at: datetime | None  # the last that was given up, if none was taken since


def delivery(messages: Sequence[Message], errors: Mapping[str, str]) -> TargetDelivery:
    """From the messages of a target, and what was said at the last tries, by the id of the message."""
    waiting = [each for each in messages if each.state in _WAITS]
    failing = [each for each in waiting if each.give_backs]
    taken = max((each.updated_at for each in messages if each.state is MessageState.OK), default=None)
    given_up = max(
        (each for each in messages if each.state in _GIVEN_UP and (taken is None or each.updated_at > taken)),
        key=lambda each: each.updated_at,
        default=None,
    )
    due = [each.deliver_after for each in failing if each.deliver_after is not None]
    said = next((errors[each.id] for each in failing if each.id in errors), None)
    return TargetDelivery(
        waiting=len(waiting),
        tries=max((each.give_backs for each in failing), default=0),
        next_try_at=min(due, default=None),
        error=said or (None if given_up is None else given_up.reason),
        delivered_at=taken,
        given_up_at=None if given_up is None else given_up.updated_at,
    )


def _title(counts: Counter[NoticeKind]) -> str:
    return ", ".join(f"{counts[kind]} {NAMES[kind][counts[kind] > 1]}" for kind in NoticeKind if counts[kind])


def _item(notice: StoredNotice) -> dict[str, Any]:
    return {
        "kind": notice.kind.value,
        "subject": notice.subject,
        "title": notice.title,
        "data": notice.data,
        "times": notice.times,
        "at": notice.at.isoformat(),
        "last_at": notice.last_at.isoformat(),
    }
