"""What every launcher can do (start processes, find them again, know how they ended), and what it is told to start."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from towpath.errors import BadName, BadValue

LAUNCH_VARIABLE = "TOWPATH_LAUNCH"
"""In the environment of all that belongs to a launch: `duty:launch:launch id`."""
LONGEST_NAME = 100
# What both a file and a container can be called.
_NAME = re.compile(rf"[a-zA-Z0-9][a-zA-Z0-9_.-]{{0,{LONGEST_NAME - 1}}}")


class LaunchState(StrEnum):
    """What a launcher knows of one launch."""

    RUNNING = "running"
    """Something of it runs."""
    ENDED = "ended"
    """Nothing of it runs, and nothing of it ever will."""
    UNKNOWN = "unknown"
    """Nothing of it runs: it is forgotten, or was never begun. Who was to begin it still may, until it is killed."""


@dataclass(frozen=True, slots=True)
class LaunchStatus:
    """One launch, as its launcher sees it now."""

    state: LaunchState
    pid: int | None = None
    """Its number on this host, while it runs and if there is one."""
    keeper: int | None = None
    """The number of what keeps it, if that is a process of this host: without it nobody would see its end."""
    exit_code: int | None = None
    """When it ended by itself."""
    signal: int | None = None
    """When a signal ended it."""
    reason: str | None = None
    """When neither is known, or not all there is to say: why not, or that it could not be started."""

    @property
    def is_running(self) -> bool:
        return self.state is LaunchState.RUNNING

    @property
    def how(self) -> str:
        """As the end of a sentence."""
        if self.state is not LaunchState.ENDED:
            return "runs" if self.is_running else "is not known here"
        if self.signal is not None:
            told = f"was ended by signal {self.signal}"
        elif self.exit_code is not None:
            told = f"ended with exit code {self.exit_code}"
        else:
            return self.reason or "is gone"
        return f"{told} ({self.reason})" if self.reason else told


class Launcher(Protocol):
    """Starts processes that outlive whoever starts them.

    A handle is a text by which any process on this host, also one that comes after a crash, means the same launch.
    Every call may be repeated. `LauncherAway` says that nothing is known, and that the call may be made again.
    """

    @property
    def name(self) -> str:
        """As in the settings: `subprocess` or `docker`."""

    def start(self, spec: LaunchSpec) -> str:
        """Start it and give its handle. A launch id that was started before is not started again: same handle.

        Raises `CannotLaunch` when it cannot be started as it is told (no such program, directory, image): it is ENDED.
        """

    def find(self, launch_id: str) -> str | None:
        """The handle of a launch that somebody has begun to start here, also if it has ended; None: nobody has."""

    def look(self, handle: str) -> LaunchStatus:
        """What is known of it now."""

    def wait(self, handles: Collection[str], timeout_s: float) -> list[str]:
        """Those that run no more (ENDED or UNKNOWN), as soon as there is one; none when the time is over."""

    def stop(self, handle: str, grace_s: float) -> None:
        """Ask it to end (SIGTERM), and end by force what runs after that time, all that it has started included.

        Returns at once: the grace time is kept by others, also if this process dies. To ask again with a shorter time
        shortens it. Nothing happens when it has ended.
        """

    def kill(self, handle: str) -> None:
        """End it and all that it has started by force; when this returns it is ENDED, also if it had not begun."""

    def logs(self, handle: str, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """Lines of its output: the last ones, or all that are kept; with `follow` those to come too, till it ends.

        Very long lines come in pieces; bytes that are no text are replaced.
        """

    def forget(self, handle: str) -> None:
        """Delete what is kept of an ended launch, its log included. Raises `StillRunning` when it runs."""

    def handles(self) -> list[str]:
        """Of all launches that are kept here, those that have ended too."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What a process may use; None: as much as there is."""

    memory_mb: int | None = None
    """Of each of its processes as a subprocess; of all together in a container."""
    cpu_s: int | None = None
    """Seconds of computing, of each of its processes; who is over is ended."""
    open_files: int | None = None
    processes: int | None = None
    """All that the user may run, as a subprocess (the kernel counts no other way); its own ones, in a container."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadValue(f"limit {name} = {value}: it must be 1 or more, or left out")


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How much of a process's output is kept: so many files of that size, the newest last."""

    file_mb: int = 10
    files: int = 3

    def __post_init__(self) -> None:
        if self.file_mb < 1 or self.files < 1:
            raise BadValue(f"log of {self.files} files of {self.file_mb} MB: both must be 1 or more")


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One start of a duty. The launch id is new for each start, and at most one process is ever started for it."""

    duty: str
    launch: int
    launch_id: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """All of it: nothing is inherited from whoever starts it."""
    directory: Path | None = None
    """Where it works; None: the launcher's choice."""
    limits: ProcessLimits = field(default_factory=ProcessLimits)
    log: LogLimits = field(default_factory=LogLimits)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Only to be seen, where the launcher can show them."""
    image: str = ""
    """Of a container; empty: the launcher's own."""

    def __post_init__(self) -> None:
        check_launch_name("duty", self.duty)
        check_launch_name("launch id", self.launch_id)
        if self.launch < 1:
            raise BadValue(f"launch {self.launch} of {self.duty}: launches are numbered from 1")
        if not self.command or not self.command[0]:
            example = "('towpath', 'desk', 'run')"
            raise BadValue(f"duty {self.duty}: the command is a program and its arguments, as in {example}")
        for text in (*self.command, *self.environment, *self.environment.values(), str(self.directory or "")):
            if "\0" in text:
                raise BadValue(f"duty {self.duty}: command, environment and directory cannot hold a NUL character")
        for name in self.environment:
            if not name or "=" in name:
                raise BadValue(f"duty {self.duty}: {name!r} is no name of a variable")

    @property
    def sign(self) -> str:
        """What marks all that belongs to this launch, and tells the process which launch it is."""
        return f"{self.duty}:{self.launch}:{self.launch_id}"

    @property
    def full_environment(self) -> dict[str, str]:
        """With the sign of this launch."""
        return {**self.environment, LAUNCH_VARIABLE: self.sign}


def is_launch_name(name: str) -> bool:
    """Whether a duty or a launch can have that name."""
    return _NAME.fullmatch(name) is not None


def check_launch_name(what: str, name: str) -> None:
    """Refuse a name that a file or a container could not have."""
    if not is_launch_name(name):
        allowed = f"letters, digits, '_', '-' and '.', at most {LONGEST_NAME}, beginning with a letter or digit"
        raise BadName(f"{what} {name!r} cannot be used: {allowed}")
