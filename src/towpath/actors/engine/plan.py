"""The message that an instance runs next: planned from what a state returned, and put in the place of another one.

Planning is pure. `redirect`, `run_again` and `abort` write: the first two replace or repeat the present message, and
`abort` ends a run early, by hand or because the run that called it has ended.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from towpath.actors.actor import TERMINAL, Failed, Sleep, Wait
from towpath.actors.definition import Definition
from towpath.actors.instance import Instance, Phase
from towpath.actors.instance_store import ActorContext
from towpath.core.clock import MICROS, to_micros
from towpath.db import Transaction
from towpath.db.database import storable
from towpath.errors import BadState
from towpath.queue.held_messages import Ending, Head
from towpath.queue.model import Message
from towpath.queue.payload import new_id, to_json
from towpath.queue.states import MessageState

OTHERWISE = "towpath.otherwise"
WAITS = "towpath.waits"
TIMED_OUT = "timed out"  # the reason of a message that waited in vain
LONGEST_REASON = 4_000  # characters
NEVER_US = 253_402_300_799_000_000  # the end of the year 9999: who waits without a limit is due then
_ENDS = {each.__name__ for each in TERMINAL}


@dataclass(frozen=True, slots=True)
class NextMessage:
    """The next state, as a message, and when it may run."""

    function: str
    payload_json: str
    phase: Phase = Phase.RUNNING
    delay_us: int | None = None
    until_us: int | None = None
    waits_for: tuple[str, ...] = ()
    needs: int = 0
    headers: dict[str, Any] | None = None

    @property
    def headers_json(self) -> str:
        return "{}" if self.headers is None else json.dumps(self.headers)

    def due_us(self, now_us: int) -> int:
        if self.until_us is not None:
            return min(self.until_us, NEVER_US)
        return NEVER_US if self.delay_us is None else min(now_us + self.delay_us, NEVER_US)


@dataclass(frozen=True, slots=True)
class ReplacementMessage:
    """A message ends before its code has run to its end, and another one comes in its place."""

    state: MessageState
    reason: str
    planned: NextMessage
    restarts: int = 0  # how often the run has begun anew with this


def plan(definition: Definition, value: Any, max_bytes: int) -> NextMessage:
    """What was returned, as the next message. Raises `BadState` or `BadPayload`, which say what is wrong."""
    match value:
        case Sleep():
            function, text = _written(definition, value.then, max_bytes)
            delay_us = None if value.seconds is None else int(value.seconds * MICROS)
            until_us = None if value.until is None else to_micros(value.until)
            return NextMessage(function, text, Phase.SLEEPING, delay_us, until_us)
        case Wait():
            return _plan_wait(definition, value, max_bytes)
        case None:
            raise BadState("it returned nothing; return the next state, End() or Failed(reason)")
    function, text = _written(definition, value, max_bytes)
    return NextMessage(function, text)


def plan_failure(reason: str) -> NextMessage:
    """The state in which an actor cleans up after a failure. A reason may hold anything, and be of any length."""
    text = storable(reason)
    if len(text) > LONGEST_REASON:
        text = f"{text[: LONGEST_REASON // 2]} … {text[-LONGEST_REASON // 2 :]}"
    return NextMessage(Failed.__name__, json.dumps({"reason": text}))


def plan_otherwise(head: Message) -> NextMessage:
    """What a wait has said for the case that its answers do not come in time."""
    match head.headers.get(OTHERWISE):
        case [str(function), payload]:
            return NextMessage(function, json.dumps(payload))
    return plan_failure("no answer in time, and its message does not say any more what was to happen then")


def redirect(parts: ActorContext, tx: Transaction, instance: Instance, instead: ReplacementMessage) -> None:
    """End the present head and let another one be due at once. The caller has locked the instance."""
    planned, head_id, now_us = instead.planned, new_id(), parts.database.now()
    parts.held.end(tx, [Ending(instance.head, instead.state, instead.reason)])
    parts.held.insert(
        tx,
        [Head(head_id, instance.head, instance.inbox, planned.function, planned.payload_json, due_us=now_us)],
        now_us,
    )
    parts.instances.forget_waits(tx, [instance.inbox])
    moved = instance._replace(
        phase=Phase.READY,
        step=planned.function,
        head_id=head_id,
        last_id=instance.head,
        owner=None,
        due_us=now_us,
        needs=0,
        restarts=instead.restarts or instance.restarts,
        abort=None,
    )
    parts.instances.move(tx, [(instance.head, moved)])
    parts.queue.ring_after(tx, instance.inbox)


def run_again(parts: ActorContext, tx: Transaction, instance: Instance) -> None:
    """Let the present head be due at once, whoever had it. The caller has locked the instance."""
    now_us = parts.database.now()
    parts.held.wait_again(tx, [instance.head], now_us)
    ready = instance._replace(phase=Phase.READY, owner=None, due_us=now_us, needs=0)
    parts.instances.move(tx, [(instance.head, ready)])
    parts.queue.ring_after(tx, instance.inbox)


def abort(parts: ActorContext, tx: Transaction, instance: Instance, reason: str) -> bool:
    """Let a live run fail: at once, or when the code that runs returns. False when it ends or has ended already.

    The caller has locked the instance.
    """
    if not instance.is_live or instance.step in _ENDS:
        return False
    if instance.phase is Phase.RUNNING:
        parts.instances.ask_abort(tx, instance.inbox, reason)
        parts.queue.ring_after(tx, instance.inbox)
    else:
        redirect(parts, tx, instance, ReplacementMessage(MessageState.DEAD, reason, plan_failure(reason)))
    return True


def abort_children(parts: ActorContext, tx: Transaction, parents: Sequence[Instance]) -> None:
    """Abort what these have called and tied to themselves."""
    names = {parent.inbox: parent.name for parent in parents}
    for child in parts.instances.tied_children(tx, names):
        abort(parts, tx, child, f"{names[child.parent or '']}, which called it, has come to its end")


def _plan_wait(definition: Definition, wait: Wait, max_bytes: int) -> NextMessage:
    function, text = _written(definition, wait.then, max_bytes)
    headers: dict[str, Any] = {WAITS: list(wait.ids)}
    if wait.timeout_s is not None:
        headers[OTHERWISE] = _otherwise(definition, wait, max_bytes)
    delay_us = None if wait.timeout_s is None else int(wait.timeout_s * MICROS)
    needs = len(wait.ids) if wait.needs is None else wait.needs
    return NextMessage(function, text, Phase.WAITING, delay_us, None, wait.ids, needs, headers)


def _otherwise(definition: Definition, wait: Wait, max_bytes: int) -> list[Any]:
    if wait.otherwise is None:
        count = "no answer" if len(wait.ids) == 1 else "not enough answers"
        return [Failed.__name__, {"reason": f"{count} within {wait.timeout_s:g} s"}]
    function, text = _written(definition, wait.otherwise, max_bytes)
    return [function, json.loads(text)]


def _written(definition: Definition, value: Any, max_bytes: int) -> tuple[str, str]:
    if isinstance(value, type):
        raise BadState(f"it returned the class {value.__name__}; return one of its objects: {value.__name__}(…)")
    if isinstance(value, Sleep | Wait):
        raise BadState(f"{type(value).__name__} inside of another; the state behind it returns the second one")
    kind = definition.kind_of(value)
    return kind.name, to_json(kind.write(value), max_bytes, f"state {kind.name}")
