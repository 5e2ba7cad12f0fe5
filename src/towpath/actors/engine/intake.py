"""What arrives for actors: a start begins a run, an answer wakes whoever waits for it, the rest is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from towpath.actors.definition import Definition
from towpath.actors.engine.plan import run_again
from towpath.actors.instance import REPLY, Instance, Phase, name_of
from towpath.actors.instance_store import ActorContext
from towpath.actors.turn import PARENT, TIED
from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.errors import Refused
from towpath.queue.held_messages import Ending, Head
from towpath.queue.inbox import answer_with_failure
from towpath.queue.model import Message
from towpath.queue.payload import new_id, to_json
from towpath.queue.states import MessageState

MOST_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class _Refusal:
    message: Message
    reason: str


@dataclass(frozen=True, slots=True)
class _Begun:
    """A run that begins: its instance as it will be, and its first state."""

    instance: Instance
    head: Head


class ActorIntake:
    """Takes what has arrived for the actors that this process knows."""

    def __init__(self, parts: ActorContext, definitions: Mapping[str, Definition]) -> None:
        self._parts = parts
        self._definitions = definitions

    def take(self, disabled: frozenset[str]) -> int:
        """Look at what has come, oldest first; returns how many messages it was."""
        parts = self._parts
        with parts.database.glance() as tx:  # mostly there is nothing, and a reader disturbs nobody
            if not parts.held.has_arrivals(tx, self._definitions):
                return 0
        with parts.database.transaction() as tx:
            arrived = parts.held.arrivals(tx, self._definitions, MOST_AT_ONCE)
            answers = [message for message in arrived if message.inbox.endswith(REPLY)]
            self._note(tx, answers)
            self._let_in(tx, [message for message in arrived if not message.inbox.endswith(REPLY)], disabled)
            crash.here(CrashPoint.INTAKE_BEFORE_COMMIT)
        crash.here(CrashPoint.INTAKE_AFTER_COMMIT)
        return len(arrived)

    # Answers

    def _note(self, tx: Transaction, answers: Sequence[Message]) -> None:
        if not answers:
            return
        self.note_answers(tx, {message.related_id for message in answers if message.related_id is not None})
        self._parts.held.take(tx, [message.id for message in answers])

    def note_answers(self, tx: Transaction, questions: Iterable[str]) -> None:
        """These questions are answered, or never will be: wake who needs no more."""
        store, asked = self._parts.instances, set(questions)
        waiting = store.waiting_for(tx, asked)
        if waiting:
            store.lock(tx, waiting)  # before their waits, as everybody does it
            store.note_answers(tx, asked)
            store.wake(tx, store.satisfied(tx, waiting))

    # Starts, and what is none

    def _let_in(self, tx: Transaction, messages: Sequence[Message], disabled: frozenset[str]) -> None:
        if not messages:
            return
        parts, now_us = self._parts, self._parts.database.now()
        if disabled:  # known for a while; a refusal is for good, so whoever was enabled since is not refused
            disabled = parts.instances.disabled(tx)
        found = parts.instances.lock(tx, {message.inbox for message in messages})
        begun: list[_Begun] = []
        refused: list[_Refusal] = []
        for message in messages:
            instance = found.get(message.inbox)
            try:
                if instance is not None and message.id == instance.head_id:
                    # Somebody sent the head again by hand. Where its code runs, whoever runs it will find out.
                    if instance.phase is not Phase.RUNNING:
                        run_again(self._parts, tx, instance)
                    continue
                run = self._begin(instance, message, disabled, now_us)
            except Refused as reason:
                refused.append(_Refusal(message, str(reason)))
            else:
                begun.append(run)
                found[message.inbox] = run.instance  # the next start for it is refused
        parts.held.hold(tx, [run.head.related_id for run in begun])
        parts.held.insert(tx, [run.head for run in begun], now_us)
        parts.instances.move(tx, [(None, run.instance) for run in begun])
        self._refuse(tx, refused)

    def _begin(self, instance: Instance | None, message: Message, disabled: frozenset[str], now_us: int) -> _Begun:
        """Begin a run. Raises what is wrong with the start."""
        instance = self._may_begin(instance, message, disabled)
        kind = self._definitions[instance.actor].kind(message.function)
        max_bytes = self._parts.queue.settings.max_payload_bytes
        payload = to_json(kind.write(kind.read(message.payload)), max_bytes)
        head = Head(new_id(), message.id, instance.inbox, kind.name, payload, due_us=now_us)
        headers = message.headers
        ready = instance._replace(
            phase=Phase.READY,
            step=kind.name,
            head_id=head.id,
            last_id=message.id,
            run_id=message.id,
            due_us=now_us,
            restarts=0,
            reason=None,
            parent=headers.get(PARENT),
            is_tied=bool(headers.get(TIED)),
        )
        return _Begun(ready, head)

    def _may_begin(self, instance: Instance | None, message: Message, disabled: frozenset[str]) -> Instance:
        if instance is None:
            raise Refused(f"there is no instance with the inbox {message.inbox}; start it with `towpath actor start`")
        if message.related_id is not None:
            raise Refused(
                f"{instance.name} expects no message that belongs to {message.related_id}; "
                "a start belongs to none: `towpath actor start`"
            )
        if instance.is_live:
            raise Refused(f"{instance.name} runs already, it is {instance.phase} in {instance.step}; abort it first")
        if instance.actor in disabled:
            raise Refused(f"{instance.actor} is disabled; `towpath actor enable {instance.actor}` lets it run")
        return instance

    def _refuse(self, tx: Transaction, refused: Sequence[_Refusal]) -> None:
        parts = self._parts
        parts.held.end(tx, [Ending(each.message.id, MessageState.ERR, each.reason) for each in refused])
        for each in refused:
            if each.message.reply_to is not None:
                answer_with_failure(parts.queue, tx, each.message.id, each.message.reply_to, each.reason)
            tx.after_commit(partial(self._tell, each))

    def _tell(self, refusal: _Refusal) -> None:
        message = refusal.message
        data = {"function": message.function, "message": message.id}
        event = Event(EventKind.ACTOR_REFUSED, name_of(message.inbox), why=refusal.reason, data=data)
        self._parts.events.publish(event)
