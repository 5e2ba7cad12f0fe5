"""The block rules of one database: what `runtime.blocks` is."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, time, timedelta

from towpath.access.barrier import Barrier
from towpath.access.block import Block
from towpath.access.block_rule import BlockAction, BlockMatch, BlockState
from towpath.access.block_store import BlockStore
from towpath.clock import Clock, to_micros
from towpath.db import Database, Transaction
from towpath.db.by_hand import check_who, check_why, commit_by_hand
from towpath.db.event_log import EventLog
from towpath.errors import BadBlock
from towpath.events import Event, EventKind

REMEMBERED_S = 1.0  # the gateway asks for the rules with every chunk
_DATE = len("2027-01-31")


class Blocks:
    """What is not taken. Each change is one transaction with its event, in the name of a person and with a reason."""

    def __init__(self, database: Database, event_log: EventLog, clock: Clock) -> None:
        self._database = database
        self._event_log = event_log
        self._clock = clock
        self._store = BlockStore(database)
        self._lock = threading.Lock()
        self._known: tuple[float, Barrier] | None = None

    def list(self, *, state: BlockState | None = None, limit: int = 100, before: int | None = None) -> list[Block]:
        """The newest first; `before` is the number of the last one of the page before."""
        with self._database.glance() as tx:
            return self._store.page(tx, limit=limit, before=before, state=state)

    def show(self, number: int) -> Block:
        """One of them; raises `UnknownBlock`."""
        with self._database.glance() as tx:
            return self._store.read(tx, number)

    def add(
        self,
        action: BlockAction,
        match: BlockMatch,
        *,
        until: str | date | datetime,
        who: str,
        why: str,
        approved_by: str | None = None,
    ) -> Block:
        """A rule that counts at once, until its end. `approved_by`: who answers for it, if not who makes it."""
        check_who(who)
        return commit_by_hand(
            self._database,
            lambda tx: self.add_in(tx, action, match, until=until, who=who, why=why, approved_by=approved_by),
        )

    def add_in(
        self,
        tx: Transaction,
        action: BlockAction,
        match: BlockMatch,
        *,
        until: str | date | datetime,
        who: str,
        why: str,
        approved_by: str | None = None,
    ) -> Block:
        """The same with other work, in a transaction of the caller's."""
        ends_us = to_micros(end_of(until))
        if not self._database.now() < ends_us < 2**62:
            raise BadBlock("until: a rule ends in the future")
        names = {"approved_by": check_who(approved_by or who), "made_by": who, "why": check_why(why)}
        made = self._store.add(tx, action, match, **names, ends_us=ends_us)
        data = {"what": "added", "action": action, "until": made.until, "approved_by": made.approved_by}
        self._record(tx, made, who, why, {**data, **match.to_json()})
        tx.after_commit(self.forget)
        return made

    def withdraw(self, number: int, *, who: str, why: str) -> Block:
        """It does not count any more; raises `IllegalBlockMove` when it did not. What it has kept out stays out."""
        check_who(who)
        check_why(why)

        def act(tx: Transaction) -> Block:
            gone = self._store.withdraw(tx, number, who, why)
            self._record(tx, gone, who, why, {"what": "withdrawn", "caught": gone.caught})
            tx.after_commit(self.forget)
            return gone

        return commit_by_hand(self._database, act)

    def in_force(self) -> Barrier:
        """The rules that count; those of this process are known to it at once, those of others within a second."""
        with self._lock:
            if self._known is None or self._clock.monotonic() - self._known[0] >= REMEMBERED_S:
                with self._database.glance() as tx:
                    self._known = self._clock.monotonic(), self._store.in_force(tx)
            return self._known[1]

    def forget(self) -> None:
        """Ask again for the rules."""
        with self._lock:
            self._known = None

    def _record(self, tx: Transaction, block: Block, who: str, why: str, data: dict[str, object]) -> None:
        event = Event(EventKind.BLOCK_CHANGED_BY_HAND, str(block.rule.number), who, why, data)
        self._event_log.record(tx, event)


def end_of(until: str | date | datetime) -> datetime:
    """When a rule ends; a date counts to its end, in UTC."""
    try:
        end = _parsed(until) if isinstance(until, str) else until
        if not isinstance(end, datetime):
            return datetime.combine(end + timedelta(days=1), time(), UTC)
    except (ValueError, OverflowError) as error:
        raise BadBlock(f'until="2027-01-31" or a time with its zone, not {until!r}') from error
    if end.tzinfo is None:
        raise BadBlock(f"until={str(until)!r} is a time without its zone")
    return end.astimezone(UTC)


def _parsed(text: str) -> date | datetime:
    return date.fromisoformat(text) if len(text) == _DATE else datetime.fromisoformat(text)
