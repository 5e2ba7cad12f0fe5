"""What is to be started: one launch of one duty."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from towpath.errors import BadName, BadValue

LAUNCH_VARIABLE = "TOWPATH_LAUNCH"
"""In the environment of all that belongs to a launch: `duty:launch:launch id`."""

MB = 1 << 20
LONGEST_NAME = 100
# What both a file and a container can be called.
_NAME = re.compile(rf"[a-zA-Z0-9][a-zA-Z0-9_.-]{{0,{LONGEST_NAME - 1}}}")


@dataclass(frozen=True, slots=True)
class Limits:
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
    limits: Limits = field(default_factory=Limits)
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
