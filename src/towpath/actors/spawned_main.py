"""The main program of a process that a spawner actor runs: `python -m towpath.actors.spawned_main SPAWNER LAUNCH`.

It is a program like any that uses Towpath, with the settings of its spawner in its environment.

1. It shows itself with its launch id. When that is not the current one, it ends before it has done anything.
2. It takes a message, also one that a dead process held, and does the work.
3. It brings the message to its end, and goes on while there are more.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import towpath
from towpath import logs
from towpath.actors.spawned import SpawnedStore
from towpath.actors.spawned_command import Command
from towpath.actors.spawned_job import Cancelled, Job
from towpath.actors.spawned_leash import Leash
from towpath.actors.spawned_log import SpawnedLog
from towpath.actors.spawned_patience import patiently
from towpath.actors.spawned_work import Work
from towpath.actors.spawning import EXIT_AWAY, EXIT_CANCELLED, EXIT_FAULT, EXIT_REPLACED
from towpath.actors.spawning_environment import ATTEMPTS, Task
from towpath.db.machine import machine
from towpath.errors import BadActor, CommitUnknown, DatabaseUnavailable, ProcessDead
from towpath.user_code import import_user_module

CONNECT_S = 40.0
FIRST_WAIT_S = 30.0


def main(spawner: str, launch_id: str) -> int:
    task = Task.from_environment()
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
    def __init__(self, runtime: towpath.Runtime, task: Task, spawner: str, launch_id: str) -> None:
        self._runtime = runtime
        self._task = task
        self._spawner = spawner
        self._launch_id = launch_id
        self._store = SpawnedStore(runtime.database)

    def run(self) -> int:
        process_id = patiently(self._runtime.process, CONNECT_S).id
        if not patiently(lambda: self._show_up(process_id), CONNECT_S):
            _say(f"launch {self._launch_id} is not the one that {self._spawner} wants: this process ends")
            return EXIT_REPLACED
        try:
            handler = self._handler()
        except BadActor as error:
            _say(str(error))
            self._leave(process_id, "could not begin", str(error))
            return EXIT_FAULT
        leash = self._leash(process_id)
        leash.start()
        try:
            self._work(process_id, handler, leash)
        finally:
            leash.job = None
            leash.stop()
        self._leave(process_id, "has nothing more to do")
        return 0

    def _work(self, process_id: str, handler: Callable[[Job], Any], leash: Leash) -> None:
        task, queue = self._task, self._runtime.queue
        inbox = patiently(lambda: queue.single_shot(task.inbox, max_attempts=ATTEMPTS))
        work = Work(self._runtime, inbox.inbox, self._store, self._launch_id, process_id, leash)
        patiently(work.get_ready)
        message = patiently(lambda: inbox.receive(FIRST_WAIT_S))
        while message is not None:
            work.do(message, handler)
            message = patiently(lambda: inbox.receive(task.linger_s))

    def _show_up(self, process_id: str) -> bool:
        with self._runtime.database.single() as tx:
            return self._store.show_up(tx, self._spawner, self._launch_id, process_id, os.getpid(), machine())

    def _leave(self, process_id: str, ended: str, fault: str | None = None) -> None:
        def leave() -> None:
            with self._runtime.database.single() as tx:
                self._store.leave(tx, self._launch_id, process_id, ended, fault)

        patiently(leave)

    def _handler(self) -> Callable[[Job], Any]:
        task = self._task
        if task.command:
            if shutil.which(task.command[0]) is None:
                raise BadActor(f"there is no program {task.command[0]!r} on the path")
            return Command(task.command, self._runtime.settings.queue.max_payload_bytes, task.grace_s / 2)
        place, _, name = task.entry.rpartition(":")
        found = getattr(import_user_module(place, Path.cwd(), BadActor).module, name, None)
        if not callable(found):
            raise BadActor(f"{place} has no function {name!r}")
        handler: Callable[[Job], Any] = found
        return handler

    def _leash(self, process_id: str) -> Leash:
        runtime, task = self._runtime, self._task
        log = SpawnedLog(runtime.settings.actors.directory, task.actor, task.instance)
        return Leash(runtime.database, runtime.events, self._launch_id, process_id, log, task.grace_s)


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
    _leave_soon(exit_code, Task.from_environment().grace_s)
    sys.exit(exit_code)
