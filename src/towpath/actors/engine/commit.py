"""Commits the results of turns: many in one transaction, each of them whole or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from towpath.actors.actor import Failed
from towpath.actors.engine.plan import WAITS, NextMessage, abort_children, plan_failure, run_again
from towpath.actors.engine.run import TurnResult
from towpath.actors.instance import Instance, Phase
from towpath.actors.instance_store import ActorContext
from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.errors import BadState
from towpath.queue.held_messages import Ending, Head
from towpath.queue.inbox import answer, answer_with_failure
from towpath.queue.model import Handling, Message, handling
from towpath.queue.states import MessageState

logger = logging.getLogger(__name__)

Also = Callable[[Transaction, int], None]  # commits with the turns; told how many of them go on


@dataclass(frozen=True, slots=True)
class ContinuedInstance:
    """An instance whose next state may run at once, in the hands of this process already."""

    done: TurnResult
    instance: Instance
    message: Message


@dataclass
class _Batch:
    """What one transaction writes."""

    tx: Transaction
    owner: str
    tick: int
    now_us: int
    moves: list[tuple[str | None, Instance]] = field(default_factory=list)
    steps: list[tuple[str | None, Instance]] = field(default_factory=list)  # moves that keep their place
    heads: list[Head] = field(default_factory=list)
    waits: list[tuple[str, str, bool]] = field(default_factory=list)
    waited: list[str] = field(default_factory=list)
    ended: list[tuple[Instance, TurnResult]] = field(default_factory=list)
    goes_on: list[ContinuedInstance] = field(default_factory=list)


class Committer:
    """Commits turns of this process."""

    def __init__(self, parts: ActorContext) -> None:
        self._parts = parts

    def commit(
        self, dones: Sequence[TurnResult], may_go_on: Callable[[TurnResult], bool], also: Also | None = None
    ) -> list[ContinuedInstance]:
        """Write them all; returns those that go on here. Who may not makes way for others."""
        parts = self._parts
        process = parts.process()
        with parts.database.transaction() as tx:
            found, now_us = parts.instances.lock_now(tx, [done.work.instance.inbox for done in dones])
            batch = _Batch(tx, process.id, process.next_tick(), now_us or parts.database.now())
            ours = [self._with_abort(found, done) for done in dones if self._is_ours(found, done, batch)]
            moved = self._end_heads(batch, ours)
            kept = [done for done in ours if done.work.message.id in moved]
            for done in kept:  # what they send first: they may wait for answers to it
                if done.effects:
                    self._act(tx, done)
            for done in kept:
                self._advance(batch, found[done.work.instance.inbox], done, may_go_on=may_go_on(done))
            self._obey(batch, found, [done for done in ours if done.work.message.id not in moved])
            self._write(batch)
            if also is not None:
                also(tx, len(batch.goes_on))
            crash.here(CrashPoint.TURN_BEFORE_COMMIT)
        crash.here(CrashPoint.TURN_AFTER_COMMIT)
        return batch.goes_on

    def _end_heads(self, batch: _Batch, dones: Sequence[TurnResult]) -> set[str]:
        """End the messages of these; returns the ids of those that were still this process's."""
        held = self._parts.held
        well = {done.work.message.id for done in dones if done.state is MessageState.OK and done.reason is None}
        otherwise = [
            Ending(done.work.message.id, done.state, done.reason, batch.owner)
            for done in dones
            if done.work.message.id not in well
        ]
        return held.finish(batch.tx, well, batch.owner) | held.end(batch.tx, otherwise).keys()

    def _act(self, tx: Transaction, done: TurnResult) -> None:
        with handling(Handling(done.work.message)):
            for effect in done.effects:
                try:
                    effect(tx)
                except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:  # ends its run, not this process
                    raise BadState(f"{type(error).__name__} in what was to be done with the commit") from error

    def _is_ours(self, found: dict[str, Instance], done: TurnResult, batch: _Batch) -> bool:
        """Whether it is still this process's to write; otherwise somebody has taken it, or it is written already."""
        instance = found.get(done.work.instance.inbox)
        if instance is not None and instance.owner == batch.owner and instance.head_id == done.work.message.id:
            return True
        if instance is not None and instance.head_id == done.head_id:  # the answer to an earlier commit was lost
            if instance.owner == batch.owner and done.planned is not None:
                batch.goes_on.append(
                    ContinuedInstance(done, instance, _message(_head(done, done.planned, batch), batch))
                )
            return False
        logger.warning("%s: what %s did does not count, it is another's now", done.work.instance.name, batch.owner)
        return False

    def _with_abort(self, found: dict[str, Instance], done: TurnResult) -> TurnResult:
        """A run that is to end fails with that reason, whatever its code returned; but not its own clean-up."""
        abort = found[done.work.instance.inbox].abort
        if abort is None or done.planned is None:
            return done
        return replace(done, planned=plan_failure(abort), state=MessageState.DEAD, reason=abort, effects=())

    def _obey(self, batch: _Batch, found: dict[str, Instance], dones: Sequence[TurnResult]) -> None:
        """Somebody changed the message while its code ran: sent again, it runs again; ended, the run fails."""
        if not dones:
            return
        messages = self._parts.held.read(batch.tx, [done.work.message.id for done in dones])
        for done in dones:
            instance, message = found[done.work.instance.inbox], messages.get(done.work.message.id)
            if message is not None and message.state is MessageState.NEW:
                run_again(self._parts, batch.tx, instance)
                continue
            why = "its message was deleted" if message is None else f"its message is {message.state}: {message.reason}"
            self._advance(batch, instance, replace(done, planned=plan_failure(why), effects=()), may_go_on=False)

    def _advance(self, batch: _Batch, instance: Instance, done: TurnResult, *, may_go_on: bool) -> None:
        if WAITS in done.work.message.headers_json:
            batch.waited.append(instance.inbox)
        if done.planned is None:
            self._end(batch, instance, done)
            return
        planned, phase = done.planned, done.planned.phase
        if phase is Phase.WAITING:
            answered = self._parts.held.answered(batch.tx, planned.waits_for)
            # Also when all is there: until they are read, nobody deletes the answers.
            batch.waits += [(instance.inbox, each, each in answered) for each in planned.waits_for]
            if len(answered) >= planned.needs:
                phase = Phase.RUNNING
        if phase is Phase.RUNNING and not may_go_on:
            phase = Phase.READY
        moved = instance._replace(
            phase=phase,
            step=planned.function,
            head_id=done.head_id,
            last_id=done.work.message.id,
            owner=batch.owner if phase is Phase.RUNNING else None,
            due_us=_due_us(phase, planned, batch),
            needs=planned.needs if phase is Phase.WAITING else 0,
            abort=None,
        )
        # Who waited in vain still needs answers by its row, which a step would leave so.
        is_step = phase is Phase.RUNNING and instance.abort is None and not instance.needs
        (batch.steps if is_step else batch.moves).append((instance.head_id, moved))
        head = _head(done, planned, batch)
        if phase is Phase.RUNNING:
            batch.goes_on.append(ContinuedInstance(done, moved, _message(head, batch)))
        else:
            head = head._replace(claimed_by=None, due_us=moved.due_us)
        batch.heads.append(head)

    def _end(self, batch: _Batch, instance: Instance, done: TurnResult) -> None:
        """A terminal state has run: so has the whole of it, unless its clean-up failed."""
        reason = _failure(done)
        rest = instance._replace(
            phase=Phase.ENDED if reason is None else Phase.FAILED,
            step=done.work.message.function,
            head_id=None,
            last_id=done.work.message.id,
            owner=None,
            due_us=None,
            needs=0,
            reason=reason,
            abort=None,
        )
        batch.moves.append((instance.head_id, rest))
        batch.ended.append((rest, done))

    def _write(self, batch: _Batch) -> None:
        parts, tx = self._parts, batch.tx
        parts.instances.forget_waits(tx, batch.waited)
        parts.held.insert(tx, batch.heads, batch.now_us)
        parts.instances.go_on(tx, batch.steps)
        parts.instances.move(tx, batch.moves)
        parts.instances.wait_for(tx, batch.waits)
        if batch.ended:
            self._tell(batch)

    def _tell(self, batch: _Batch) -> None:
        """Who started these runs learns how they ended, and who was started by them ends, if it is tied."""
        parts, tx = self._parts, batch.tx
        ends = {rest.run_id: (rest, done) for rest, done in batch.ended if rest.run_id is not None}
        told = parts.held.end(
            tx,
            [
                Ending(run_id, MessageState.OK if rest.reason is None else MessageState.ERR, rest.reason, rest.inbox)
                for run_id, (rest, _) in ends.items()
            ],
        )
        for run_id, reply_to in told.items():
            rest, done = ends[run_id]
            if reply_to is not None and rest.reason is not None:
                answer_with_failure(parts.queue, tx, run_id, reply_to, rest.reason)
            elif reply_to is not None:
                answer(parts.queue, tx, run_id, reply_to, done.work.message.payload.get("result"))
        for rest, _ in batch.ended:
            if rest.reason is not None:
                parts.event_log.record(tx, Event(EventKind.ACTOR_FAILED, rest.name, why=rest.reason))
        abort_children(parts, tx, [rest for rest, _ in batch.ended])


