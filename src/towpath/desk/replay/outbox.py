"""Sends records of cases back: a guarded move of the case and a row of the outbox, committed together.

`OutboxStore` is the tables `desk_outbox` and `desk_relay`: what is to be appended to topics, in order, and by whom.
`OutboxWriter` moves cases and fills the outbox, or calls that back; everything it does raises the ticket of a case in
the statement that moves it (docs/explanation/desk.md, Tickets).

`Parking` keeps the records of a key in order: what fails behind one that is not settled is parked behind it. Each
parked case names the one before it. When that one is settled the next goes back into the flow, and only that one:
those behind it wait for it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from towpath.core.clock import MICROS
from towpath.core.events import Event, EventKind, Events
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.db.event_log import EventLog
from towpath.db.processes import Process, ProcessStore
from towpath.desk.cases.model import GAP, Case, CaseState
from towpath.desk.cases.store import CaseStore
from towpath.desk.replay.lane import LaneStore
from towpath.errors import TopicExists, UnknownTopic
from towpath.flow.topics import FOREVER
from towpath.log.log import Log
from towpath.log.open import KAFKA_PREFIX
from towpath.settings import Settings

_COLUMNS = ("flow", "seq", "case_id", "ticket", "attempt", "target", "lane", "due_at", "made_at")

_STATES: dict[str | None, CaseState | None] = {None: None, **{each.value: each for each in CaseState}}

RELAY_BELL = "desk/relay"
TOWPATH = "towpath"
SENDABLE = (CaseState.WAITING, CaseState.REPLAYING)
SHOWN_CASES = 20  # in an event

Key = tuple[str, str]  # stage, and the hash of a key

SMALL_PORTION = 1_000  # records of one transaction: one of SQLite's stays under 250 ms
LARGE_PORTION = 10_000
MOST_BYTES = 4 << 20


class OutboxTarget(StrEnum):
    """The topic to which a row of the outbox is appended."""

    LANE = "lane"  # the flow's lane topic, to wait
    REENTRY = "reentry"  # back to the stage in which it has failed
    SOURCE = "source"  # the topic it came from, as a new record


_TARGETS = {each.value: each for each in OutboxTarget}


class OutboxWriter:
    """Sends, in the caller's transaction. A case that is in another state is left as it is: compare the ids."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cases = CaseStore(database)
        self._lanes = LaneStore(database)
        self._outbox = OutboxStore(database)

    def replay(
        self,
        tx: Transaction,
        cases: Sequence[Case],
        *,
        delay_s: float | None,
        frm: Collection[CaseState],
        who: str = TOWPATH,
        why: str = "",
        jitter_s: float | None = None,
    ) -> list[str]:
        """Send them back to their stages, at once or after waiting in a lane; returns those that go."""
        moved: list[str] = []
        for flow, some in _by_flow(cases).items():
            to = CaseState.REPLAYING if delay_s is None else CaseState.WAITING
            lane = None if delay_s is None else self.lane(tx, flow, delay_s, jitter_s)
            due_at = None if delay_s is None else self._database.now() + round(delay_s * MICROS)
            gone = self._move(tx, some, to, frm, who=who, why=why, lane=lane, due_at=due_at)
            self.enqueue(tx, flow, gone)
            moved += gone
        return moved

    def resend(
        self,
        tx: Transaction,
        cases: Sequence[Case],
        *,
        who: str,
        why: str,
        frm: Collection[CaseState] = (CaseState.OPEN, CaseState.WAITING),
    ) -> list[str]:
        """Send them to their source as new records; they are *resent* when the log has them. Returns those that go."""
        moved: list[str] = []
        for flow, some in _by_flow(cases).items():
            gone = self._move(tx, some, CaseState.REPLAYING, frm, who=who, why=why)
            self.enqueue(tx, flow, gone, OutboxTarget.SOURCE, who, why)
            moved += gone
        return moved

    def _move(
        self,
        tx: Transaction,
        cases: Sequence[Case],
        to: CaseState,
        frm: Collection[CaseState],
        *,
        who: str,
        why: str,
        lane: int | None = None,
        due_at: int | None = None,
    ) -> list[str]:
        """Each from the state in which it was found, so that this need not be asked again."""
        found: dict[CaseState, list[str]] = defaultdict(list)
        for case in cases:
            found[case.state].append(case.id)
        moved: list[str] = []
        for state in sorted(found.keys() & {*frm}):
            moved += self._cases.move(
                tx, found[state], to, frm=[state], who=who, why=why, ticket=True, lane=lane, due_at=due_at
            )
        return moved

    def recall(self, tx: Transaction, ids: Collection[str], *, who: str, why: str) -> list[str]:
        """Take what waits in lanes back to the desk; returns what was still there."""
        waiting = (CaseState.WAITING,)
        return self._cases.move(tx, ids, CaseState.OPEN, frm=waiting, who=who, why=why, ticket=True, gives_back=True)

    def lane(self, tx: Transaction, flow: str, delay_s: float, jitter_s: float | None = None) -> int:
        """The number of the lane in which records of a flow wait for that long, made when it is new."""
        jitter_ms = None if jitter_s is None else round(jitter_s * 1000)
        return self._lanes.ensure(tx, flow, round(delay_s * 1000), jitter_ms).partition

    def enqueue(
        self,
        tx: Transaction,
        flow: str,
        ids: Collection[str],
        target: OutboxTarget = OutboxTarget.REENTRY,
        who: str | None = None,
        why: str | None = None,
    ) -> None:
        """Rows for cases that this transaction has moved to *waiting* or *replaying*, as they are now."""
        if ids:
            self._outbox.enqueue(tx, flow, ids, target, who, why)
            self._wake(tx)

    def queue(self, tx: Transaction, flow: str, rows: Sequence[NewOutboxItem]) -> None:
        """Rows of which all is known, such as those of cases that this transaction has made."""
        if rows:
            self._outbox.add(tx, flow, rows, self._database.now())
            self._wake(tx)

    def _wake(self, tx: Transaction) -> None:
        tx.after_commit(lambda: self._database.wakeups.ring([RELAY_BELL]))


