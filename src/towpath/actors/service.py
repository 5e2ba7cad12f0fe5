"""The actors of one database (`runtime.actors`): register, host, start, abort, wake and show them."""

from __future__ import annotations

from typing import Any

from towpath.actors.actor import Actor
from towpath.actors.browser import ActorBrowser, InstanceView
from towpath.actors.definition import Definition, define
from towpath.actors.engine.host import Host
from towpath.actors.engine.plan import abort
from towpath.actors.graph.shape import shape_of
from towpath.actors.instance import MAIN, Instance, Phase, inbox_of
from towpath.actors.instance_store import ActorContext, InstanceStore, KnownActor
from towpath.actors.schedules.service import Schedules
from towpath.actors.turn import ActorStart, send_start
from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.db.event_log import check_who, check_why, commit_by_hand
from towpath.errors import BadActor, NotAsleep, NotRunning, UnknownActor
from towpath.queue import Message, Queue
from towpath.queue.held_messages import HeldMessages
from towpath.queue.outbox import Outbox
from towpath.queue.payload import new_id
from towpath.settings import Settings


class Actors:
    """Registers, hosts, starts, aborts and shows actors."""

    def __init__(self, settings: Settings, queue: Queue) -> None:
        parts = queue.parts
        self._parts = ActorContext(
            parts.database,
            settings.actors,
            parts.events,
            parts.event_log,
            parts,
            InstanceStore(parts.database),
            HeldMessages(parts.database),
            parts.processes,
            parts.process,
            settings,
        )
        self._definitions: dict[str, Definition] = {}
        self._hosts: list[Host] = []

    def register(self, *actors: type[Actor]) -> None:
        """Check classes and make them known, so that this process can host them. Raises `BadActor`."""
        for cls in actors:
            definition = define(cls)
            known = self._definitions.get(definition.name)
            if known is not None and known is not definition:
                raise BadActor(f"two actors are called {definition.name!r}; give one of them another `name`")
            self._definitions = {**self._definitions, definition.name: definition}
            with self._parts.database.single() as tx:
                self._parts.instances.register_actor(tx, definition.name, definition.about, shape_of(definition))
            definition.actor.on_register(self._parts)

    def definition(self, name: str) -> Definition:
        """A registered class by its name."""
        try:
            return self._definitions[name]
        except KeyError:
            known = ", ".join(sorted(self._definitions)) or "none"
            raise UnknownActor(f"no actor {name!r} is registered here; registered: {known}") from None

    def host(self) -> Host:
        """What runs the registered classes in this process: `start` it. It stops with the runtime, or by `stop`."""
        if not self._definitions:
            raise BadActor("no actor is registered; `register` a class first, or name its module in actors.modules")
        host = Host(self._parts, self._definitions)
        self._hosts.append(host)
        return host

    def close(self) -> None:
        """Stop what runs actors here."""
        for host in self._hosts:
            host.stop()

    @property
    def schedules(self) -> Schedules:
        """Starts by the clock: added, changed and shown."""
        return Schedules(self._parts, self._definitions)

    # Starts and changes

    def start(
        self,
        actor: type[Actor] | str,
        state: Any = None,
        *,
        instance: str = MAIN,
        wants_answer: bool = False,
        tx: Transaction | None = None,
    ) -> str:
        """Send an instance its start and return the id of the run; with `wants_answer` it can be waited for.

        With `tx` it is sent when that commits.
        """
        start = self._start_of(actor, state, instance)
        return self._send(start, Outbox(self._parts.queue, "actors"), wants_answer=wants_answer, tx=tx)

    def wake_in(self, tx: Transaction, actor: str, instance: str) -> Instance | None:
        """Let an instance look at its work when `tx` commits, if it sleeps; as it was, None when nobody knows it."""
        inbox = inbox_of(actor, instance)
        found = self._parts.instances.lock(tx, [inbox]).get(inbox)
        if found is not None and self._parts.instances.wake_early(tx, inbox):
            self._parts.queue.ring_after(tx, inbox)
        return found

    def outbox(self) -> Outbox:
        """Where the results of runs are waited for: `outbox().wait(run_id)`."""
        return Outbox(self._parts.queue, "actors")

    def start_by_hand(self, start: ActorStart, who: str, why: str, *, wants_answer: bool = False) -> str:
        """A start that a person has asked for, with a record of that. Its answer comes to the outbox `operator`."""

        def act(tx: Transaction) -> str:
            message_id = self._send(start, Outbox(self._parts.queue, "operator"), wants_answer=wants_answer, tx=tx)
            data = {"state": start.function, "run": message_id}
            self._record(tx, EventKind.ACTOR_STARTED_BY_HAND, f"{start.actor}:{start.instance}", who, why, data)
            return message_id

        return commit_by_hand(self._parts.database, act)

    def abort(self, actor: str, instance: str = MAIN, *, who: str, why: str) -> None:
        """Let a run fail. Raises `NotRunning` when there is none."""

        def act(tx: Transaction) -> None:
            found = self._locked(tx, actor, instance)
            if not abort(self._parts, tx, found, f"aborted by {who}: {why}"):
                rest = "coming to its end" if found.is_live else found.phase
                raise NotRunning(f"{found.name} is {rest} already; there is nothing to abort")
            self._record(tx, EventKind.ACTOR_ABORTED_BY_HAND, found.name, who, why, {"state": found.step})

        commit_by_hand(self._parts.database, act)

    def wake(self, actor: str, instance: str = MAIN, *, who: str, why: str) -> Instance:
        """Let an instance that sleeps go on now, and return it as it then is. Raises `NotAsleep` when it does not."""

        def act(tx: Transaction) -> Instance:
            found = self._locked(tx, actor, instance)
            if not self._parts.instances.wake_early(tx, found.inbox):
                remedy = "; answer what it waits for" if found.phase is Phase.WAITING else ""
                raise NotAsleep(f"{found.name} is {found.phase}, not asleep{remedy}")
            due = None if found.due_at is None else found.due_at.isoformat()
            data = {"state": found.step, "due_at": due}
            self._record(tx, EventKind.ACTOR_WOKEN_BY_HAND, found.name, who, why, data)
            self._parts.queue.ring_after(tx, found.inbox)
            return found._replace(phase=Phase.READY, due_us=None)

        return commit_by_hand(self._parts.database, act)

    def enable(self, actor: str, is_enabled: bool, *, who: str, why: str) -> bool:
        """Let an actor's instances run, or not; whether that was a change."""

        def act(tx: Transaction) -> bool:
            if actor not in {each.name for each in self._parts.instances.actors(tx)}:
                raise UnknownActor(f"no actor {actor!r} is known here; `towpath actor list` shows those that are")
            changed = self._parts.instances.enable(tx, actor, is_enabled)
            if changed:
                self._record(tx, EventKind.ACTOR_SWITCHED_BY_HAND, actor, who, why, {"is_enabled": is_enabled})
                self._parts.queue.ring_after(tx, inbox_of(actor, MAIN))
            return changed

        return commit_by_hand(self._parts.database, act)

    # Reading

    def browser(self) -> ActorBrowser:
        """For people: how many are where, what one waits for, where it failed."""
        return ActorBrowser(self._parts)

    def known(self) -> list[KnownActor]:
        """All classes that any process has registered."""
        with self._parts.database.glance() as tx:
            return self._parts.instances.actors(tx)

    def instances(
        self, *, actor: str | None = None, phase: Phase | None = None, after: str = "", limit: int = 100
    ) -> list[Instance]:
        """By name; `after` is the inbox of the last one of the page before."""
        with self._parts.database.glance() as tx:
            return self._parts.instances.page(tx, actor=actor, phase=phase, after=after, limit=limit)

    def instance(self, actor: str, instance: str = MAIN) -> Instance:
        """One of them; raises `UnknownActor`."""
        with self._parts.database.glance() as tx:
            found = self._parts.instances.read(tx, inbox_of(actor, instance))
        if found is None:
            raise _no_instance(actor, instance)
        return found

    def history(self, actor: str, instance: str = MAIN, *, limit: int = 100) -> list[Message]:
        """The messages of an instance, newest first: its starts, its states, and what was refused."""
        with self._parts.database.glance() as tx:
            return self._parts.queue.messages.page(tx, limit=limit, inbox=inbox_of(actor, instance))

    def look(self, actor: str, instance: str = MAIN, *, last: int = 100) -> InstanceView | None:
        """One of them with all that is around it, and so much of its history; None when there is no such instance."""
        return self.browser().view(inbox_of(actor, instance), last)

    def _locked(self, tx: Transaction, actor: str, instance: str) -> Instance:
        inbox = inbox_of(actor, instance)
        found = self._parts.instances.lock(tx, [inbox]).get(inbox)
        if found is None:
            raise _no_instance(actor, instance)
        return found

    def _start_of(self, actor: type[Actor] | str, state: Any, instance: str) -> ActorStart:
        if isinstance(actor, type):
            return ActorStart.of(actor, state, instance)
        known = self._definitions.get(actor)
        return ActorStart.by_name(actor, state, instance) if known is None else ActorStart.of(known, state, instance)

    def _send(self, start: ActorStart, outbox: Outbox, *, wants_answer: bool, tx: Transaction | None = None) -> str:
        message_id = new_id()
        if tx is not None:
            send_start(self._parts, tx, outbox, start, message_id=message_id, wants_answer=wants_answer)
            return message_id
        with self._parts.database.transaction() as own:
            return self._send(start, outbox, wants_answer=wants_answer, tx=own)

    def _record(self, tx: Transaction, kind: EventKind, subject: str, who: str, why: str, data: dict[str, Any]) -> None:
        self._parts.event_log.record(tx, Event(kind, subject, check_who(who), check_why(why), data))


def _no_instance(actor: str, instance: str) -> UnknownActor:
    return UnknownActor(f"there is no instance {actor}:{instance}; `towpath actor list` shows those there are")
