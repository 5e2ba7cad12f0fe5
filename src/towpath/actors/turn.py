"""One run of a state's code (`Turn`), with what it may ask and send; and the message that starts an actor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

from pydantic import TypeAdapter

from towpath.actors.actor import Actor
from towpath.actors.definition import Definition, define
from towpath.actors.instance import Instance, inbox_of
from towpath.actors.instance_store import ActorContext
from towpath.db import Transaction
from towpath.errors import BadState
from towpath.queue.model import Answer, Message
from towpath.queue.outbox import Options, Outbox
from towpath.queue.payload import check_name, new_id, to_json
from towpath.queue.states import OnOwnerDeath

PARENT = "towpath.parent"
TIED = "towpath.tied"
ACTOR_INBOX_ATTEMPTS = 1_000_000  # nobody but a host counts them
Effect = Callable[[Transaction], None]


class Turn:
    """Handed to `transition` with the state.

    What is sent here is sent when the state is done, in the transaction that brings the next one: all of it or, if the
    code raises or its process dies, nothing.
    """

    def __init__(self, parts: ActorContext, instance: Instance, message: Message) -> None:
        self._parts = parts
        self._instance = instance
        self._message = message
        self._is_aborted = False
        self.effects: list[Effect] = []

    @property
    def actor(self) -> str:
        """The name of the actor."""
        return self._instance.actor

    @property
    def instance(self) -> str:
        """Which instance of it this is."""
        return self._instance.instance

    @property
    def run_id(self) -> str:
        """The id of the message that started this run: the same in all its states, another in each run."""
        return self._instance.run_id or self._message.id

    @property
    def attempt(self) -> int:
        """1, and one more for every time that a process died in this state."""
        return self._message.attempts

    @property
    def parts(self) -> ActorContext:
        """For the actors that Towpath itself has."""
        return self._parts

    @property
    def message(self) -> Message:
        """The message that this state is."""
        return self._message

    @property
    def is_aborted(self) -> bool:
        """Whether somebody wants the run to end: what this code still does will not count."""
        return self._is_aborted

    def abort(self) -> None:
        """Tell the code that going on is of no use."""
        self._is_aborted = True

    def send(self, inbox: str, function: str, payload: Any = None, **options: Unpack[Options]) -> str:
        """Send a request and return its id, to be waited for by returning `Wait(id, …)`."""
        return self._post(self._outbox.send, inbox, function, payload, options)

    def notice(self, inbox: str, function: str, payload: Any = None, **options: Unpack[Options]) -> str:
        """Send a message to which no answer is expected, and return its id."""
        return self._post(self._outbox.notice, inbox, function, payload, options)

    def call(
        self, actor: type[Actor] | str, state: Any = None, *, instance: str | None = None, is_tied: bool = False
    ) -> str:
        """Start another actor and return the id by which its result is waited for.

        With `is_tied` it is aborted when this run ends before it. Without `instance` it gets one of its own.
        """
        return self._start(actor, state, instance, wants_answer=True, is_tied=is_tied)

    def start(
        self, actor: type[Actor] | str, state: Any = None, *, instance: str | None = None, is_tied: bool = False
    ) -> str:
        """Start another actor whose result does not matter here, and return the id of the start."""
        return self._start(actor, state, instance, wants_answer=False, is_tied=is_tied)

    def answer(self, message_id: str) -> Answer | None:
        """The answer to a message; none when it is not there yet. Raises `RequestDied` when none will come."""
        return self._outbox.poll(message_id)

    def in_commit(self, effect: Effect) -> None:
        """Do something in the transaction that brings the next state. It must be short, and may be done again."""
        self.effects.append(effect)

    @cached_property
    def _outbox(self) -> Outbox:
        """Made when it is needed: most states send nothing."""
        return Outbox(self._parts.queue, self._instance.inbox)

    def _post(self, send: Callable[..., str], inbox: str, function: str, payload: Any, options: Options) -> str:
        check_name(function, "function")
        to_json(payload, self._parts.queue.settings.max_payload_bytes)
        self._parts.queue.inboxes.check_known(check_name(inbox, "inbox"), None)
        message_id = options.get("message_id") or new_id()
        given: dict[str, Any] = {**options, "message_id": message_id}

        def post(tx: Transaction) -> None:
            send(inbox, function, payload, tx=tx, **given)

        self.effects.append(post)
        return message_id

    def _start(
        self, actor: type[Actor] | str, state: Any, instance: str | None, *, wants_answer: bool, is_tied: bool
    ) -> str:
        message_id = new_id()
        name = instance or message_id
        start = ActorStart.by_name(actor, state, name) if isinstance(actor, str) else ActorStart.of(actor, state, name)
        to_json(start.payload, self._parts.queue.settings.max_payload_bytes)
        headers = {PARENT: self._instance.inbox, TIED: is_tied}

        def post(tx: Transaction) -> None:
            send_start(
                self._parts,
                tx,
                self._outbox,
                start,
                message_id=message_id,
                wants_answer=wants_answer,
                headers=headers,
            )

        self.effects.append(post)
        return message_id


@dataclass(frozen=True)
class ActorStart:
    """Which actor is to run, from which state."""

    actor: str
    instance: str
    function: str
    payload: Any

    @property
    def inbox(self) -> str:
        return inbox_of(self.actor, self.instance)

    @classmethod
    def of(cls, actor: type[Actor] | Definition, state: Any, instance: str) -> ActorStart:
        """Checked as far as it can be; without a state it is the first one, without fields."""
        definition = actor if isinstance(actor, Definition) else define(actor)
        if state is None:
            kind = definition.first
            kind.read({})
            return cls(definition.name, instance, kind.name, {})
        kind = definition.kind_of(state)
        return cls(definition.name, instance, kind.name, kind.write(state))

    @classmethod
    def by_name(cls, actor: str, state: Any, instance: str) -> ActorStart:
        """Of an actor whose code is elsewhere: its own process checks what it is sent."""
        if state is None or isinstance(state, type):
            raise BadState(f"say with which state {actor} starts: its code is not here")
        return cls(actor, instance, type(state).__name__, TypeAdapter(type(state)).dump_python(state, mode="json"))


def send_start(
    parts: ActorContext,
    tx: Transaction,
    outbox: Outbox,
    start: ActorStart,
    *,
    message_id: str,
    wants_answer: bool,
    headers: Mapping[str, Any] | None = None,
) -> None:
    """Make the instance known and send it its start."""
    # The inbox first: the janitor, who may be deleting both, lets go of it when it is done.
    parts.queue.inboxes.register(tx, start.inbox, OnOwnerDeath.AGAIN, ACTOR_INBOX_ATTEMPTS)
    parts.instances.register(tx, start.actor, start.instance)
    send = outbox.send if wants_answer else outbox.notice
    send(start.inbox, start.function, start.payload, tx=tx, message_id=message_id, headers=headers)
