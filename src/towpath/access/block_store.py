"""The table `block_rule`."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.access.barrier import Barrier
from towpath.access.block import Block
from towpath.access.block_rule import MOVES, BlockAction, BlockMatch, BlockMove, BlockState
from towpath.db import Database, Queries, Transaction
from towpath.db.text import storable
from towpath.errors import BadBlock, IllegalBlockMove, UnknownBlock

MOST_IN_FORCE = 200  # all of them are asked of a record, and written down with every batch


class BlockStore:
    """Reads and changes rules inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.access", "blocks", database.dialect)

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
        """One of them; raises `UnknownBlock`."""
        rows = tx.rows(self._sql["read_rule"], {"number": number})
        if not rows:
            raise UnknownBlock(number)
        return Block.from_row(rows[0])

    def page(self, tx: Transaction, *, limit: int, before: int | None, state: BlockState | None) -> list[Block]:
        """The newest first; `before` is the number of the last one of the page before."""
        params = {"limit": limit, "before": before, "state": state}
        return [Block.from_row(row) for row in tx.rows(self._sql["list_rules"], params)]

    def in_force(self, tx: Transaction) -> Barrier:
        """Those that count now."""
        rows = tx.rows(self._sql["rules_in_force"], {"limit": MOST_IN_FORCE})
        return Barrier(tuple(Block.from_row(row).rule for row in rows))

    def withdraw(self, tx: Transaction, number: int, who: str, why: str) -> Block:
        params = {"number": number, "who": storable(who), "why": storable(why)}
        rows = tx.rows(self._sql["withdraw_rule"], params)
        if not rows:
            move = BlockMove.WITHDRAW
            raise IllegalBlockMove(number, self.read(tx, number).state, f"being {move}", MOVES[move].sources)
        return Block.from_row(rows[0])

    def note_caught(self, tx: Transaction, caught: Mapping[int, int]) -> None:
        """So many more by rule; one that is deleted by now is passed over. In one order: others do the same."""
        for number in sorted(caught):
            tx.run(self._sql["note_caught"], {"number": number, "count": caught[number]})

    def forget(self, tx: Transaction, older_than_us: int, limit: int) -> int:
        return tx.run(self._sql["forget_rules"], {"older_than": older_than_us, "limit": limit})
