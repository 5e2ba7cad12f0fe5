"""Processes of this host, each with a keeper."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from towpath.crash import CrashPoint, here
from towpath.errors import BadName, CannotLaunch, LauncherAway, StillRunning, UnknownLaunch
from towpath.supervision.launchers.home import LaunchHome, write_whole
from towpath.supervision.launchers.keeper_start import start_keeper
from towpath.supervision.launchers.keeper_watch import KeeperWatch
from towpath.supervision.launchers.launch_spec import LAUNCH_VARIABLE, LaunchSpec, check_launch_name, is_launch_name
from towpath.supervision.launchers.launcher import Looked, LookedState
from towpath.supervision.launchers.log_reader import LogReader
from towpath.supervision.launchers.settling import end_keeper, settle

KILL_TIMEOUT_S = 5.0
TELL_TIMEOUT_S = 10.0
STEP_S = 0.02


class SubprocessLauncher:
    """Keeps the homes of its launches in a directory, as `DUTY/LAUNCH_ID`. The handle is the path of the home.

    All of it: whoever looks from another working directory, or after the setting was changed, would find nothing, and
    take what runs for ended.
    """

    name = "subprocess"

    def __init__(self, directory: Path) -> None:
        self._directory = directory.expanduser().absolute()
        self._watch = KeeperWatch()

    # Starting

    def start(self, spec: LaunchSpec) -> str:
        """Start it, unless it was started before; its handle."""
        home = self._home(f"{spec.duty}/{spec.launch_id}")
        told = _told(spec)
        with _explained(home):
            _furnish(home, told)
        here(CrashPoint.LAUNCHER_HOME_MADE)
        if not home.has_begun and not home.is_kept:
            start_keeper(home, {**told, "environment": spec.full_environment}, self._watch.adopt)
        here(CrashPoint.LAUNCHER_STARTED)
        if (end := home.end) is not None and end.get("is_never_begun"):
            raise CannotLaunch(f"{spec.duty} cannot be started: {end['reason']}")
        return str(home.path)

    # Looking

    def find(self, launch_id: str) -> str | None:
        """The handle of a launch that somebody has begun to start."""
        check_launch_name("launch id", launch_id)
        return next((str(path) for path in self._directory.glob(f"*/{launch_id}") if _is_home(path)), None)

    def handles(self) -> list[str]:
        """Of all launches that have a home here."""
        return sorted(str(path) for path in self._directory.glob("*/*") if _is_home(path))

    def look(self, handle: str) -> Looked:
        """What its home says; and if its keeper has died, put that right first."""
        home = self._home(handle)
        with _explained(home):
            return self._look(home)

    def _look(self, home: LaunchHome) -> Looked:
        if (end := home.end) is not None:
            return _ended(end)
        if home.is_kept:
            told = home.keeper or {}
            return Looked(LookedState.RUNNING, pid=told.get("pid"), keeper=told.get("keeper"))
        if not home.exists:
            return Looked(LookedState.UNKNOWN)
        with home.locked() as is_ours:
            if not is_ours:  # a keeper that has just come, or is just going
                return Looked(LookedState.RUNNING)
            if home.end is None and not home.has_begun:
                return Looked(LookedState.UNKNOWN)
            return _ended(settle(home))

    def wait(self, handles: Collection[str], timeout_s: float) -> list[str]:
        """Those that run no more, as soon as there is one."""
        deadline = time.monotonic() + timeout_s
        left_s = 0.0  # first what is known already
        while True:
            heard = self._watch.wait(handles, left_s)
            ended = [handle for handle in heard if not self._runs(handle)]
            left_s = deadline - time.monotonic()
            if ended or left_s <= 0:
                return ended

    def _runs(self, handle: str) -> bool:
        """Whether it does; then its end is heard from now on."""
        if not self.look(handle).is_running:
            self._watch.forget(handle)
            return False
        self._watch.add(handle, self._home(handle).keeper)
        return True

    # Ending

    def stop(self, handle: str, grace_s: float) -> None:
        """Its keeper asks it, and kills it when it takes longer."""
        self._tell(self._home(handle), f"stop {max(0.0, grace_s):.3f}")

    def kill(self, handle: str) -> None:
        """Its keeper does it; if that does not, the kernel, who ends the process of a dead keeper."""
        home = self._home(handle)
        self._tell(home, "kill")
        if not self.wait([handle], KILL_TIMEOUT_S):
            end_keeper(home, KILL_TIMEOUT_S)
            self._tell(home, "kill")
        if self.look(handle).is_running:
            raise LauncherAway(f"{handle} does not end; its processes have {LAUNCH_VARIABLE} in their environment")

    def _tell(self, home: LaunchHome, command: str) -> None:
        """Tell the keeper. If there is none and will be none, see that nothing of the launch runs, nor ever will."""
        deadline = time.monotonic() + TELL_TIMEOUT_S
        while home.exists and home.end is None and not home.tell(command):
            with _explained(home), home.locked() as is_ours:
                if is_ours:
                    settle(home)
                    return
            if time.monotonic() > deadline:
                raise LauncherAway(f"the keeper of {home.path} does not come to do its work")
            time.sleep(STEP_S)

    # What is kept

    def logs(self, handle: str, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """What it wrote, from its files."""
        home = self._home(handle)
        if not home.exists:
            raise UnknownLaunch(f"{handle} is not known here: it was never started on this host, or is forgotten")
        files = (home.told or {}).get("log", {}).get("files", 1)
        return LogReader(home.log, files).lines(tail, lambda: not (follow and self.look(handle).is_running))

    def forget(self, handle: str) -> None:
        """Delete its home."""
        home = self._home(handle)
        if self.look(handle).is_running:
            raise StillRunning(f"{handle} runs; stop it first")
        self._watch.forget(handle)
        shutil.rmtree(home.path, ignore_errors=True)
        with suppress(OSError):
            home.path.parent.rmdir()  # if that was the last one

    def _home(self, handle: str) -> LaunchHome:
        """Of a handle; one of an older version is not whole, and means a home in our directory."""
        path = self._directory / handle
        check_launch_name("duty", path.parent.name)
        check_launch_name("launch id", path.name)
        if not Path(handle).is_absolute() and path.parent.parent != self._directory:
            raise BadName(f"{handle!r} is not the home of a launch")
        return LaunchHome(path)


@contextmanager
def _explained(home: LaunchHome) -> Iterator[None]:
    """A full disk, a home of another user, or one that is deleted while we look."""
    try:
        yield
    except OSError as error:
        raise LauncherAway(f"{home.path} cannot be used: {error.strerror}") from error


def _is_home(path: Path) -> bool:
    """Whatever else may lie in the directory is not ours."""
    return is_launch_name(path.name) and is_launch_name(path.parent.name) and path.is_dir()


def _furnish(home: LaunchHome, told: Mapping[str, Any]) -> None:
    home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    here(CrashPoint.LAUNCHER_DIRECTORY_MADE)
    if home.told is None:
        write_whole(home.spec, told)


def _told(spec: LaunchSpec) -> dict[str, Any]:
    """What is written down of it."""
    return {
        "command": spec.command,
        "directory": str((spec.directory or Path.cwd()).absolute()),
        "limits": asdict(spec.limits),
        "log": asdict(spec.log),
        "variable": LAUNCH_VARIABLE,
        "sign": spec.sign,
        "labels": dict(spec.labels),
    }


def _ended(end: dict[str, Any]) -> Looked:
    return Looked(LookedState.ENDED, exit_code=end.get("exit_code"), signal=end.get("signal"), reason=end.get("reason"))
