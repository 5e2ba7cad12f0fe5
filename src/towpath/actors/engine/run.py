"""Claiming the instances that are due, and running the code of one state.

Rows and messages are claimed in one transaction, many at once. Whatever the code of a state does, its result can be
written down.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field

from towpath.actors.definition import Definition
from towpath.actors.engine.plan import (
    TIMED_OUT,
    NextMessage,
    ReplacementMessage,
    plan,
    plan_failure,
    plan_otherwise,
    redirect,
)
from towpath.actors.instance import Instance, Phase
from towpath.actors.instance_store import ActorContext
from towpath.actors.turn import Effect, Turn
from towpath.core import crash
from towpath.core.clock import MICROS
from towpath.core.crash import CrashPoint
from towpath.db import Transaction
from towpath.errors import CommitUnknown, Refused
from towpath.queue.model import Handling, Message, handling
from towpath.queue.payload import new_id
from towpath.queue.states import MessageState


class Claimer:
    """Claims the instances that are due, of the actors that this process knows."""

    def __init__(self, parts: ActorContext, definitions: Mapping[str, Definition]) -> None:
        self._parts = parts
        self._definitions = definitions
        self._in_doubt: list[ClaimedInstance] = []

    def claim(self, limit: int, disabled: Collection[str]) -> list[ClaimedInstance]:
        """Up to `limit` instances, the longest due first. Nothing is due: an empty list."""
        self._parts.process().check_leased()
        claimed: list[ClaimedInstance] = []
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

    def claim_in(self, tx: Transaction, limit: int, disabled: Collection[str]) -> list[ClaimedInstance]:
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
            redirect(parts, tx, heads[gone], ReplacementMessage(MessageState.DEAD, reason, plan_failure(reason)))
        return [
            ClaimedInstance(running[id], message, is_timed_out=heads[id].phase is Phase.WAITING)
            for id, message in messages.items()
        ]

    def doubt(self, claimed: Sequence[ClaimedInstance]) -> None:
        """Nobody knows whether the claim of these was committed. If so, nobody else will ever run them."""
        self._in_doubt += claimed

    def settle(self, running: Container[str]) -> list[ClaimedInstance]:
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


@dataclass(frozen=True, slots=True)
class ClaimedInstance:
    """An instance that this process has claimed, with its head."""

    instance: Instance
    message: Message
    is_timed_out: bool  # it was due because its answers did not come


@dataclass(frozen=True, slots=True)
class ClaimedTurn:
    """A claimed head, ready to run."""

    definition: Definition
    instance: Instance
    message: Message
    turn: Turn
    in_a_row: int = 0  # how many states before it ran here without a pause


@dataclass(frozen=True, slots=True)
class TurnResult:
    """A state that has been run, or that could not be: how its message ends, and what comes next."""

    work: ClaimedTurn
    planned: NextMessage | None  # none: it was a terminal state, and the run is over
    state: MessageState = MessageState.OK
    reason: str | None = None
    effects: tuple[Effect, ...] = ()
    head_id: str = field(default_factory=new_id)  # of the next message: known before it is written, to find it again


def run(work: ClaimedTurn, max_bytes: int) -> TurnResult:
    """Run it, and plan what follows."""
    definition, message = work.definition, work.message
    try:
        kind = definition.kind(message.function)
        state = kind.read(message.payload)
    except Refused as error:
        return failed(work, str(error))
    crash.here(CrashPoint.TURN_BEGUN)
    with handling(Handling(message)):
        try:
            value = definition.actor.transition(state, work.turn)
        except BaseException as error:  # sys.exit() in a state ends its run, not this process
            return failed(work, f"{kind.name}: {type(error).__name__}: {_said(error)}", _trace(error))
    crash.here(CrashPoint.TURN_DONE)
    if kind.is_terminal:
        return TurnResult(work, None, effects=tuple(work.turn.effects))
    try:
        return TurnResult(work, plan(definition, value, max_bytes), effects=tuple(work.turn.effects))
    except Refused as error:
        return failed(work, f"{kind.name}: {error}")


def timed_out(work: ClaimedTurn) -> TurnResult:
    """The answers did not come in time: what the wait has said for that."""
    return TurnResult(work, plan_otherwise(work.message), reason=TIMED_OUT)


def failed(work: ClaimedTurn, reason: str, trace: str | None = None) -> TurnResult:
    """The message is ERR with all that is known, and the run fails; a clean-up that fails is the last that happens."""
    kind = work.definition.states.get(work.message.function)
    planned = None if kind is not None and kind.is_terminal else plan_failure(reason)
    return TurnResult(work, planned, MessageState.ERR, trace or reason)


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return "(an exception that cannot be shown as text)"


def _trace(error: BaseException) -> str:
    """Without the frame of this module, which says nothing."""
    inner = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return "".join(traceback.format_exception(type(error), error, inner)).rstrip()
