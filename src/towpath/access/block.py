"""A block rule as its row has it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from towpath.access.block_rule import BlockAction, BlockMatch, BlockRule, BlockState
from towpath.clock import to_datetime
from towpath.db.database import Row


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