def _by_flow(cases: Sequence[Case]) -> Mapping[str, list[Case]]:
    found: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.kind != GAP:  # a gap has no body that could be sent
            found[case.flow].append(case)
    return found


class Parking:
    """Releases what is parked behind settled cases, in the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk.replay", "parking", database.dialect)
        self._cases = CaseStore(database)
        self._sends = OutboxWriter(database)

    def behind(self, tx: Transaction, flow: str, key_hashes: Collection[str]) -> dict[Key, str]:
        """The last case of each of these keys that is not settled: what fails now is parked behind it."""
        if not key_hashes:
            return {}
        rows = tx.rows(self._sql["last_of_keys"], {"flow": flow, "keys": json.dumps(sorted(set(key_hashes)))})
        return {(stage, key_hash): str(id) for stage, key_hash, id in rows}

    def release(self, tx: Transaction, settled: Collection[str]) -> list[str]:
        """Let what is parked behind settled or ignored cases go on; returns the cases that go."""
        rows = tx.rows(self._sql["parked_behind"], {"ids": json.dumps(list(settled))}) if settled else []
        first: list[str] = []
        for id, before in rows:
            if before is None:
                first.append(str(id))
            else:  # a person has settled one in the middle
                tx.rows(self._sql["stay_behind"], {"id": str(id), "behind": str(before)})
        cases = list(self._cases.lock(tx, first).values()) if first else []
        why = "the record of its key before it is settled"
        return self._sends.replay(tx, cases, delay_s=None, frm=[CaseState.PARKED], why=why)


class OutboxStore:
    """Reads and changes the outbox inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk.replay", "outbox", database.dialect)

    def enqueue(
        self,
        tx: Transaction,
        flow: str,
        ids: Collection[str],
        target: OutboxTarget = OutboxTarget.REENTRY,
        who: str | None = None,
        why: str | None = None,
    ) -> int:
        """Rows for cases that are *waiting* (to their lane) or *replaying* (to `target`); returns how many."""
        values = {"flow": flow, "ids": json.dumps(list(ids)), "before": self._numbers(tx, flow, len(ids))}
        return tx.run(self._sql["enqueue"], {**values, "target": target, "who": who, "why": why})

    def add(self, tx: Transaction, flow: str, rows: Sequence[NewOutboxItem], now: int) -> None:
        """Rows of which all is known."""
        first = self._numbers(tx, flow, len(rows)) + 1
        tx.insert_many("desk_outbox", _COLUMNS, (_row(flow, seq, row, now) for seq, row in enumerate(rows, first)))

    def _numbers(self, tx: Transaction, flow: str, count: int) -> int:
        """The number before the first of so many new ones. Nobody else gets any until the transaction ends."""
        last: int = tx.rows(self._sql["take_numbers"], {"flow": flow, "count": count})[0][0]
        return last - count

    def flows(self, tx: Transaction, owner: str) -> list[str]:
        """The flows that this process may send for, and that have something to send."""
        return [flow for (flow,) in tx.rows(self._sql["flows"], {"owner": owner})]

    def owners(self, tx: Transaction) -> set[str]:
        return {owner for (owner,) in tx.rows(self._sql["owners"], {})}

    def claim(self, tx: Transaction, flow: str, owner: str) -> bool:
        """This process sends for the flow from now on; false when another does."""
        return bool(tx.rows(self._sql["claim_relay"], {"flow": flow, "owner": owner}))

    def free(self, tx: Transaction, owners: Collection[str]) -> int:
        """The flows of these are nobody's from now on; returns how many."""
        return sum(tx.run(self._sql["free_relays_of"], {"owner": owner}) for owner in owners)

    def page(self, tx: Transaction, flow: str, after: int, limit: int) -> list[OutboxItem]:
        """The rows after a number, in order."""
        rows = tx.rows(self._sql["page"], {"flow": flow, "after": after, "limit": limit})
        return [_going(row) for row in rows]

    def of_cases(self, tx: Transaction, ids: Collection[str]) -> list[OutboxRow]:
        """What is still to be sent of some cases, as far as the outbox knows."""
        rows = tx.rows(self._sql["rows_of_cases"], {"ids": json.dumps(list(ids))})
        return [OutboxRow(int(seq), str(id), int(ticket), _TARGETS[target]) for seq, id, ticket, target in rows]

    def resent(self, tx: Transaction, flow: str, upto: int) -> dict[tuple[str, str], list[str]]:
        """The cases up to a number that are in their source again, by who wanted that and why."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for id, who, why in tx.rows(self._sql["resent"], {"flow": flow, "upto": upto}):
            found[who, why].append(str(id))
        return found

    def delete(self, tx: Transaction, flow: str, upto: int) -> int:
        return tx.run(self._sql["delete_rows"], {"flow": flow, "upto": upto})

    def counts(self, tx: Transaction) -> dict[str, int]:
        """How much is to be sent for each flow."""
        return dict(tx.rows(self._sql["count_rows"], {}))


class OutboxItem(NamedTuple):
    """A row of the outbox with what is needed of its case, whose part is None when the case is gone."""

    seq: int
    case_id: str
    ticket: int
    attempt: int
    target: OutboxTarget
    lane: int | None
    due_at: int | None
    who: str | None
    why: str | None
    case_ticket: int | None
    state: CaseState | None
    stage: str
    topic: str
    key: bytes | None
    body_bytes: int

    @property
    def is_wanted(self) -> bool:
        """Whether nobody has called it back since."""
        is_out = self.state is (CaseState.WAITING if self.target is OutboxTarget.LANE else CaseState.REPLAYING)
        return is_out and self.ticket == self.case_ticket


class NewOutboxItem(NamedTuple):
    """What is to go out: to a lane, or without one back to the stage."""

    case_id: str
    ticket: int
    attempt: int
    lane: int | None = None
    due_at: int | None = None


class OutboxRow(NamedTuple):
    """A row of the outbox."""

    seq: int
    case_id: str
    ticket: int
    target: OutboxTarget


def _row(flow: str, seq: int, row: NewOutboxItem, now: int) -> tuple[object, ...]:
    target = OutboxTarget.REENTRY if row.lane is None else OutboxTarget.LANE
    return (flow, seq, row.case_id, row.ticket, row.attempt, target.value, row.lane, row.due_at, now)


def _going(row: Row) -> OutboxItem:
    seq, case_id, ticket, attempt, target, lane, due_at, who, why, case_ticket, state, stage, topic, key, size = row
    known = (seq, str(case_id), ticket, attempt, _TARGETS[target], lane, due_at, who, why, case_ticket)
    return OutboxItem(*known, _STATES[state], stage or "", topic or "", key, size or 0)


class ReplayContext:
    """What relay and replayer share. Made once for a process."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        events: Events,
        event_log: EventLog,
        *,
        log: Log,
        process: Callable[[], Process],
        blob: Callable[[str], bytes],
    ) -> None:
        """`blob` gives the contents of a body that is kept in a file."""
        self.settings = settings
        self.database = database
        self.events = events
        self.event_log = event_log
        self.log = log
        self.process = process
        self.blob = blob
        self.cases = CaseStore(database)
        self.lanes = LaneStore(database)
        self.outbox = OutboxStore(database)
        self.processes = ProcessStore(database)

    @property
    def portion(self) -> int:
        """How many records go into one transaction."""
        return SMALL_PORTION if self._is_small else LARGE_PORTION

    @property
    def portion_bytes(self) -> int:
        """How many bytes."""
        return MOST_BYTES if self._is_small else 4 * MOST_BYTES

    @property
    def _is_small(self) -> bool:
        return self.database.dialect == "sqlite" or not self.settings.log.url.startswith(KAFKA_PREFIX)

    def give_up(self, tx: Transaction, flow: str, tickets: Iterable[tuple[str, int]], why: str) -> None:
        """Records that cannot be sent are in front of a person again; `tickets` are case and ticket of each.

        What was called back since is left alone. No attempt is burnt.
        """
        wanted = list(tickets)
        now = self.cases.lock(tx, {id for id, _ in wanted})
        same = [id for id, ticket in wanted if id in now and now[id].ticket == ticket]
        opened = self.cases.move(
            tx, same, CaseState.OPEN, frm=SENDABLE, who=TOWPATH, why=why, ticket=True, what="not sent", gives_back=True
        )
        if opened:
            data = {"cases": opened[:SHOWN_CASES], "count": len(opened)}
            self.event_log.record(tx, Event(EventKind.RECORDS_NOT_SENT, flow, why=why, data=data))

    def dead_among(self, owners: Callable[[Transaction], set[str]]) -> set[str]:
        """Which owners are not alive."""
        # Owners first, living second: who claims has a row already, so nobody alive can be missed.
        with self.database.glance() as tx:
            found = owners(tx) - {self.process().id}
        if not found:
            return set()
        with self.database.beats.glance() as tx:
            return found - self.processes.living(tx, found)

    def has_topic(self, name: str) -> bool:
        try:
            self.log.topic(name)
        except UnknownTopic:
            return False
        return True

    def ensure_lanes(self, topic: str, partitions: int) -> None:
        """A lane topic with so many partitions at least, kept for ever."""
        try:
            found = self.log.topic(topic)
        except UnknownTopic:
            try:
                self.log.create_topic(topic, partitions, retention_s=FOREVER)
                return
            except TopicExists:  # another process was faster
                found = self.log.topic(topic)
        if found.partitions < partitions:
            self.log.add_partitions(topic, partitions)
