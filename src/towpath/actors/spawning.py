"""Starting processes, and knowing what became of those that this process has started."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from towpath.actors.spawned_log import SpawnedLog
from towpath.actors.spawning_environment import Task, environment
from towpath.settings import Settings

MAIN_MODULE = "towpath.actors.spawned_main"
KEPT_S = 600.0
# Of a process that is started here.
EXIT_AWAY = 69  # it could not reach the database
EXIT_REPLACED = 75  # its launch was not the current one
EXIT_FAULT = 78  # there is nothing that it could run
EXIT_CANCELLED = 143


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of a process."""

    is_alive: bool | None  # none: nobody here can tell
    exit_code: int | None = None
    lasted_s: float | None = None

    @property
    def how(self) -> str:
        """How it ended, as the end of a sentence."""
        if self.exit_code is None:
            return "is gone"
        if self.exit_code < 0:
            return f"was ended by signal {-self.exit_code}"
        return f"ended with exit code {self.exit_code}"


class Child:
    """A process that this one has started. A thread waits for its end, so that nothing is left of it then."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._process = process
        self._started = time.monotonic()
        self._ended: float | None = None
        threading.Thread(target=self._wait, name=f"spawned-{self.pid}", daemon=True).start()

    def life(self) -> Life:
        if self._ended is None:
            return Life(is_alive=True)
        return Life(False, self._process.returncode, self._ended - self._started)

    @property
    def ended_long_ago(self) -> bool:
        return self._ended is not None and time.monotonic() - self._ended > KEPT_S

    def _wait(self) -> None:
        self._process.wait()
        self._ended = time.monotonic()


class Children:
    """The processes that this one has started and not yet seen the end of, by their launch."""

    def __init__(self) -> None:
        self._children: dict[str, Child] = {}

    def start(self, settings: Settings, task: Task, spawner: str, launch_id: str) -> Child:
        """Start one, in a session of its own, so that it outlives this process. Raises `OSError`."""
        log = SpawnedLog(settings.actors.directory, task.actor, task.instance)
        with log.open(launch_id) as output:
            process = subprocess.Popen(
                [sys.executable, "-m", MAIN_MODULE, spawner, launch_id],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(settings, task, launch_id),
                start_new_session=True,
            )
        child = Child(process)
        # Others may have taken an instance over, and nobody asks here any more what became of its process.
        self._children = {id: each for id, each in self._children.items() if not each.ended_long_ago}
        self._children[launch_id] = child
        return child

    def find(self, launch_id: str) -> Child | None:
        return self._children.get(launch_id)

    def forget(self, launch_id: str) -> None:
        self._children.pop(launch_id, None)
