"""Actors that run a process for the messages of an inbox.

The launch id, written before a process is started, decides which process may work. So whatever dies between any two
acts here, there is one that works at most:

1. `Watch` finds a message that waits, writes a new launch id and goes on to `Launch`, in one transaction.
2. `Launch` starts the process and `Attend` follows. When this process dies in between, nobody knows whether there is
   one: the next `Launch` writes another id, unless a process has shown itself, which is kept. One that comes too late
   finds that its id is not the current one and ends.
3. `Attend` looks whether it lives, until it is gone; `Stop` waits for one that was told to end. Both only look.

In each state, `failures` counts the launches in a row that came to nothing.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from towpath.actors.actor import Actor, End, Failed, Resume, Sleep, state
from towpath.actors.instance import inbox_of
from towpath.actors.instance_store import ActorContext
from towpath.actors.spawner.launch import (
    ATTEMPTS,
    EXIT_AWAY,
    ProcessLife,
    SpawnedChild,
    SpawnedChildren,
    SpawnedLog,
    SpawnTask,
    is_here,
    is_running,
    send_signal,
)
from towpath.actors.spawner.store import Spawned, SpawnedStore, WaitingMessage, patiently
from towpath.actors.turn import Turn
from towpath.core.clock import MICROS
from towpath.core.events import Event, EventKind
from towpath.core.os_processes import machine
from towpath.db import Transaction
from towpath.db.database import storable
from towpath.errors import BadActor, BadName, CommitUnknown, DatabaseUnavailable, IllegalMove, UnknownMessage
from towpath.queue.inbox import Inbox
from towpath.queue.janitor import Caretaker
from towpath.queue.payload import ACTORS, check_name, new_id
from towpath.queue.states import MessageMove, OnOwnerDeath

BOOT_S = 60.0
LEAVE_S = 60.0
KILL_S = 2.0
LONGEST_REASON = 2_000
STEP_S = 0.05
AWAY_S = 60.0
MOST_CLAIMS = 500
FIRST_LOOK_S = 0.2
PAUSE_S = 0.5
BOOT_LOOP_S = 1.0


class Spawner(Actor):
    """Runs a process for the messages of an inbox, never a second one while one lives.

    A class that derives from it says which inbox it watches and what it runs: a command, or a function of a module
    that is called with each message as a `Job`.
    """

    inbox: ClassVar[str] = ""
    entry: ClassVar[str] = ""
    """`module:function`, or `path/to/file.py:function`."""
    command: ClassVar[Sequence[str]] = ()
    """A program and its arguments."""
    retries: ClassVar[int] = 3
    """How often a message is tried again whose process died, or could not begin."""
    linger_s: ClassVar[float] = 2.0
    """How long a process waits for one more message before it ends."""
    grace_s: ClassVar[float] = 5.0
    """How long a process may take to end before it is killed."""
    look_s: ClassVar[float] = 1.0
    """How often the inbox and the process are looked at."""

    def __init__(self) -> None:
        self._children = SpawnedChildren()
        problem = self._problem()
        if problem is not None:
            raise BadActor(f"{type(self).__name__}: {problem}")

    def _problem(self) -> str | None:
        """What is wrong with what the class says."""
        try:
            check_name(self.inbox, "inbox")
        except BadName as error:
            return f"say which inbox it watches, as in `inbox = 'crawl'`: {error}"
        if self.inbox.startswith(ACTORS):
            return f"its inbox {self.inbox!r} is an actor's own; it needs another"
        if isinstance(self.command, str) or not all(self.command):
            return "command is a program and its arguments, as in `command = ('node', 'crawl.js')`"
        if bool(self.command) == bool(self.entry):
            return "say what it runs: either `entry = 'module:function'` or `command = ('program', 'argument')`"
        if self.entry and not all(self.entry.rpartition(":")[::2]):
            return f"entry {self.entry!r} is no 'module:function'"
        if self.retries < 0 or min(self.linger_s, self.grace_s, self.look_s) <= 0:
            return "retries must be 0 or more; linger_s, grace_s and look_s are seconds above 0"
        return None

    def on_register(self, parts: ActorContext, /) -> None:
        """The inbox is there before any process is, so that it can be sent to."""
        Inbox(parts.queue, self.inbox, OnOwnerDeath.AGAIN, ATTEMPTS)

    def watches(self) -> Mapping[str, str]:
        return {Watch.__name__: self.inbox}

    def transition(
        self, state: Watch | Launch | Attend | Stop | End | Failed, turn: Turn
    ) -> Sleep | Watch | Launch | Attend | Failed | None:
        control = SpawnedControl(turn, self._children, self.grace_s)
        try:
            match state:
                case Watch():
                    return self._watch(state, turn, control)
                case Launch():
                    return self._launch(state, turn, control)
                case Attend():
                    return self._attend(state, turn, control)
                case Stop():
                    return self._stop(state, turn, control)
                case Failed(reason):
                    control.abandon(reason)
                case End():
                    control.abandon("its spawner has come to its end")
        except (DatabaseUnavailable, CommitUnknown):
            if isinstance(state, End | Failed):
                raise
            if isinstance(state, Launch) and turn.attempt > 1:  # the next message does not know how often this one ran
                return Sleep(Launch(state.launch_id, state.failures, is_doubtful=True), seconds=self.look_s)
            return Sleep(state, seconds=self.look_s)
        return None

    # The states

    def _watch(self, state: Watch, turn: Turn, control: SpawnedControl) -> Sleep | Watch | Launch | Attend:
        row = control.row()
        if row is not None and row.launch_id is not None:
            return Attend(row.launch_id, state.failures)
        message = control.first_waiting(self.inbox)
        if message is None:
            _forget_look_before(turn)
            return Sleep(Watch(state.failures), seconds=self.look_s)
        if message.failures > self.retries:
            told = row.ended if row is not None else "its process died"
            control.give_up_in_commit(message.id, f"tried {message.failures} times: {told}")
            return Watch()
        launch_id = new_id()
        turn.in_commit(lambda tx: control.store.begin(tx, control.spawner, self.inbox, launch_id))
        return Launch(launch_id, state.failures)

    def _launch(self, state: Launch, turn: Turn, control: SpawnedControl) -> Sleep | Watch | Launch | Attend | Failed:
        row, launch_id = control.row(), state.launch_id
        if row is None or row.launch_id != launch_id:
            return Watch(state.failures)
        if row.process_id is not None:
            return Attend(launch_id, state.failures)
        if (
            turn.attempt > 1 or state.is_doubtful
        ):  # somebody died here, and may have started one: that one must not work
            other_id = new_id()
            turn.in_commit(lambda tx: control.store.replace(tx, control.spawner, launch_id, other_id))
            return Launch(other_id, state.failures)
        try:
            pid = self._children.start(turn.parts.all_settings, self._task(turn), control.spawner, launch_id).pid
        except OSError as error:
            control.end_in_commit(launch_id, f"no process could be started: {error}", is_unusual=True)
            return self._failed_to_begin(state, f"no process could be started: {error}", control)
        turn.in_commit(lambda tx: _note_started(tx, turn.parts, control, launch_id, pid))
        return Sleep(Attend(launch_id, state.failures), seconds=min(FIRST_LOOK_S, self.look_s))

    def _attend(self, state: Attend, turn: Turn, control: SpawnedControl) -> Sleep | Watch | Failed:
        row = control.row()
        if row is None or row.launch_id != state.launch_id:
            return Watch(state.failures)
        life = control.life(row, state.launch_id)
        if life.is_alive is False:
            return self._ended(state, row, life, control)
        reason = control.reason_to_end(row)
        if reason is None:
            _forget_look_before(turn)
            return Sleep(Attend(state.launch_id, state.failures), seconds=self.look_s)
        control.signal(row, state.launch_id, signal.SIGTERM if reason.grace_s else signal.SIGKILL)
        kill_at_us = turn.parts.database.now() + int(reason.grace_s * MICROS)
        stop = Stop(state.launch_id, state.failures, reason.text, kill_at_us, reason.is_failure)
        return Sleep(stop, seconds=min(FIRST_LOOK_S, self.look_s))

    def _stop(self, state: Stop, turn: Turn, control: SpawnedControl) -> Sleep | Watch | Failed:
        row = control.row()
        if row is None or row.launch_id != state.launch_id:
            return Watch(state.failures)
        life, is_late = control.life(row, state.launch_id), turn.parts.database.now() >= state.kill_at_us
        if life.is_alive is False or (life.is_alive is None and is_late):
            return self._ended(state, row, life, control, StopReason(state.why, 0.0, state.is_failure))
        if is_late:
            control.signal(row, state.launch_id, signal.SIGKILL)
        _forget_look_before(turn)
        return Sleep(state, seconds=min(FIRST_LOOK_S, self.look_s))

    # What follows the end of a process

    def _ended(
        self,
        state: Attend | Stop,
        row: Spawned,
        life: ProcessLife,
        control: SpawnedControl,
        stopped: StopReason | None = None,
    ) -> Sleep | Watch | Failed:
        told = control.told(row, state.launch_id, life, None if stopped is None else stopped.text)
        control.signal(row, state.launch_id, signal.SIGKILL)  # what it has left behind
        had_message = control.free_claims(row, told) or row.message_id is not None or row.done > 0
        is_in_order = row.ended is not None and row.fault is None
        control.end_in_commit(state.launch_id, told, is_unusual=not is_in_order)
        if row.fault is not None:
            return Failed(row.fault)
        if is_in_order or (stopped is not None and not stopped.is_failure):
            return Watch()
        if had_message:
            return Sleep(Watch(), seconds=PAUSE_S)
        if life.exit_code == EXIT_AWAY:  # the database's fault, not the message's
            return Sleep(Watch(state.failures), seconds=self.grace_s)
        if _is_boot_loop(row, life):
            return Failed(f"{told}; it had not taken a message, so that starting it again would not help")
        return self._failed_to_begin(state, told, control)

    def _failed_to_begin(self, state: Launch | Attend | Stop, told: str, control: SpawnedControl) -> Sleep | Watch:
        """Try again; after so many times the message that waits is given up, so that others get their turn."""
        if state.failures < self.retries:
            return Sleep(Watch(state.failures + 1), seconds=PAUSE_S * (state.failures + 1))
        message = control.first_waiting(self.inbox)
        if message is not None:
            control.give_up_in_commit(message.id, f"tried {self.retries + 1} times: {told}")
        return Watch()

    def _task(self, turn: Turn) -> SpawnTask:
        return SpawnTask(
            turn.actor,
            turn.instance,
            self.inbox,
            self.entry,
            tuple(self.command),
            self.linger_s,
            self.grace_s,
        )


def _is_boot_loop(row: Spawned, life: ProcessLife) -> bool:
    """It ended at once, or by itself before it asked for a message."""
    ended_at_once = life.lasted_s is not None and life.lasted_s < BOOT_LOOP_S
    ended_by_itself = life.exit_code is not None and life.exit_code >= 0
    return ended_at_once or (ended_by_itself and not row.is_ready)


def _note_started(tx: Transaction, parts: ActorContext, control: SpawnedControl, launch_id: str, pid: int) -> None:
    control.store.note_pid(tx, launch_id, pid, machine())
    data = {"launch": launch_id, "pid": pid, "machine": machine()}
    parts.event_log.record(tx, Event(EventKind.PROCESS_SPAWNED, control.name, data=data))


def _forget_look_before(turn: Turn) -> None:
    """A look that found nothing new is not kept, or each spawner would leave a message every second."""
    before, function = turn.message.related_id, turn.message.function
    if before is not None:
        turn.in_commit(lambda tx: turn.parts.held.forget(tx, before, function))


@state(resume=Resume.RETRY)
class Watch:
    """No process runs; one is started when a message waits."""

    failures: int = 0


@state(resume=Resume.RETRY)
class Launch:
    """A process is started."""

    launch_id: str
    failures: int = 0
    is_doubtful: bool = False  # one may have been started already


@state(resume=Resume.RETRY)
class Attend:
    """A process runs."""

    launch_id: str
    failures: int = 0


@state(resume=Resume.RETRY)
class Stop:
    """A process was told to end; it is killed when it takes too long."""

    launch_id: str
    failures: int
    why: str
    kill_at_us: int
    is_failure: bool = False


class SpawnedControl:
    """What a spawner asks and does about its process, for one instance in one turn."""

    def __init__(self, turn: Turn, children: SpawnedChildren, grace_s: float) -> None:
        self.spawner = inbox_of(turn.actor, turn.instance)
        self.store = SpawnedStore(turn.parts.database)
        self._turn = turn
        self._parts = turn.parts
        self._children = children
        self._grace_s = grace_s
        self._log = SpawnedLog(turn.parts.settings.directory, turn.actor, turn.instance)

    @property
    def name(self) -> str:
        return f"{self._turn.actor}:{self._turn.instance}"

    def row(self) -> Spawned | None:
        with self._parts.database.glance() as tx:
            return self.store.read(tx, self.spawner)

    def first_waiting(self, inbox: str) -> WaitingMessage | None:
        with self._parts.database.glance() as tx:
            return self.store.first_waiting(tx, inbox)

    # Looking

    def life(self, row: Spawned, launch_id: str) -> ProcessLife:
        """As well as it can be known here: by ourselves, by this machine, or by its lease."""
        own = self._own(row, launch_id)
        if own is not None:
            return own.life()
        if row.pid is not None and is_here(row.machine):
            return ProcessLife(is_running(row.pid, launch_id))
        return ProcessLife(None if row.process_id is None else self._has_lease(row.process_id))

    def reason_to_end(self, row: Spawned) -> StopReason | None:
        """Why a process that lives should not. One that has died since says by the next look how it ended."""
        reason = self._reason(row)
        return None if reason is None or self._has_just_gone(row) else reason

    def _has_just_gone(self, row: Spawned) -> bool:
        """Others may have found out before us, and have taken from it what it had."""
        if row.pid is None or row.launch_id is None or not is_here(row.machine):
            return False
        return not is_running(row.pid, row.launch_id)

    def _reason(self, row: Spawned) -> StopReason | None:
        if row.stop is not None:
            return StopReason(row.stop, self._grace_s)
        if row.ended_us is not None:  # it is about to be gone
            return StopReason("it did not come to its end", 0.0) if self._is_past(row.ended_us, LEAVE_S) else None
        if row.process_id is None:
            is_late = self._is_past(row.launched_us, BOOT_S)
            return (
                StopReason(f"it was not there within {BOOT_S:g} s", self._grace_s, is_failure=True) if is_late else None
            )
        if not self._has_lease(row.process_id):
            return StopReason("it was declared dead", 0.0)
        if row.message_id is not None and row.launch_id is not None:
            return self._taken_away(row.launch_id, row.process_id)
        return None

    def _taken_away(self, launch_id: str, process_id: str) -> StopReason | None:
        """Whether somebody else has moved the message that it works on; by one view, since it moves it too."""
        with self._parts.database.read() as tx:
            row = self.store.read(tx, self.spawner)
            if row is None or row.launch_id != launch_id or row.message_id is None:
                return None
            try:
                message = self._parts.queue.messages.read(tx, row.message_id)
            except UnknownMessage:
                return StopReason(f"its message {row.message_id} was deleted", self._grace_s)
        if message.owner == process_id and message.state == "ACK":
            return None
        return StopReason(f"its message {message.id} is {message.state}: {message.reason}", self._grace_s)

    def _is_past(self, since_us: int, seconds: float) -> bool:
        return self._parts.database.now() > since_us + seconds * MICROS

    def _has_lease(self, process_id: str) -> bool:
        with self._parts.database.beats.glance() as tx:
            return process_id in self._parts.processes.living(tx, [process_id])

    # Ending

    def signal(self, row: Spawned, launch_id: str, which: signal.Signals) -> None:
        """To the process and all that it has started, if it is on this machine; elsewhere its row reaches it."""
        own = self._own(row, launch_id)
        if own is not None:
            send_signal(own.pid, launch_id, which, is_there=bool(own.life().is_alive))
        elif row.pid is not None and is_here(row.machine):
            send_signal(row.pid, launch_id, which)

    def _own(self, row: Spawned, launch_id: str) -> SpawnedChild | None:
        """The process, if it was started here and no other has shown itself in its place."""
        own = self._children.find(launch_id)
        return own if own is not None and (row.process_id is None or row.pid == own.pid) else None

    def told(self, row: Spawned, launch_id: str, life: ProcessLife, why: str | None) -> str:
        """How a process ended, with the end of what it wrote."""
        how = life.how if why is None else f"was stopped, since {why}"
        is_told = why is None and row.ended is None and (row.machine is None or is_here(row.machine))
        output = self._log.tail(launch_id) if is_told else ""
        return storable(f"its process {how}" + (f"; the end of its output: {output}" if output else ""))

    def free_claims(self, row: Spawned, reason: str) -> bool:
        """Let what a process held wait again, or be given up when it was the last attempt; whether it held anything."""
        if row.process_id is None:
            return False
        return Caretaker(self._parts.queue).free_claims_of(row.process_id, reason[:LONGEST_REASON]) > 0

    def end_in_commit(self, launch_id: str, told: str, *, is_unusual: bool) -> None:
        """With the next state: no process of this launch may work any more."""

        def end(tx: Transaction) -> None:
            self.store.end(tx, self.spawner, launch_id, told)
            if is_unusual:
                data = {"launch": launch_id}
                self._parts.event_log.record(tx, Event(EventKind.SPAWNED_ENDED, self.name, why=told, data=data))

        self._turn.in_commit(end)
        self._children.forget(launch_id)

    def give_up_in_commit(self, message_id: str, reason: str) -> None:
        """With the next state: nobody shall try this message again, unless a person says so."""
        self._turn.in_commit(lambda tx: self._give_up(tx, message_id, reason))

    def _give_up(self, tx: Transaction, message_id: str, reason: str) -> None:
        with suppress(IllegalMove, UnknownMessage):  # somebody was faster
            reply_to = self._parts.queue.messages.move(tx, message_id, MessageMove.KILL, reason[:LONGEST_REASON])
            event = Event(EventKind.MESSAGE_GIVEN_UP, message_id, why=reason, data={"spawner": self.name})
            self._parts.event_log.record(tx, event)
            self._parts.queue.ring_after(tx, reply_to)

    def abandon(self, reason: str) -> None:
        """The run is over: its process ends, and what that worked on is DEAD. Takes up to the grace time."""
        row = patiently(lambda: self._condemn(reason), AWAY_S)
        if row is None or row.launch_id is None:
            return
        launch_id = row.launch_id
        for which, wait_s in ((signal.SIGTERM, self._grace_s), (signal.SIGKILL, KILL_S)):
            self.signal(row, launch_id, which)
            self._wait_for_end(row, launch_id, wait_s)
        self.end_in_commit(launch_id, f"its process was stopped, since {reason}", is_unusual=True)

    def _wait_for_end(self, row: Spawned, launch_id: str, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while self.life(row, launch_id).is_alive and time.monotonic() < deadline:
            time.sleep(STEP_S)

    def _condemn(self, reason: str) -> Spawned | None:
        with self._parts.database.transaction() as tx:
            row = self.store.read(tx, self.spawner)
            if row is not None and row.launch_id is not None:
                self.store.ask_stop(tx, self.spawner, row.launch_id, reason)
                for held in self._parts.queue.messages.claims_of(tx, row.process_id or "", MOST_CLAIMS):
                    if held.inbox == row.inbox:
                        self._give_up(tx, held.id, reason)
        return row


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a living process is to end, and how long it may take about it."""

    text: str
    grace_s: float
    is_failure: bool = False  # it never came so far as to take a message
