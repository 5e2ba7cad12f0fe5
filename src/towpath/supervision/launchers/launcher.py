"""What every launcher can do: start processes, find them again, and know how they ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from towpath.supervision.launchers.launch_spec import LaunchSpec


class LookedState(StrEnum):
    """What a launcher knows of one launch."""

    RUNNING = "running"
    """Something of it runs."""
    ENDED = "ended"
    """Nothing of it runs, and nothing of it ever will."""
    UNKNOWN = "unknown"
    """Nothing of it runs: it is forgotten, or was never begun. Who was to begin it still may, until it is killed."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One launch, as its launcher sees it now."""

    state: LookedState
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
        return self.state is LookedState.RUNNING

    @property
    def how(self) -> str:
        """As the end of a sentence."""
        if self.state is not LookedState.ENDED:
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

    def look(self, handle: str) -> Looked:
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
