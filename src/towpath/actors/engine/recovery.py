"""Instances that nobody moves on: their process died, their message was ended by hand, or no answer will come.

The janitor deletes instances that came to rest long ago, if a call made them; those that a person named stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import assert_never

from towpath.actors.actor import Resume
from towpath.actors.definition import Definition
from towpath.actors.engine.intake import ActorIntake
from towpath.actors.engine.plan import (
    TIMED_OUT,
    NextMessage,
    ReplacementMessage,
    plan_failure,
    plan_otherwise,
    redirect,
    run_again,
)
from towpath.actors.instance import REPLY, Instance, Phase
from towpath.actors.instance_store import ActorContext
from towpath.core import crash
from towpath.core.clock import MICROS
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.core.service import RoundResult, Service
from towpath.db import Queries, Transaction
from towpath.errors import BadState
from towpath.queue.model import Message
from towpath.queue.states import TERMINAL, MessageState

MOST_DEATHS = 5
MOST_PER_COMMIT = 500


class InstanceRecovery:
    """Moves instances on, of the actors that this process knows. Several processes may do so at once."""

    def __init__(self, parts: ActorContext, definitions: Mapping[str, Definition], intake: ActorIntake) -> None:
        self._parts = parts
        self._definitions = definitions
        self._intake = intake

    def free_the_dead(self) -> int:
        """Move on what the dead had, by what the states declare; returns how many instances."""
        return sum(map(self._free, self._owners_not_alive()))

    def look_for_strays(self) -> int:
        """Instances whose message was ended by another hand fail, and questions that died count as answered."""
        parts = self._parts
        with parts.database.read() as tx:
            strays = parts.instances.unheaded(tx, self._definitions, MOST_PER_COMMIT)
            dead_questions = parts.instances.open_questions(tx, MOST_PER_COMMIT)
        strays = [stray for stray in strays if stray.phase is not Phase.RUNNING]  # whoever runs it finds out
        if strays or dead_questions:
            with parts.database.transaction() as tx:
                self._move_on(tx, list(parts.instances.lock(tx, [each.inbox for each in strays]).values()))
                if dead_questions:
                    self._intake.note_answers(tx, dead_questions)
        return len(strays) + len(dead_questions)

    def _owners_not_alive(self) -> set[str]:
        parts = self._parts
        # Owners first, living second: who claims has a row already, so nobody alive can be missed.
        with parts.database.glance() as tx:
            owners = parts.instances.owners(tx) - {parts.process().id}
        if not owners:
            return set()
        with parts.database.beats.glance() as tx:
            return owners - parts.processes.living(tx, owners)

    def _free(self, owner: str) -> int:
        parts, total = self._parts, 0
        while True:
            with parts.database.transaction() as tx:
                owned = parts.instances.owned_by(tx, owner, self._definitions, MOST_PER_COMMIT)
                self._move_on(tx, owned)
                if owned:
                    crash.here(CrashPoint.REVIVE_BEFORE_COMMIT)
            if owned:
                crash.here(CrashPoint.REVIVE_AFTER_COMMIT)
            total += len(owned)
            if len(owned) < MOST_PER_COMMIT:
                return total

    def _move_on(self, tx: Transaction, instances: Sequence[Instance]) -> None:
        parts = self._parts
        ids = {each for instance in instances for each in (instance.head_id, instance.run_id) if each is not None}
        messages = parts.held.read(tx, ids) if ids else {}
        for instance in instances:
            if instance.head_id is None:
                continue  # it came to rest since it was looked for
            head, start = messages.get(instance.head_id), messages.get(instance.run_id or "")
            instead = resume(self._definitions[instance.actor], instance, head, start)
            if instead is None:
                run_again(parts, tx, instance)
                self._record(tx, instance, f"its process {instance.owner} died in {instance.step}", "retry")
            else:
                redirect(parts, tx, instance, instead)
                self._record(tx, instance, instead.reason, "restart" if instead.restarts else "fail")

    def _record(self, tx: Transaction, instance: Instance, why: str, policy: str) -> None:
        data = {"state": instance.step, "owner": instance.owner, "resume": policy}
        self._parts.event_log.record(tx, Event(EventKind.ACTOR_RESUMED, instance.name, why=why, data=data))


class ActorJanitor(Service):
    """Runs in every host; two at once share the work. The janitor of the queue deletes the messages."""

    name = "actor janitor"

    def __init__(self, parts: ActorContext) -> None:
        super().__init__(parts.events)
        self._parts = parts
        self._sql = Queries("towpath.actors", "janitor", parts.database.dialect, fragments="instances")

    def run_once(self) -> RoundResult:
        return RoundResult(sum(self.clean().values()), self._parts.queue.settings.janitor_s)

    def clean(self) -> dict[Phase, int]:
        """Delete all that is past its time; returns how many instances of which phase."""
        settings = self._parts.settings
        ages_s = {Phase.ENDED: settings.retention_s, Phase.FAILED: settings.failed_retention_s}
        return {phase: self._clean(phase, age_s) for phase, age_s in ages_s.items() if age_s is not None}

    def _clean(self, phase: Phase, age_s: float) -> int:
        before_us, total = self._parts.database.now() - int(age_s * MICROS), 0
        while True:
            with self._parts.database.transaction() as tx:
                deleted = self._delete(tx, phase, before_us)
                if deleted:
                    self._parts.event_log.record(
                        tx, Event(EventKind.INSTANCES_CLEANED, "actors", data={phase: deleted})
                    )
                    crash.here(CrashPoint.FORGET_BEFORE_COMMIT)
            if deleted:
                crash.here(CrashPoint.FORGET_AFTER_COMMIT)
            total += deleted
            if deleted < MOST_PER_COMMIT or self.is_stopping:
                return total

    def _delete(self, tx: Transaction, phase: Phase, before_us: int) -> int:
        """The instance first, then its inbox. A start takes the inbox first, so it is seen, or it waits."""
        params = {"phase": phase, "before": before_us, "limit": MOST_PER_COMMIT}
        at_rest = [row[0] for row in tx.rows(self._sql["instances_past_time"], params)]
        if not at_rest:
            return 0
        inboxes = [row[0] for row in tx.rows(self._sql["lock_inboxes"], {"inboxes": json.dumps(at_rest)})]
        self._parts.instances.forget_waits(tx, inboxes)
        rows = tx.rows(self._sql["delete_instances"], {"inboxes": json.dumps(inboxes)})
        gone = [row[0] for row in rows]
        tx.run(self._sql["delete_spawned"], {"inboxes": json.dumps(gone)})
        both = [*gone, *(f"{inbox}{REPLY}" for inbox in gone)]
        tx.run(self._sql["delete_inboxes"], {"inboxes": json.dumps(both)})
        return len(gone)


def resume(
    definition: Definition, instance: Instance, head: Message | None, start: Message | None
) -> ReplacementMessage | None:
    """What replaces the message of an instance whose process died, as its state declares; None: it runs again. Pure.

    `start` is the message that the run began with, if it is still there.
    """
    if head is None or head.state in TERMINAL:
        reason = "its message was deleted" if head is None else f"its message is {head.state}: {head.reason}"
        return ReplacementMessage(MessageState.DEAD, reason, plan_failure(reason))
    if instance.abort is not None:
        return ReplacementMessage(MessageState.DEAD, instance.abort, plan_failure(instance.abort))
    if instance.needs:  # it was claimed because its answers did not come in time, and its own code has not run
        return ReplacementMessage(MessageState.OK, TIMED_OUT, plan_otherwise(head))
    died = f"its process {instance.owner} died in {head.function}"
    try:
        policy = definition.kind(head.function).resume
    except BadState as error:
        return _failed(f"{died}, and {error}")
    if head.attempts >= MOST_DEATHS:
        return _failed(f"{died}, which was the {MOST_DEATHS}th time")
    match policy:
        case Resume.RETRY:
            return None
        case Resume.FAIL:
            return _failed(f"{died}, and nobody has said that it may run again; look at what it did, then start it")
        case Resume.RESTART:
            return _restarted(died, instance.restarts + 1, start)
    assert_never(policy)


def _restarted(died: str, restarts: int, start: Message | None) -> ReplacementMessage:
    if start is None:
        return _failed(f"{died}, and it cannot begin anew: the message that started it was deleted")
    if restarts >= MOST_DEATHS:
        return _failed(f"{died}; it has begun anew {MOST_DEATHS - 1} times")
    planned = NextMessage(start.function, start.payload_json)
    return ReplacementMessage(MessageState.DEAD, f"{died}; it begins anew", planned, restarts)


def _failed(reason: str) -> ReplacementMessage:
    return ReplacementMessage(MessageState.ERR, reason, plan_failure(reason))
