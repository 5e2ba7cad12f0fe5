"""What keeps the queue in order in every process that claims: the caretaker and the janitor.

The caretaker lets messages die whose time ran out, and frees what the dead held, in this order, so that a crash between
any two steps is made good by the next round of any process:

1. Mark as dead every process whose lease ran out, or that is gone from this machine (a guarded move in the process
   table).
2. Move its claims by the policy of their inboxes, with an event for each, and the event of its death.
3. Note that its death is settled.

Claims whose owner has no living row for another reason (stopped in order but left some behind, row deleted long ago,
or claimed in the moment between its death and its reading of it) are freed in the same way.

The janitor deletes what is past its retention time: finished messages by state, events, rows of ended processes.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from towpath.core import crash
from towpath.core.clock import MICROS, to_micros
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.core.service import RoundResult, Service
from towpath.db import Transaction
from towpath.db.processes import DeadProcess
from towpath.queue.inbox import answer_with_failure
from towpath.queue.states import MessageMove, MessageState
from towpath.queue.store import HeldClaim, QueueContext

MOST_FREED_PER_COMMIT = 500  # each with its event: a transaction of some 20 ms on SQLite
MOST_PER_COMMIT = 2_000  # messages or events that the janitor looks at


class Caretaker(Service):
    """Frees claims of dead processes and expires messages, in all inboxes, not only in those of its own process."""

    name = "caretaker"

    def __init__(self, parts: QueueContext) -> None:
        super().__init__(parts.events)
        self._parts = parts

    def run_once(self) -> RoundResult:
        done = self.reap() + self.free_the_dead()
        return RoundResult(done, self._parts.settings.caretaker_s)

    def reap(self) -> int:
        """Make messages DEAD whose time to live has run out. Returns how many."""
        parts, total = self._parts, 0
        while True:
            with parts.database.transaction() as tx:
                expired = parts.messages.expire(tx, MOST_FREED_PER_COMMIT)
                by_inbox: dict[str, list[str]] = defaultdict(list)
                for message in expired:
                    by_inbox[message.inbox].append(message.id)
                    parts.ring_after(tx, message.reply_to)
                for inbox, ids in by_inbox.items():
                    data = {"count": len(ids), "messages": ids[:20]}
                    parts.event_log.record(tx, Event(EventKind.MESSAGES_EXPIRED, inbox, data=data))
                if expired:
                    crash.here(CrashPoint.REAP_BEFORE_COMMIT)
            total += len(expired)
            if expired:
                crash.here(CrashPoint.REAP_AFTER_COMMIT)
            if len(expired) < MOST_FREED_PER_COMMIT or self.is_stopping:
                return total

    def free_the_dead(self) -> int:
        """Free the claims of all processes that are not alive. Returns how many claims were moved."""
        parts = self._parts
        process = parts.process()
        newly_dead = self.mark_gone() + process.mark_dead()
        if not newly_dead and not process.may_declare_dead:
            return 0
        if newly_dead:
            crash.here(CrashPoint.DEATH_MARKED)
        moved = self.bury_the_dead()
        return moved + sum(map(self.free_claims_of, self._owners_not_alive()))

    def bury_the_dead(self) -> int:
        """Free the claims of processes that are marked dead, and record their deaths. Returns how many were moved."""
        parts = self._parts
        with parts.database.beats.read() as tx:
            unsettled = parts.processes.unsettled(tx)
        return sum(map(self._bury, unsettled))

    def mark_gone(self) -> list[str]:
        """Declare dead the local processes that have exited, without waiting for their leases; returns their ids."""
        beats, store = self._parts.database.beats, self._parts.processes
        with beats.glance() as tx:
            gone = store.gone(tx, self._parts.process().id)
        if not gone:
            return []
        with beats.transaction() as tx:
            return [process_id for process_id in gone if store.mark_gone(tx, process_id)]

    def _owners_not_alive(self) -> set[str]:
        parts = self._parts
        # Owners first, living second: who claims has a row already, so nobody alive can be missed.
        with parts.database.read() as tx:
            owners = parts.messages.owners_with_claims(tx)
        if not owners:
            return set()
        with parts.database.beats.read() as tx:
            return owners - parts.processes.living(tx, owners)

    def _bury(self, dead: DeadProcess) -> int:
        parts = self._parts
        moved = self.free_claims_of(dead.id)
        with parts.database.transaction() as tx:
            data = {"name": dead.name, "host": dead.host, "pid": dead.pid, "last_beat": dead.last_beat, "freed": moved}
            is_leased = to_micros(dead.leased_until) > parts.database.now()
            why = "it is gone from its machine" if is_leased else "its lease ran out"
            parts.event_log.record(tx, Event(EventKind.PROCESS_DIED, dead.id, why=why, data=data))
        with parts.database.beats.single() as tx:
            parts.processes.settle(tx, dead.id)
        return moved

    def free_claims_of(self, owner: str, reason: str | None = None) -> int:
        """Move the claims of a dead owner by the policies of their inboxes. Returns how many."""
        reason = reason or f"its owner {owner} died"
        total = 0
        while True:
            with self._parts.database.transaction() as tx:
                claims = self._parts.messages.claims_of(tx, owner, MOST_FREED_PER_COMMIT)
                moved = self._move(tx, owner, claims, reason)
                if claims:
                    crash.here(CrashPoint.FREE_BEFORE_COMMIT)
            total += moved
            if claims:
                crash.here(CrashPoint.FREE_AFTER_COMMIT)
            if len(claims) < MOST_FREED_PER_COMMIT or self.is_stopping:
                return total

    def _move(self, tx: Transaction, owner: str, claims: list[HeldClaim], reason: str) -> int:
        by_move: dict[MessageMove, list[HeldClaim]] = defaultdict(list)
        for claim in claims:
            by_move[claim.move].append(claim)
        moved = {move: self._parts.messages.free(tx, owner, move, held, reason) for move, held in by_move.items()}
        for move, held in moved.items():
            for claim in held:
                self._tell(tx, owner, move, claim, reason)
        for inbox in {claim.inbox for claim in moved.get(MessageMove.FREE, ())}:
            self._parts.ring_after(tx, inbox)
        return sum(map(len, moved.values()))

    def _tell(self, tx: Transaction, owner: str, move: MessageMove, claim: HeldClaim, reason: str) -> None:
        parts = self._parts
        kind = EventKind.CLAIM_FREED if move is MessageMove.FREE else EventKind.MESSAGE_GIVEN_UP
        data = {"owner": owner, "inbox": claim.inbox, "move": move, "failures": claim.failures}
        parts.event_log.record(tx, Event(kind, claim.id, why=reason, data=data))
        if claim.reply_to is not None and move is MessageMove.FAIL:
            answer_with_failure(parts, tx, claim.id, claim.reply_to, reason)
        elif move is MessageMove.GIVE_UP:
            parts.ring_after(tx, claim.reply_to)


class Janitor(Service):
    """Deletes what is past its retention time. Two at once only share the work."""

    name = "janitor"

    def __init__(self, parts: QueueContext) -> None:
        super().__init__(parts.events)
        self._parts = parts

    def run_once(self) -> RoundResult:
        done = self.clean()
        return RoundResult(sum(done.values()), self._parts.settings.janitor_s)

    def clean(self) -> dict[str, int]:
        """Delete all that is past its time; returns how much of what."""
        retention = self._parts.settings.retention
        done = self._clean_messages()
        done["events"] = self._clean_events(retention.event_s)
        done["processes"] = self._clean_processes(retention.process_s)
        return done

    def _older_than_us(self, age_s: float) -> int:
        return self._parts.database.now() - int(age_s * MICROS)

    def _clean_messages(self) -> dict[str, int]:
        """Walk from the oldest message on, stretch by stretch, until they are too young for any retention time.

        Nothing else orders messages by age: an index for it would cost every message a page when it is finished.
        """
        parts, retention = self._parts, self._parts.settings.retention
        ages_s = {
            MessageState.OK: retention.ok_s,
            MessageState.ERR: retention.err_s,
            MessageState.DEAD: retention.dead_s,
        }
        before_us = {state: self._older_than_us(age_s) for state, age_s in ages_s.items() if age_s is not None}
        total: Counter[str] = Counter(dict.fromkeys(ages_s, 0))
        after = 0
        while before_us:
            with parts.database.transaction() as tx:
                span = parts.messages.next_span(tx, after, MOST_PER_COMMIT)
                if span is None:
                    break
                upto, oldest_us = span
                deleted = parts.messages.delete_in_span(tx, after, upto, before_us)
                if deleted:
                    parts.event_log.record(tx, Event(EventKind.MESSAGES_CLEANED, "queue", data=dict(deleted)))
                    crash.here(CrashPoint.CLEAN_BEFORE_COMMIT)
            if deleted:
                crash.here(CrashPoint.CLEAN_AFTER_COMMIT)
            total += deleted
            after = upto
            if oldest_us >= max(before_us.values()) or self.is_stopping:
                break
        return {state.lower(): total[state] for state in ages_s}

    def _clean_events(self, age_s: float | None) -> int:
        if age_s is None:
            return 0
        limit_us, total = self._older_than_us(age_s), 0
        while True:
            with self._parts.database.transaction() as tx:
                deleted = self._parts.event_log.forget(tx, limit_us, MOST_PER_COMMIT)
            total += deleted
            if deleted < MOST_PER_COMMIT or self.is_stopping:
                return total

    def _clean_processes(self, age_s: float | None) -> int:
        if age_s is None:
            return 0
        limit_us = self._older_than_us(age_s)
        with self._parts.database.beats.single() as tx:
            return self._parts.processes.forget(tx, limit_us)
