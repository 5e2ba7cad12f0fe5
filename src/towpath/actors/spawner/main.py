"""The main program of a process that a spawner runs: `python -m towpath.actors.spawner.main SPAWNER LAUNCH`.

It is a program like any other that uses Towpath, with the settings of its spawner in its environment.

1. It shows itself with its launch id. If that is not the current one, it ends before it has done anything.
2. It takes a message, also one that a dead process held, and does the work.
3. It brings the message to its end, and goes on while there are more.

Beside the work, `RowWatch` reports progress, and ends the process when nobody wants its work any more.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import towpath
from towpath.actors.spawner.job import Cancelled, Job, JobFailed, SpawnedCommand
from towpath.actors.spawner.launch import (
    ATTEMPTS,
    EXIT_AWAY,
    EXIT_CANCELLED,
    EXIT_FAULT,
    EXIT_REPLACED,
    SpawnedLog,
    SpawnTask,
)
from towpath.actors.spawner.store import AWAY_S, PAUSE_S, SpawnedStore, patiently
from towpath.core import logs
from towpath.core.events import Events
from towpath.core.os_processes import machine
from towpath.core.service import RoundResult, Service
from towpath.core.user_code import import_user_module
from towpath.db import Database
from towpath.errors import (
    BadActor,
    BadPayload,
    BadValue,
    ClaimLost,
    CommitUnknown,
    DatabaseError,
    DatabaseUnavailable,
    ProcessDead,
)
from towpath.queue.inbox import Inbox
from towpath.queue.model import GiveBack, Handling, Message, handling
from towpath.queue.states import MessageState

if TYPE_CHECKING:
    from towpath.runtime import Runtime

logger = logging.getLogger(__name__)

LOOK_S = 0.5
CONNECT_S = 40.0
FIRST_WAIT_S = 30.0


def main(spawner: str, launch_id: str) -> int:
    task = SpawnTask.from_environment()
    signal.signal(signal.SIGTERM, _cancel)
    try:
        with patiently(towpath.connect, CONNECT_S) as runtime:
            logs.configure(runtime.settings.logging)
            return _Process(runtime, task, spawner, launch_id).run()
    except Cancelled:
        return EXIT_CANCELLED
    except (DatabaseUnavailable, CommitUnknown, ProcessDead) as error:
        _say(str(error))
        return EXIT_AWAY


class _Process:
    """Shows itself, and works on one message after the other."""

    def __init__(self, runtime: Runtime, task: SpawnTask, spawner: str, launch_id: str) -> None:
        self._runtime = runtime
        self._database = runtime.database
        self._task = task
        self._spawner = spawner
        self._launch_id = launch_id
        self._process_id = patiently(runtime.process, CONNECT_S).id
        self._store = SpawnedStore(runtime.database)
        log = SpawnedLog(runtime.settings.actors.directory, task.actor, task.instance)
        self._watch = RowWatch(runtime.database, runtime.events, launch_id, self._process_id, log, task.grace_s)

    def run(self) -> int:
        if not patiently(self._show_up, CONNECT_S):
            _say(f"launch {self._launch_id} is not the one that {self._spawner} wants: this process ends")
            return EXIT_REPLACED
        try:
            handler = self._handler()
        except BadActor as error:
            _say(str(error))
            self._leave("could not begin", str(error))
            return EXIT_FAULT
        self._watch.start()
        try:
            self._work(handler)
        finally:
            self._watch.job = None
            self._watch.stop()
        self._leave("has nothing more to do")
        return 0

    def _handler(self) -> Callable[[Job], Any]:
        task = self._task
        if task.command:
            if shutil.which(task.command[0]) is None:
                raise BadActor(f"there is no program {task.command[0]!r} on the path")
            return SpawnedCommand(task.command, self._runtime.settings.queue.max_payload_bytes, task.grace_s / 2)
        place, _, name = task.entry.rpartition(":")
        found = getattr(import_user_module(place, Path.cwd(), BadActor).module, name, None)
        if not callable(found):
            raise BadActor(f"{place} has no function {name!r}")
        handler: Callable[[Job], Any] = found
        return handler

    # Messages

    def _work(self, handler: Callable[[Job], Any]) -> None:
        task, queue = self._task, self._runtime.queue
        inbox = patiently(lambda: queue.single_shot(task.inbox, max_attempts=ATTEMPTS))
        patiently(self._get_ready)
        message = patiently(lambda: inbox.receive(FIRST_WAIT_S))
        while message is not None:
            self._do(inbox.inbox, message, handler)
            message = patiently(lambda: inbox.receive(task.linger_s))

    def _do(self, inbox: Inbox, message: Message, handler: Callable[[Job], Any]) -> None:
        """Raises `Cancelled` when it is not to be done."""
        if not patiently(lambda: self._take_up(message)):
            inbox.release(message)
            raise Cancelled
        job = self._watch.job = Job(message, self._runtime)
        try:
            outcome = self._call(handler, job)
        finally:
            self._watch.job = None  # before its message moves, which would look as if somebody else had moved it
        self._end(inbox, message, outcome)

    def _call(self, handler: Callable[[Job], Any], job: Job) -> Any:
        message = job.message
        with handling(Handling(message)):
            try:
                return handler(job)
            except (Cancelled, KeyboardInterrupt):
                raise
            except BaseException as error:  # sys.exit() ends its message, not the process
                logger.warning("%s %s failed", message.function, message.id, exc_info=True)
                return JobFailed(f"{type(error).__name__}: {error}")

    def _end(self, inbox: Inbox, message: Message, outcome: Any) -> None:
        """Bring it to its end, also when the database is away for a while."""
        deadline, in_doubt = time.monotonic() + AWAY_S, False
        while True:
            try:
                if not (in_doubt and self._was_ended(message, outcome)):
                    self._move(inbox, message, outcome)
                return
            except ClaimLost as lost:
                logger.warning("%s", lost)
                with suppress(DatabaseError), self._database.single() as tx:
                    self._store.put_down(tx, self._launch_id, self._process_id)
                return
            except (BadPayload, BadValue) as bad:
                outcome = JobFailed(f"the answer cannot be sent: {bad}")
            except DatabaseError as away:
                in_doubt = in_doubt or isinstance(away, CommitUnknown)
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)

    def _was_ended(self, message: Message, outcome: Any) -> bool:
        state = MessageState.ERR if isinstance(outcome, JobFailed) else MessageState.OK
        with self._database.read() as tx:
            return self._runtime.queue.parts.messages.already_ended(tx, message, state)

    def _move(self, inbox: Inbox, message: Message, outcome: Any) -> None:
        with self._database.transaction() as tx:
            match outcome:
                case JobFailed(reason):
                    inbox.fail(message, reason, tx=tx)
                case GiveBack(after_s):
                    inbox.release(message, after_s, tx=tx)
                case _:
                    inbox.finish(message, outcome, tx=tx)
            self._store.put_down(tx, self._launch_id, self._process_id)

    # The row

    def _show_up(self) -> bool:
        with self._database.single() as tx:
            launch_id, process_id = self._launch_id, self._process_id
            return self._store.show_up(tx, self._spawner, launch_id, process_id, os.getpid(), machine())

    def _get_ready(self) -> None:
        """Messages are asked for from now on: what goes wrong before this is no message's fault."""
        with self._database.single() as tx:
            self._store.get_ready(tx, self._launch_id, self._process_id)

    def _take_up(self, message: Message) -> bool:
        with self._database.single() as tx:
            return self._store.take_up(tx, self._launch_id, self._process_id, message.id, message.failures)

    def _leave(self, ended: str, fault: str | None = None) -> None:
        def leave() -> None:
            with self._database.single() as tx:
                self._store.leave(tx, self._launch_id, self._process_id, ended, fault)

        patiently(leave)


