"""Starting a process for a spawner, knowing whether it lives, ending it, and keeping what it writes.

- A spawned process finds its task and all settings in its environment. Nothing stands on its command line, where other
  users of the machine could read a password.
- A process is known by its number and its launch id: a number alone may be another process's by now. The launch id is
  among its arguments, and in the environment of everything that it starts.
- Standard output and error go to one log file for each instance, which stays small.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from towpath.core import os_processes
from towpath.core.os_processes import machine
from towpath.settings import NESTED, PREFIX, Settings, all_keys

LAUNCH = "SPAWNED_LAUNCH"
TASK = "SPAWNED_TASK"
ATTEMPTS = 1_000_000  # the spawner counts them: it can say what the processes died of
MOST_BYTES = 4 << 20
KEPT_BYTES = 1 << 20
LOOKED_AT_BYTES = 16 << 10
SHOWN_CHARACTERS = 1_500
LONGEST_NAME = 150
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
MAIN_MODULE = "towpath.actors.spawner.main"
KEPT_S = 600.0
# Of a process that is started here.
EXIT_AWAY = 69  # it could not reach the database
EXIT_REPLACED = 75  # its launch was not the current one
EXIT_FAULT = 78  # there is nothing that it could run
EXIT_CANCELLED = 143


class SpawnedChildren:
    """The processes that this one has started and not yet seen the end of, by their launch."""

    def __init__(self) -> None:
        self._children: dict[str, SpawnedChild] = {}

    def start(self, settings: Settings, task: SpawnTask, spawner: str, launch_id: str) -> SpawnedChild:
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
        child = SpawnedChild(process)
        # Others may have taken an instance over, and nobody asks here any more what became of its process.
        self._children = {id: each for id, each in self._children.items() if not each.ended_long_ago}
        self._children[launch_id] = child
        return child

    def find(self, launch_id: str) -> SpawnedChild | None:
        return self._children.get(launch_id)

    def forget(self, launch_id: str) -> None:
        self._children.pop(launch_id, None)


class SpawnedChild:
    """A process that this one has started. A thread waits for its end, so that nothing is left of it then."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._process = process
        self._started = time.monotonic()
        self._ended: float | None = None
        threading.Thread(target=self._wait, name=f"spawned-{self.pid}", daemon=True).start()

    def life(self) -> ProcessLife:
        if self._ended is None:
            return ProcessLife(is_alive=True)
        return ProcessLife(False, self._process.returncode, self._ended - self._started)

    @property
    def ended_long_ago(self) -> bool:
        return self._ended is not None and time.monotonic() - self._ended > KEPT_S

    def _wait(self) -> None:
        self._process.wait()
        self._ended = time.monotonic()


@dataclass(frozen=True, slots=True)
class ProcessLife:
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


def is_here(of_machine: str | None) -> bool:
    """Whether numbers of that machine mean the same here."""
    return of_machine == machine() != ""


def is_running(pid: int, launch_id: str) -> bool:
    """Whether the process of that launch runs here; one that has ended and is not reaped does not."""
    running = os_processes.find_process(pid)
    return running is not None and running.is_marked(launch_id)


def send_signal(pid: int, launch_id: str, which: signal.Signals, *, is_there: bool = False) -> None:
    """To the process and all that it has started; also to what it left behind when it is gone itself."""
    with suppress(ProcessLookupError, PermissionError):
        if is_there or is_running(pid, launch_id):
            os.killpg(pid, which)  # it leads its group
            return
    for each in _left_behind(pid, launch_id):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, which)


def _left_behind(group: int, launch_id: str) -> Iterator[int]:
    """Processes of a group whose leader is gone."""
    sign = f"{LAUNCH}={launch_id}".encode()
    for home in os_processes.PROC.glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (home / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group and sign in (home / "environ").read_bytes().split(b"\0"):
                yield int(home.name)


@dataclass(frozen=True)
class SpawnTask:
    """What a spawned process is to do."""

    actor: str
    instance: str
    inbox: str
    entry: str
    command: tuple[str, ...]
    linger_s: float
    grace_s: float

    @classmethod
    def from_environment(cls) -> SpawnTask:
        given = json.loads(os.environ[TASK])
        return cls(**{**given, "command": tuple(given["command"])})


def environment(settings: Settings, task: SpawnTask, launch_id: str) -> dict[str, str]:
    """All that the process needs, and what this one was given."""
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith(PREFIX)}
    own = {
        LAUNCH: launch_id,
        TASK: json.dumps(asdict(task)),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONUNBUFFERED": "1",
    }
    return {**inherited, **variables(settings), f"{PREFIX}PROCESS{NESTED}NAME": task.actor, **own}


def variables(settings: Settings) -> dict[str, str]:
    """Every setting as a variable, so that no file and no default can say something else."""
    values = settings.model_dump(mode="json", by_alias=True)
    return {PREFIX + NESTED.join(keys).upper(): _text(_at(values, keys)) for keys in all_keys()}


def _at(values: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        values = values[key]
    return values


def _text(value: Any) -> str:
    match value:
        case None:
            return "never"
        case str():
            return value
    return json.dumps(value)


class SpawnedLog:
    """The log file of one instance. Its processes append to it, and cut it when it has grown too large."""

    def __init__(self, directory: str | Path, actor: str, instance: str) -> None:
        self.path = Path(directory).expanduser() / _file_name(actor, instance)

    def open(self, launch_id: str) -> BinaryIO:
        """The file for one more process, whose output stands behind a line that names its launch."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.cut()
        file = self.path.open("ab", buffering=0)
        file.write(f"\n{_mark(launch_id)} at {datetime.now(UTC).isoformat(timespec='seconds')}\n".encode())
        return file

    def cut(self) -> None:
        """Leave the end of it when it has grown too large. Who writes to it meanwhile may lose a few lines."""
        with suppress(OSError):
            if self.path.stat().st_size > MOST_BYTES:
                end = self._end(KEPT_BYTES)
                with self.path.open("r+b") as file:
                    file.truncate(0)
                with self.path.open("ab", buffering=0) as file:
                    file.write(b"... what was written before is cut off\n" + end)

    def tail(self, launch_id: str) -> str:
        """The end of what one launch has written, as text that can be shown; empty when it wrote nothing."""
        try:
            end = self._end(LOOKED_AT_BYTES)
        except OSError:
            return ""
        _, found, after = end.rpartition(_mark(launch_id).encode())
        own = after.partition(b"\n")[2] if found else end
        return shown(own)

    def _end(self, count: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - count))
            return file.read(count)


def shown(output: bytes) -> str:
    """The end of an output as text, whatever it is."""
    text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", output.decode(errors="replace")).strip()
    return text if len(text) <= SHOWN_CHARACTERS else f"…{text[-SHOWN_CHARACTERS:]}"


def _mark(launch_id: str) -> str:
    return f"=== launch {launch_id}"


def _file_name(actor: str, instance: str) -> str:
    """A name that a file can have, whatever the instance is called."""
    name = quote(f"{actor}-{instance}", safe="")
    if len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}-{sha256(name.encode()).hexdigest()[:12]}"
    return f"{name}.log"
