"""Looks after instances that nobody moves: their process died, a hand has ended their message, no answer will come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from towpath import crash
from towpath.actors.definition import Definition
from towpath.actors.instance import Instance
from towpath.actors.intake import Intake
from towpath.actors.parts import Parts
from towpath.actors.phase import Phase
from towpath.actors.planning import Instead
from towpath.actors.redirecting import redirect, run_again
from towpath.actors.resuming import Again, resume
from towpath.crash import CrashPoint
from towpath.db import Transaction
from towpath.events import Event, EventKind

MOST_PER_COMMIT = 500


class Reviver:
    """Serves the actors that this process knows. Several processes may do so at once."""

    def __init__(self, parts: Parts, definitions: Mapping[str, Definition], intake: Intake) -> None:
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
            match resume(self._definitions[instance.actor], instance, head, start):
                case Again():
                    run_again(parts, tx, instance)
                    self._record(tx, instance, f"its process {instance.owner} died in {instance.step}", "retry")
                case Instead() as instead:
                    redirect(parts, tx, instance, instead)
                    self._record(tx, instance, instead.reason, "restart" if instead.restarts else "fail")

    def _record(self, tx: Transaction, instance: Instance, why: str, policy: str) -> None:
        data = {"state": instance.step, "owner": instance.owner, "resume": policy}
        self._parts.event_log.record(tx, Event(EventKind.ACTOR_RESUMED, instance.name, why=why, data=data))
