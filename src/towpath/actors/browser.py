"""Reading actors as people do: how many are where, what one waits for, whom it called, where it failed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from towpath.actors.definition import Definition
from towpath.actors.instance import Instance
from towpath.actors.parts import Parts
from towpath.actors.phase import Phase
from towpath.actors.planning import TIMED_OUT, WAITS
from towpath.actors.state import Failed
from towpath.clock import MICROS
from towpath.db import Queries
from towpath.errors import NotFailed
from towpath.queue.message import Message
from towpath.queue.state import MessageState

MOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Question:
    """A message whose answer an instance waits for. Without an inbox, it is gone."""

    id: str
    is_answered: bool
    inbox: str | None
    state: MessageState | None


class Browser:
    """Looks and never touches."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._sql = Queries("towpath.actors", "browser", parts.database.dialect, fragments="instances")

    def counts(self) -> dict[str, dict[Phase, int]]:
        """How many instances each actor has in each phase."""
        found: dict[str, dict[Phase, int]] = defaultdict(dict)
        with self._parts.database.glance() as tx:
            for actor, phase, count in tx.rows(self._sql["count_phases"], {}):
                found[actor][Phase(phase)] = count
        return dict(found)

    def questions(self, instance: Instance, limit: int = MOST_SHOWN) -> list[Question]:
        """What an instance waits for, the unanswered first."""
        with self._parts.database.glance() as tx:
            rows = tx.rows(self._sql["waits"], {"inbox": instance.inbox, "limit": limit})
        return [
            Question(str(id), bool(is_answered), inbox, None if state is None else MessageState(state))
            for id, is_answered, inbox, state in rows
        ]

    def children(self, instance: Instance, limit: int = MOST_SHOWN) -> list[Instance]:
        """Instances whose last run this one began, those that moved last first."""
        with self._parts.database.glance() as tx:
            rows = tx.rows(self._sql["children"], {"parent": instance.inbox, "limit": limit})
        return [Instance.from_row(row) for row in rows]

    def head(self, instance: Instance) -> Message | None:
        """The message that is its present state; of one at rest, the last one. None: it never ran, or it is deleted."""
        return self._message(instance.head_id or instance.last_id)

    def failed_state(self, instance: Instance) -> Message:
        """The message of the state in which the last run failed. One that waited in vain gives the one that asked.

        Raises `NotFailed`.
        """
        if instance.phase is not Phase.FAILED:
            raise NotFailed(f"{instance.name} is {instance.phase}; only what has failed is started again where it was")
        found = self._message(instance.last_id)
        if found is not None and found.function == Failed.__name__:
            found = self._message(found.related_id)
        if found is not None and _waited_in_vain(found):
            found = self._message(found.related_id)
        if found is None:
            raise NotFailed(f"the state in which {instance.name} failed is not in the queue any more; say --state")
        return found

    def is_busy(self, definitions: Collection[Definition], within_s: float) -> bool:
        """Whether these have anything to do in the next seconds. Who waits or watches for others is not busy."""
        watching = [(each.name, *watch) for each in definitions for watch in each.actor.watches().items()]
        params = {
            "actors": json.dumps(sorted(each.name for each in definitions)),
            "watching": json.dumps(watching),
            "within_us": int(within_s * MICROS),
        }
        with self._parts.database.glance() as tx:
            return bool(tx.rows(self._sql["is_busy"], params))

    def _message(self, message_id: str | None) -> Message | None:
        if message_id is None:
            return None
        with self._parts.database.glance() as tx:
            return self._parts.held.read(tx, [message_id]).get(message_id)


def _waited_in_vain(message: Message) -> bool:
    """Whether it never ran, since its answers did not come: alone it would find none."""
    is_timed_out = message.state is MessageState.OK and message.reason == TIMED_OUT
    return WAITS in message.headers and (is_timed_out or message.attempts == 0)
