"""Rehearsals requested where no Spark runs, such as over HTTP: work in the queue, with a result.

A rehearsal imports user code and starts Spark, and the next one may need another version of the same module. So each
runs in a process of its own, one after the other: a spawner, hosted by any `towpath desk run`, runs `towpath desk
rehearse-asked` for each message. The request is the message, the progress is the message's state, and the result is
its answer; they are deleted as all messages are.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from towpath.actors.instance import AT_REST, MAIN
from towpath.actors.service import Actors
from towpath.actors.spawner.launch import ATTEMPTS
from towpath.actors.spawner.spawner import Spawner, Watch
from towpath.actors.spawner.store import spawned_of
from towpath.core.events import Event, EventKind
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.desk.groups.store import GroupStore
from towpath.desk.rehearsal import MOST_CASES
from towpath.errors import BadName, BadValue, CannotRehearse, RequestDied, UnknownMessage, UnknownRehearsal
from towpath.queue import Message, Queue
from towpath.queue.states import MessageState
from towpath.settings import DeskSettings

NAME = "desk-rehearsal"
INBOX = "desk-rehearsals"
FUNCTION = "REHEARSE"
WAIT_S = 86400.0  # for a desk that runs
LONGEST_NAME = 200
REFUSED = "refused"  # in an answer: why it could not be done


class RehearsalService:
    """Requests rehearsals and shows their results. Loads no Spark."""

    def __init__(
        self, database: Database, settings: DeskSettings, queue: Queue, actors: Actors, event_log: EventLog
    ) -> None:
        self._database = database
        self._settings = settings
        self._queue = queue
        self._actors = actors
        self._event_log = event_log
        self._groups = GroupStore(database)

    def ask(
        self,
        group: int,
        *,
        who: str,
        why: str,
        name: str | None = None,
        code: str | None = None,
        most: int = 10_000,
        passes_effects: bool = False,
        replays: bool = False,
    ) -> RehearsalView:
        """Have the open cases of a group tried, when a desk that runs comes to it."""
        self._check(name, code, most)
        with self._database.read() as tx:
            flow = self._groups.read(tx, group).flow
        asked = RehearsalRequest(
            name or f"group {group} of {flow}",
            group,
            flow,
            code,
            most,
            passes_effects,
            replays,
            check_who(who),
            check_why(why),
        )
        self._queue.inbox(INBOX, max_attempts=ATTEMPTS)  # so that it is known before a desk runs
        outbox = self._queue.outbox(NAME)

        def act(tx: Transaction) -> str:
            self._see_to_rehearser(tx)
            id = outbox.send(INBOX, FUNCTION, asdict(asked), tx=tx, ttl_s=WAIT_S)
            self._tell(tx, id, "asked", who, why, group)
            return id

        return self.show(commit_by_hand(self._database, act))

    def abort(self, id: str, *, who: str, why: str) -> RehearsalView:
        """End it; raises `IllegalMove` when it has ended."""
        self._read(id)
        self._queue.operator(who).set_state(id, MessageState.DEAD, why)
        return self.show(id)

    def show(self, id: str) -> RehearsalView:
        """One of them, with its result; raises `UnknownRehearsal`."""
        message = self._read(id)
        result, reason = self._answer(message)
        return self._view(message, result, reason, self._percent(message))

    def page(self, *, limit: int, before: int | None = None) -> list[RehearsalView]:
        """The newest first, without results; `before` is the `seq` of the last one of the page before."""
        found = self._queue.browser().page(limit=limit, before=before, inbox=INBOX, function=FUNCTION)
        return [self._view(message, None, message.reason, None) for message in found]

    def _check(self, name: str | None, code: str | None, most: int) -> None:
        if name is not None and not 0 < len(name.strip()) <= LONGEST_NAME:
            raise BadName(f"a rehearsal has a name of 1 to {LONGEST_NAME} characters")
        if not 1 <= most <= MOST_CASES:
            raise BadValue(f"most={most}: it is from 1 to {MOST_CASES}")
        if code is not None and code not in self._settings.code:
            known = ", ".join(sorted(self._settings.code)) or "none"
            raise CannotRehearse(f"the setting desk.code does not say where {code!r} is; it has: {known}")

    def _see_to_rehearser(self, tx: Transaction) -> None:
        """Started when it was never asked for, or has failed."""
        found = self._actors.wake_in(tx, NAME, MAIN)
        if found is None or found.phase in AT_REST:
            self._actors.start(NAME, Watch(), tx=tx)

    def _read(self, id: str) -> Message:
        try:
            message = self._queue.browser().message(id)
        except (UnknownMessage, BadValue):
            raise UnknownRehearsal(id) from None
        if message.inbox != INBOX:
            raise UnknownRehearsal(id)
        return message

    def _answer(self, message: Message) -> tuple[dict[str, Any] | None, str | None]:
        """The result, and why there is none."""
        if message.state is not MessageState.OK:
            return None, message.reason
        try:
            answer = self._queue.outbox(NAME).poll(message.id)
        except RequestDied:
            return None, "its result is not kept any more"
        if answer is None or not isinstance(answer.payload, dict):
            return None, "it has not said what it found"
        refused = answer.payload.get(REFUSED)
        return (None, str(refused)) if refused is not None else (answer.payload, None)

    def _percent(self, message: Message) -> float | None:
        row = spawned_of(self._database, NAME) if message.state is MessageState.ACK else None
        return row.percent if row is not None and row.message_id == message.id else None

    @staticmethod
    def _view(
        message: Message, result: dict[str, Any] | None, reason: str | None, percent: float | None
    ) -> RehearsalView:
        state = _STATES[message.state]
        if state is RehearsalState.FINISHED and reason is not None:
            state = RehearsalState.FAILED
        asked, times = RehearsalRequest(**message.payload), (message.created_at, message.updated_at)
        return RehearsalView(message.seq, message.id, asked, state, reason, *times, percent, result)

    def _tell(self, tx: Transaction, id: str, what: str, who: str, why: str, group: int) -> None:
        data = {"what": what, "rehearsal": id}
        event = Event(EventKind.CASE_GROUP_CHANGED_BY_HAND, str(group), who, why, data)
        self._event_log.record(tx, event)


@dataclass(frozen=True, slots=True)
class RehearsalRequest:
    """What is to be tried. `code` is a name among the settings `desk.code`; None: as on the command line."""

    name: str
    group: int
    flow: str
    code: str | None
    most: int
    passes_effects: bool
    replays: bool  # then replay those that would pass
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class RehearsalView:
    """A rehearsal as it is now."""

    seq: int
    id: str
    asked: RehearsalRequest
    state: RehearsalState
    reason: str | None
    made_at: datetime
    moved_at: datetime
    percent: float | None  # while it runs
    result: dict[str, Any] | None  # when it is finished, as long as it is kept


class RehearsalState(StrEnum):
    """How far a rehearsal is: the states of its message, in the words of the desk."""

    WAITING = "waiting"  # for `towpath desk run`, or for the one before it
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"  # the reason says why
    ABORTED = "aborted"  # by a person, or because nobody took it in time, or because its processes died


_STATES = {
    MessageState.NEW: RehearsalState.WAITING,
    MessageState.ACK: RehearsalState.RUNNING,
    MessageState.OK: RehearsalState.FINISHED,
    MessageState.ERR: RehearsalState.FAILED,
    MessageState.DEAD: RehearsalState.ABORTED,
}


class Rehearser(Spawner):
    """Runs flows on the records of groups of cases, without side effects."""

    name = NAME
    inbox = INBOX
    command = (sys.executable, "-m", "towpath", "desk", "rehearse-asked")
    retries = 1