def _due_us(phase: Phase, planned: NextMessage, batch: _Batch) -> int | None:
    match phase:
        case Phase.RUNNING:
            return None
        case Phase.READY:
            return batch.now_us
    return planned.due_us(batch.now_us)


def _head(done: TurnResult, planned: NextMessage, batch: _Batch) -> Head:
    return Head(
        done.head_id,
        done.work.message.id,
        done.work.instance.inbox,
        planned.function,
        planned.payload_json,
        planned.headers_json,
        (batch.owner, batch.tick),
    )


def _message(head: Head, batch: _Batch) -> Message:
    """The message as it will be in the table, all but its number, which nobody here asks for."""
    return Message(
        seq=0,
        id=head.id,
        related_id=head.related_id,
        audit_id=head.related_id,
        inbox=head.inbox,
        reply_to=None,
        function=head.function,
        payload_json=head.payload_json,
        headers_json=head.headers_json,
        state=MessageState.ACK,
        owner=batch.owner,
        owner_tick=batch.tick,
        attempts=1,
        give_backs=0,
        deliver_after_us=None,
        ttl_s=None,
        expires_us=None,
        reason=None,
        created_us=batch.now_us,
        updated_us=batch.now_us,
    )


def _failure(done: TurnResult) -> str | None:
    """Why the run has failed; none when it has not."""
    message = done.work.message
    reason: str | None = message.payload["reason"] if message.function == Failed.__name__ else None
    if done.state is MessageState.OK:
        return reason
    problem = f"its clean-up failed: {(done.reason or '').splitlines()[-1]}"
    return problem if reason is None else f"{reason}; {problem}"
