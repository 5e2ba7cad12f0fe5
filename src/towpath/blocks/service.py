"""The block rules of one database: what `runtime.blocks` is, and the table `block_rule`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from towpath.blocks.rule import MOVES, BlockAction, BlockBarrier, BlockMatch, BlockMove, BlockRule, BlockState
from towpath.core.clock import Clock, parse_date_or_time, to_datetime, to_micros
from towpath.core.events import Event, EventKind
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.errors import BadBlock, IllegalBlockMove, UnknownBlock

MOST_IN_FORCE = 200  # all of them are asked of a record, and written down with every batch
REMEMBERED_S = 1.0  # the gateway asks for the rules with every chunk


class BlockService:
    """Adds, withdraws and lists rules. Each change is one transaction with its event, a person's name and a reason."""

    def __init__(self, database: Database, event_log: EventLog, clock: Clock) -> None:
        self._database = database
        self._event_log = event_log
        self._clock = clock
        self._store = BlockStore(database)
        self._lock = threading.Lock()
        self._known: tuple[float, BlockBarrier] | None = None

    def list(self, *, state: BlockState | None = None, limit: int = 100, before: int | None = None) -> list[Block]:
        """The newest first; `before` is the number of the last one of the page before."""
        with self._database.glance() as tx:
            return self._store.page(tx, limit=limit, before=before, state=state)

    def show(self, number: int) -> Block:
        """A rule by its number; raises `UnknownBlock`."""
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
        """Add a rule that counts at once, until its end. `approved_by`: who answers for it, if not who makes it."""
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
        """Add a rule in the caller's transaction, together with other work."""
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
        """End a rule early; raises `IllegalBlockMove` when it has ended before. What it has kept out stays out."""
        check_who(who)
        check_why(why)

        def act(tx: Transaction) -> Block:
            gone = self._store.withdraw(tx, number, who, why)
            self._record(tx, gone, who, why, {"what": "withdrawn", "caught": gone.caught})
            tx.after_commit(self.forget)
            return gone

        return commit_by_hand(self._database, act)

    def in_force(self) -> BlockBarrier:
        """The rules that count. Changes by this process are known at once, by others within a second."""
        with self._lock:
            if self._known is None or self._clock.monotonic() - self._known[0] >= REMEMBERED_S:
                with self._database.glance() as tx:
                    self._known = self._clock.monotonic(), self._store.in_force(tx)
            return self._known[1]

    def forget(self) -> None:
        """Read the rules anew at the next question."""
        with self._lock:
            self._known = None

    def _record(self, tx: Transaction, block: Block, who: str, why: str, data: dict[str, object]) -> None:
        event = Event(EventKind.BLOCK_CHANGED_BY_HAND, str(block.rule.number), who, why, data)
        self._event_log.record(tx, event)


class BlockStore:
    """Reads and changes rules inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.blocks", "blocks", database.dialect)

    def add(
        self,
        tx: Transaction,
        action: BlockAction,
        match: BlockMatch,
        *,
        approved_by: str,
        made_by: str,
        why: str,
        ends_us: int,
    ) -> Block:
        if tx.rows(self._sql["count_in_force"], {})[0][0] >= MOST_IN_FORCE:
            raise BadBlock(f"{MOST_IN_FORCE} rules count now, which is the most; withdraw one, or say more with one")
        params = {
            "action": action,
            "stream": match.stream,
            "topic": match.topic,
            "sender": match.sender,
            "user_name": match.user,
            "record_key": match.key,
            "key_prefix": match.prefix,
            "expression": None if match.where is None else match.where.text,
            "approved_by": storable(approved_by),
            "made_by": storable(made_by),
            "why": storable(why),
            "ends_at": ends_us,
        }
        return Block.from_row(tx.rows(self._sql["add_rule"], params)[0])

    def read(self, tx: Transaction, number: int) -> Block:
        """A rule by its number; raises `UnknownBlock`."""
        rows = tx.rows(self._sql["read_rule"], {"number": number})
        if not rows:
            raise UnknownBlock(number)
        return Block.from_row(rows[0])

    def page(self, tx: Transaction, *, limit: int, before: int | None, state: BlockState | None) -> list[Block]:
        """The newest first; `before` is the number of the last one of the page before."""
        params = {"limit": limit, "before": before, "state": state}
        return [Block.from_row(row) for row in tx.rows(self._sql["list_rules"], params)]

    def in_force(self, tx: Transaction) -> BlockBarrier:
        """The rules that count now."""
        rows = tx.rows(self._sql["rules_in_force"], {"limit": MOST_IN_FORCE})
        return BlockBarrier(tuple(Block.from_row(row).rule for row in rows))

    def withdraw(self, tx: Transaction, number: int, who: str, why: str) -> Block:
        params = {"number": number, "who": storable(who), "why": storable(why)}
        rows = tx.rows(self._sql["withdraw_rule"], params)
        if not rows:
            move = BlockMove.WITHDRAW
            raise IllegalBlockMove(number, self.read(tx, number).state, f"being {move}", MOVES[move].sources)
        return Block.from_row(rows[0])

    def note_caught(self, tx: Transaction, caught: Mapping[int, int]) -> None:
        """Count what rules have caught; deleted rules are passed over. In one order, so that two never deadlock."""
        for number in sorted(caught):
            tx.run(self._sql["note_caught"], {"number": number, "count": caught[number]})

    def forget(self, tx: Transaction, older_than_us: int, limit: int) -> int:
        return tx.run(self._sql["forget_rules"], {"older_than": older_than_us, "limit": limit})


@dataclass(frozen=True, slots=True)
class Block:
    """A rule with who answers for it, until when, and what it has caught."""

    rule: BlockRule
    state: BlockState
    approved_by: str
    made_by: str
    made_us: int
    ends_us: int
    withdrawn_us: int | None
    withdrawn_by: str | None
    withdrawn_why: str | None
    caught: int
    caught_us: int | None

    @property
    def seq(self) -> int:
        """By what pages are cut."""
        return self.rule.number

    @property
    def since(self) -> datetime:
        return to_datetime(self.made_us)

    @property
    def until(self) -> datetime:
        return to_datetime(self.ends_us)

    @property
    def withdrawn_at(self) -> datetime | None:
        return None if self.withdrawn_us is None else to_datetime(self.withdrawn_us)

    @property
    def caught_at(self) -> datetime | None:
        return None if self.caught_us is None else to_datetime(self.caught_us)

    @classmethod
    def from_row(cls, row: Row) -> Block:
        number, action, stream, topic, sender, user, key, prefix, where, state, approved_by, made_by, why, *rest = row
        names = {"stream": stream, "topic": topic, "sender": sender, "user": user, "key": key, "prefix": prefix}
        rule = BlockRule(number, BlockAction(action), BlockMatch.of(where=where, **names), why)
        return cls(rule, BlockState(state), approved_by, made_by, *rest)


def end_of(until: str | date | datetime) -> datetime:
    """When a rule ends; a date counts to its end, in UTC."""
    try:
        end = parse_date_or_time(until) if isinstance(until, str) else until
        if not isinstance(end, datetime):
            return datetime.combine(end + timedelta(days=1), time(), UTC)
    except (ValueError, OverflowError) as error:
        raise BadBlock(f'until="2027-01-31" or a time with its zone, not {until!r}') from error
    if end.tzinfo is None:
        raise BadBlock(f"until={str(until)!r} is a time without its zone")
    return end.astimezone(UTC)
