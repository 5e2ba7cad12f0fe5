"""Claiming instances that are due, many at once: their rows and their heads in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass

from towpath import crash
from towpath.actors.definition import Definition
from towpath.actors.instance import Instance
from towpath.actors.parts import Parts
from towpath.actors.phase import Phase
from towpath.actors.planning import Instead, plan_failure
from towpath.actors.redirecting import redirect
from towpath.clock import MICROS
from towpath.crash import CrashPoint
from towpath.db import Transaction
from towpath.errors import CommitUnknown
from towpath.queue.message import Message
from towpath.queue.state import MessageState


@dataclass(frozen=True, slots=True)
class Claimed:
    """An instance that is this process's now, with its head."""

    instance: Instance
    message: Message
    is_timed_out: bool  # it was due because its answers did not come


class Claimer:
    """Serves the actors that this process knows."""

    def __init__(self, parts: Parts, definitions: Mapping[str, Definition]) -> None:
        self._parts = parts
        self._definitions = definitions
        self._in_doubt: list[Claimed] = []

    def claim(self, limit: int, disabled: Collection[str]) -> list[Claimed]:
        """Up to `limit` instances, the longest due first. Nothing is due: an empty list."""
        self._parts.process().check_leased()
        claimed: list[Claimed] = []
        try:
            with self._parts.database.transaction() as tx:
                claimed = self.claim_in(tx, limit, disabled)
                if not claimed:
                    return []
                crash.here(CrashPoint.ACTORS_CLAIM_BEFORE_COMMIT)
        except CommitUnknown:
            self.doubt(claimed)
            raise
        crash.here(CrashPoint.ACTORS_CLAIM_AFTER_COMMIT)
        return claimed

    def claim_in(self, tx: Transaction, limit: int, disabled: Collection[str]) -> list[Claimed]:
        """The same in a transaction of the caller's, who has seen to it that this process has its lease."""
        parts, process = self._parts, self._parts.process()
        due = parts.instances.due(tx, self._enabled(disabled), limit)
        if not due:
            return []
        heads = {instance.head_id: instance for instance in due if instance.head_id is not None}
        messages = parts.held.claim(tx, heads, process.id, process.next_tick())
        running = {id: heads[id]._replace(phase=Phase.RUNNING, owner=process.id, due_us=None) for id in messages}
        parts.instances.move(tx, running.items())
        for gone in heads.keys() - messages.keys():
            # It was ended by hand, or is being run by a hand that claimed it.
            reason = "its message was taken out of the queue by hand"
            redirect(parts, tx, heads[gone], Instead(MessageState.DEAD, reason, plan_failure(reason)))
        return [
            Claimed(running[id], message, is_timed_out=heads[id].phase is Phase.WAITING)
            for id, message in messages.items()
        ]

    def doubt(self, claimed: Sequence[Claimed]) -> None:
        """Nobody knows whether the claim of these was committed. If so, nobody else will ever run them."""
        self._in_doubt += claimed

    def settle(self, running: Container[str]) -> list[Claimed]:
        """What was in doubt and is this process's after all, without what it has claimed again since."""
        if not self._in_doubt:
            return []
        parts = self._parts
        with parts.database.transaction() as tx:  # the lock waits for what the server may still be committing
            found = parts.instances.lock(tx, {each.instance.inbox for each in self._in_doubt})
        doubted, self._in_doubt = self._in_doubt, []
        return [
            each
            for each in doubted
            if each.instance.inbox not in running
            and (now := found.get(each.instance.inbox)) is not None
            and (now.owner, now.head_id) == (parts.process().id, each.message.id)
        ]

    def seconds_until_due(self, disabled: Collection[str]) -> float | None:
        """How long until the next instance is due; none when none will be."""
        parts = self._parts
        with parts.database.glance() as tx:
            left_us = parts.instances.until_due_us(tx, self._enabled(disabled))
        return None if left_us is None else max(0.0, left_us / MICROS)

    def _enabled(self, disabled: Collection[str]) -> list[str]:
        return [name for name in self._definitions if name not in disabled]
