"""Launches as processes of this host, each with a keeper (`keeper.py`).

`KeeperWatch` hears at once when a keeper ends, also one that another process has started, without looking at each of
them. When a launch has lost its keeper, `settle` sees to it that nothing of it runs, nor ever will.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from towpath.core.crash import CrashPoint, here
from towpath.errors import BadName, CannotLaunch, LauncherAway, StillRunning, UnknownLaunch
from towpath.supervision.launchers.keeper_home import LaunchHome, write_whole
from towpath.supervision.launchers.launcher import (
    LAUNCH_VARIABLE,
    LaunchSpec,
    LaunchState,
    LaunchStatus,
    check_launch_name,
    is_launch_name,
)
from towpath.supervision.launchers.log_reader import LogReader
from towpath.supervision.launchers.process_tree import END_TREE_S, born, end_process_tree, session_left

LOOK_S = 0.1  # how often those are looked at whose end cannot be heard
KEEPER_MODULE = "towpath.supervision.launchers.keeper"
ANSWER_TIMEOUT_S = 30.0
SHOWN_CHARACTERS = 500
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

    def look(self, handle: str) -> LaunchStatus:
        """What its home says; and if its keeper has died, put that right first."""
        home = self._home(handle)
        with _explained(home):
            return self._look(home)

    def _look(self, home: LaunchHome) -> LaunchStatus:
        if (end := home.end) is not None:
            return _ended(end)
        if home.is_kept:
            told = home.keeper or {}
            return LaunchStatus(LaunchState.RUNNING, pid=told.get("pid"), keeper=told.get("keeper"))
        if not home.exists:
            return LaunchStatus(LaunchState.UNKNOWN)
        with home.locked() as is_ours:
            if not is_ours:  # a keeper that has just come, or is just going
                return LaunchStatus(LaunchState.RUNNING)
            if home.end is None and not home.has_begun:
                return LaunchStatus(LaunchState.UNKNOWN)
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


def _ended(end: dict[str, Any]) -> LaunchStatus:
    return LaunchStatus(
        LaunchState.ENDED, exit_code=end.get("exit_code"), signal=end.get("signal"), reason=end.get("reason")
    )


def start_keeper(home: LaunchHome, spec: Mapping[str, Any], adopt: Callable[[int], None]) -> None:
    """Start one, and wait until the launch is begun, by it or by another. `adopt` is called with its number."""
    answers, answer = os.pipe()
    try:
        try:
            adopt(_spawn(home, spec, answer))
        finally:
            os.close(answer)
        here(CrashPoint.LAUNCHER_KEEPER_SPAWNED)
        told = _read_answer(answers, ANSWER_TIMEOUT_S)
    finally:
        os.close(answers)
    if told is None:
        raise LauncherAway(f"the keeper of {home.path} did not answer within {ANSWER_TIMEOUT_S:g} s")
    if not told and not home.has_begun:
        raise LauncherAway(f"the keeper of {home.path} ended before it had begun{last_words(home)}")
    if trouble := told.get("trouble"):
        raise LauncherAway(f"{home.path} cannot be used: {trouble}")


def _spawn(home: LaunchHome, spec: Mapping[str, Any], answer: int) -> int:
    """Its number. It has no launch of its own: what keeps a process does not end with whoever has started it."""
    environment = {name: value for name, value in os.environ.items() if name != LAUNCH_VARIABLE}
    with _in_memory(json.dumps(spec).encode()) as told:
        actions = [
            (os.POSIX_SPAWN_DUP2, told, 0),
            (os.POSIX_SPAWN_DUP2, answer, 1),
            (os.POSIX_SPAWN_OPEN, 2, str(home.errors), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        ]
        try:
            return os.posix_spawn(
                sys.executable,
                [sys.executable, "-P", "-m", KEEPER_MODULE, str(home.path)],
                environment,
                file_actions=actions,
                setsigmask=(),
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
        except OSError as error:
            raise LauncherAway(f"this machine starts no more processes: {error.strerror}") from error


@contextmanager
def _in_memory(data: bytes) -> Iterator[int]:
    """A file without a name, on no disk where that can be: passwords may be in it."""
    with open(os.memfd_create("launch"), "w+b") if hasattr(os, "memfd_create") else TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def _read_answer(pipe: int, timeout_s: float) -> dict[str, Any] | None:
    """What the keeper says; nothing if it ended without a word; None when the time is over."""
    told, deadline = b"", time.monotonic() + timeout_s
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while not told.endswith(b"\n"):
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        data = os.read(pipe, 4096)
        if not data:
            return {}
        told += data
    answer: dict[str, Any] = json.loads(told)
    return answer


class KeeperWatch:
    """Waits for the ends of keepers, by the handle of their launch."""

    def __init__(self) -> None:
        self._lives: dict[str, int] = {}
        self._children: set[int] = set()
        self._lock = threading.Lock()

    def adopt(self, pid: int) -> None:
        """Remember that this process has started it, and has to take note of its end."""
        with self._lock:
            self._children.add(pid)
        self._reap()

    def add(self, handle: str, keeper: Mapping[str, Any] | None) -> None:
        """Watch a keeper, if it is who it is said to be and the kernel can tell of its end."""
        if keeper is None or not hasattr(os, "pidfd_open"):
            return
        try:
            life = os.pidfd_open(keeper["keeper"])
        except OSError:
            return
        # Asked after it is held: now the number cannot become another's without our knowing.
        if born(keeper["keeper"]) != keeper["keeper_born"]:
            os.close(life)
            return
        with self._lock:
            before, self._lives[handle] = self._lives.get(handle), life
        if before is not None:
            os.close(before)

    def wait(self, handles: Collection[str], timeout_s: float) -> list[str]:
        """Until one of them ends: that one, and those whose end we would not hear, which have to be looked at."""
        lives = {life: handle for handle in handles if (life := self._lives.get(handle)) is not None}
        unheard = [handle for handle in handles if handle not in self._lives]
        heard = [lives[life] for life in _poll(lives, min(timeout_s, LOOK_S) if unheard else timeout_s)]
        if heard:
            self._reap()
        return heard + unheard

    def forget(self, handle: str) -> None:
        with self._lock:
            life = self._lives.pop(handle, None)
        if life is not None:
            os.close(life)
        self._reap()

    def _reap(self) -> None:
        """Let go those of our own that have ended, or they would stay in the list of processes."""
        for pid in list(self._children):
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._children.discard(pid)


def _poll(lives: Iterable[int], timeout_s: float) -> list[int]:
    """Those that have ended, as soon as there is one."""
    poll = select.poll()
    for life in lives:
        poll.register(life, select.POLLIN)
    return [life for life, _ in poll.poll(max(0.0, timeout_s) * 1000)]


def settle(home: LaunchHome) -> dict[str, Any]:
    """With the lock held: whoever kept it is dead. Nothing of it runs afterwards, nor ever will; how it ended."""
    if (end := home.end) is not None:
        return end
    spec, was_begun = home.told, home.has_begun
    home.begin()
    here(CrashPoint.SETTLE_BEGUN)
    keeper = home.keeper or {}
    session = session_left(keeper["pid"], keeper["born"], keeper["boot"]) if "born" in keeper else None
    left = [] if spec is None else end_process_tree(f"{spec['variable']}={spec['sign']}", session, END_TREE_S)
    reason = f"its keeper was killed, and it died with it{last_words(home)}"
    if not was_begun:
        reason = "it was ended before it had begun"
    if left:
        reason = f"its keeper was killed, and these of its processes do not end, not even by SIGKILL: {left}"
    end = {"reason": reason, "ended_at": time.time()}
    home.write_end(end)
    return end


def end_keeper(home: LaunchHome, timeout_s: float) -> None:
    """One that does not do what it is told: it is stopped, or the machine is."""
    keeper = home.keeper
    if keeper is None or born(keeper["keeper"]) != keeper["keeper_born"]:
        return
    with suppress(ProcessLookupError):
        os.kill(keeper["keeper"], signal.SIGKILL)
    deadline = time.monotonic() + timeout_s
    while home.is_kept and time.monotonic() < deadline:
        time.sleep(STEP_S)


def last_words(home: LaunchHome) -> str:
    """What a keeper had to say before it died, if anything."""
    with suppress(OSError):
        if said := home.errors.read_text(errors="replace").strip():
            return f": {said[-SHOWN_CHARACTERS:]}"
    return ""