def end_group(which: signal.Signals) -> None:
    """This process and all that it has started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), which)
    else:
        os.kill(os.getpid(), which)


class RowWatch(Service):
    """Reports progress to the row, and ends this process when its row says that nobody wants its work any more.

    Runs beside the work. The spawner may be on another machine, or have been replaced: the row reaches us there.
    """

    name = "leash"

    def __init__(
        self,
        database: Database,
        events: Events,
        launch_id: str,
        process_id: str,
        log: SpawnedLog,
        grace_s: float,
        end: Callable[[signal.Signals], None] = end_group,
    ) -> None:
        super().__init__(events)
        self.job: Job | None = None
        """What is worked on. Taken away before its message is brought to its end."""
        self._database = database
        self._store = SpawnedStore(database)
        self._launch_id = launch_id
        self._process_id = process_id
        self._log = log
        self._grace_s = grace_s
        self._end = end
        self._told: tuple[float, str] | None = None
        self._kill_at: float | None = None

    def run_once(self) -> RoundResult:
        job = self.job
        self._log.cut()
        if self._kill_at is not None:
            if time.monotonic() >= self._kill_at:
                logger.warning("this process did not end within %g s: it is killed", self._grace_s)
                self._end(signal.SIGKILL)
        elif not self._is_wanted(job) and self.job is job:
            logger.warning("nobody wants this work any more: this process ends")
            self._kill_at = time.monotonic() + self._grace_s
            self._end(signal.SIGTERM)
        elif job is not None:
            self._tell(job)
        return RoundResult(1, LOOK_S)

    def _is_wanted(self, job: Job | None) -> bool:
        message_id = None if job is None else job.message.id
        with self._database.glance() as tx:
            return self._store.is_wanted(tx, self._launch_id, self._process_id, message_id)

    def _tell(self, job: Job) -> None:
        told = job.told
        if told is not None and told != self._told:
            with self._database.single() as tx:
                self._store.tell(tx, self._launch_id, self._process_id, *told)
            self._told = told


def _cancel(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: what cleans up is not to be disturbed
    raise Cancelled


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _leave_soon(code: int, grace_s: float) -> None:
    """Threads that the work has left behind do not keep the process."""
    timer = threading.Timer(grace_s, os._exit, (code,))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    exit_code = main(*sys.argv[1:])
    _leave_soon(exit_code, SpawnTask.from_environment().grace_s)
    sys.exit(exit_code)
