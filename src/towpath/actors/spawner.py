"""Actors that run a process for the messages of an inbox.

The launch id, written before a process is started, decides which process may work. So whatever dies between any two
acts here, there is one that works at most:

1. `Watch` finds a message that waits, writes a new launch id and goes on to `Launch`, in one transaction.
2. `Launch` starts the process and `Attend` follows. When this process dies in between, nobody knows whether there is
   one: the next `Launch` writes another id, unless a process has shown itself, which is kept. One that comes too late
   finds that its id is not the current one and ends.
3. `Attend` looks whether it lives, until it is gone; `Stop` waits for one that was told to end. Both only look.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import ClassVar

from towpath.actors.actor import Actor
from towpath.actors.next_step import Sleep
from towpath.actors.parts import Parts
from towpath.actors.spawned import Spawned
from towpath.actors.spawner_desk import Desk, Reason
from towpath.actors.spawner_states import Attend, Launch, Stop, Watch
from towpath.actors.spawning import EXIT_AWAY, Children, Life
from towpath.actors.spawning_environment import ATTEMPTS, Task
from towpath.actors.state import End, Failed
from towpath.actors.turn import Turn
from towpath.clock import MICROS
from towpath.db import Transaction
from towpath.db.machine import machine
from towpath.errors import BadActor, BadName, CommitUnknown, DatabaseUnavailable
from towpath.events import Event, EventKind
from towpath.queue.inbox import Inbox
from towpath.queue.payload import ACTORS, check_name, new_id
from towpath.queue.state import OnOwnerDeath

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
        self._children = Children()
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

    def on_register(self, parts: Parts, /) -> None:
        """The inbox is there before any process is, so that it can be sent to."""
        Inbox(parts.queue, self.inbox, OnOwnerDeath.AGAIN, ATTEMPTS)

    def watches(self) -> Mapping[str, str]:
        return {Watch.__name__: self.inbox}

    def transition(
        self, state: Watch | Launch | Attend | Stop | End | Failed, turn: Turn
    ) -> Sleep | Watch | Launch | Attend | Failed | None:
        desk = Desk(turn, self._children, self.grace_s)
        try:
            match state:
                case Watch():
                    return self._watch(state, turn, desk)
                case Launch():
                    return self._launch(state, turn, desk)
                case Attend():
                    return self._attend(state, turn, desk)
                case Stop():
                    return self._stop(state, turn, desk)
                case Failed(reason):
                    desk.abandon(reason)
                case End():
                    desk.abandon("its spawner has come to its end")
        except (DatabaseUnavailable, CommitUnknown):
            if isinstance(state, End | Failed):
                raise
            if isinstance(state, Launch) and turn.attempt > 1:  # the next message does not know how often this one ran
                return Sleep(Launch(state.launch_id, state.failures, is_doubtful=True), seconds=self.look_s)
            return Sleep(state, seconds=self.look_s)
        return None

    # The states

    def _watch(self, state: Watch, turn: Turn, desk: Desk) -> Sleep | Watch | Launch | Attend:
        row = desk.row()
        if row is not None and row.launch_id is not None:
            return Attend(row.launch_id, state.failures)
        message = desk.first_waiting(self.inbox)
        if message is None:
            _forget_look_before(turn)
            return Sleep(Watch(state.failures), seconds=self.look_s)
        if message.failures > self.retries:
            told = row.ended if row is not None else "its process died"
            desk.give_up_in_commit(message.id, f"tried {message.failures} times: {told}")
            return Watch()
        launch_id = new_id()
        turn.in_commit(lambda tx: desk.store.begin(tx, desk.spawner, self.inbox, launch_id))
        return Launch(launch_id, state.failures)

    def _launch(self, state: Launch, turn: Turn, desk: Desk) -> Sleep | Watch | Launch | Attend | Failed:
        row, launch_id = desk.row(), state.launch_id
        if row is None or row.launch_id != launch_id:
            return Watch(state.failures)
        if row.process_id is not None:
            return Attend(launch_id, state.failures)
        if (
            turn.attempt > 1 or state.is_doubtful
        ):  # somebody died here, and may have started one: that one must not work
            other_id = new_id()
            turn.in_commit(lambda tx: desk.store.replace(tx, desk.spawner, launch_id, other_id))
            return Launch(other_id, state.failures)
        try:
            pid = self._children.start(turn.parts.all_settings, self._task(turn), desk.spawner, launch_id).pid
        except OSError as error:
            desk.end_in_commit(launch_id, f"no process could be started: {error}", is_unusual=True)
            return self._failed_to_begin(state, f"no process could be started: {error}", desk)
        turn.in_commit(lambda tx: _note_started(tx, turn.parts, desk, launch_id, pid))
        return Sleep(Attend(launch_id, state.failures), seconds=min(FIRST_LOOK_S, self.look_s))

    def _attend(self, state: Attend, turn: Turn, desk: Desk) -> Sleep | Watch | Failed:
        row = desk.row()
        if row is None or row.launch_id != state.launch_id:
            return Watch(state.failures)
        life = desk.life(row, state.launch_id)
        if life.is_alive is False:
            return self._ended(state, row, life, desk)
        reason = desk.reason_to_end(row)
        if reason is None:
            _forget_look_before(turn)
            return Sleep(Attend(state.launch_id, state.failures), seconds=self.look_s)
        desk.signal(row, state.launch_id, signal.SIGTERM if reason.grace_s else signal.SIGKILL)
        kill_at_us = turn.parts.database.now() + int(reason.grace_s * MICROS)
        stop = Stop(state.launch_id, state.failures, reason.text, kill_at_us, reason.is_failure)
        return Sleep(stop, seconds=min(FIRST_LOOK_S, self.look_s))

    def _stop(self, state: Stop, turn: Turn, desk: Desk) -> Sleep | Watch | Failed:
        row = desk.row()
        if row is None or row.launch_id != state.launch_id:
            return Watch(state.failures)
        life, is_late = desk.life(row, state.launch_id), turn.parts.database.now() >= state.kill_at_us
        if life.is_alive is False or (life.is_alive is None and is_late):
            return self._ended(state, row, life, desk, Reason(state.why, 0.0, state.is_failure))
        if is_late:
            desk.signal(row, state.launch_id, signal.SIGKILL)
        _forget_look_before(turn)
        return Sleep(state, seconds=min(FIRST_LOOK_S, self.look_s))

    # What follows the end of a process

    def _ended(
        self, state: Attend | Stop, row: Spawned, life: Life, desk: Desk, stopped: Reason | None = None
    ) -> Sleep | Watch | Failed:
        told = desk.told(row, state.launch_id, life, None if stopped is None else stopped.text)
        desk.signal(row, state.launch_id, signal.SIGKILL)  # what it has left behind
        had_message = desk.free_claims(row, told) or row.message_id is not None or row.done > 0
        is_in_order = row.ended is not None and row.fault is None
        desk.end_in_commit(state.launch_id, told, is_unusual=not is_in_order)
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
        return self._failed_to_begin(state, told, desk)

    def _failed_to_begin(self, state: Launch | Attend | Stop, told: str, desk: Desk) -> Sleep | Watch:
        """Try again; after so many times the message that waits is given up, so that others get their turn."""
        if state.failures < self.retries:
            return Sleep(Watch(state.failures + 1), seconds=PAUSE_S * (state.failures + 1))
        message = desk.first_waiting(self.inbox)
        if message is not None:
            desk.give_up_in_commit(message.id, f"tried {self.retries + 1} times: {told}")
        return Watch()

    def _task(self, turn: Turn) -> Task:
        return Task(
            turn.actor,
            turn.instance,
            self.inbox,
            self.entry,
            tuple(self.command),
            self.linger_s,
            self.grace_s,
        )


def _is_boot_loop(row: Spawned, life: Life) -> bool:
    """It ended at once, or by itself before it asked for a message."""
    ended_at_once = life.lasted_s is not None and life.lasted_s < BOOT_LOOP_S
    ended_by_itself = life.exit_code is not None and life.exit_code >= 0
    return ended_at_once or (ended_by_itself and not row.is_ready)


def _note_started(tx: Transaction, parts: Parts, desk: Desk, launch_id: str, pid: int) -> None:
    desk.store.note_pid(tx, launch_id, pid, machine())
    data = {"launch": launch_id, "pid": pid, "machine": machine()}
    parts.event_log.record(tx, Event(EventKind.PROCESS_SPAWNED, desk.name, data=data))


def _forget_look_before(turn: Turn) -> None:
    """A look that found nothing new is not kept, or each spawner would leave a message every second."""
    before, function = turn.message.related_id, turn.message.function
    if before is not None:
        turn.in_commit(lambda tx: turn.parts.held.forget(tx, before, function))
