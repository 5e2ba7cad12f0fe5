"""Keeps one process: starts it, writes down its output, ends it when told, and writes down how it ended.

`python -m towpath.supervision.launchers.keeper HOME`. It reads from its standard input what to start, tells on its
standard output whether that could be done, outlives whoever started it, and ends with its process. The order of its
acts (see `keeper_home.py` for the files):

1. Take the lock; who does not get it leaves, since the launch is kept. Leave too if the launch was begun before.
2. Open the control pipe: now others can see that somebody is there. Reserve the room for the end, note our number.
3. Make `begun`, then start the process. It dies with its keeper, by the kernel's hand.
4. Note its number, and tell whoever waits.
5. When it has ended: end all that it has left behind, then reap it, write the rest of its output, then `ended.json`.

If somebody deletes the home the process is ended: nobody could find it any more.

Imports the standard library only (crash points aside): there is one keeper for every process of a host.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from towpath.supervision.launchers.keeper_home import LONGEST_REASON, MB, LaunchHome, LogWriter, kernel_limits
from towpath.supervision.launchers.process_tree import END_TREE_S, boot, born, end_process_tree

CHUNK = 64 << 10
LOCK_TIMEOUT_S = 2.0  # who looks after a dead keeper holds the lock for a moment
LOOK_S = 5.0  # how often it is looked whether the home is still there
REST_S = 1.0  # what has left the launch may keep its output open for ever
PR_SET_PDEATHSIG = 1
IS_LINUX = sys.platform == "linux"


class LaunchKeeper:
    """The life of one process, from its start to its end."""

    def __init__(self, home: LaunchHome, spec: Mapping[str, Any], control: int) -> None:
        self._home = home
        self._spec = spec
        self._control = control
        self._sign = f"{spec['variable']}={spec['sign']}"
        self._log = LogWriter(home.log, spec["log"]["file_mb"] * MB, spec["log"]["files"])
        self._output, self._input = os.pipe()
        self._woken, self._wake = os.pipe()
        self._is_asked = False
        self._was_told = False
        self._kill_at: float | None = None
        self._process: subprocess.Popen[bytes]

    def start(self) -> None:
        """Raises `OSError` and `ValueError` for what cannot be started."""
        for number in (self._output, self._woken, self._wake):
            os.set_blocking(number, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for which in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(which, _noticed)
        signal.signal(signal.SIGTERM, self._be_asked)
        self._process = subprocess.Popen(
            self._spec["command"],
            cwd=self._spec["directory"],
            env=self._spec["environment"],
            stdin=subprocess.DEVNULL,
            stdout=self._input,
            stderr=self._input,
            start_new_session=True,
            preexec_fn=_become(os.getpid(), kernel_limits(self._spec["limits"])),
        )
        os.close(self._input)

    @property
    def pid(self) -> int:
        return self._process.pid

    def keep(self) -> dict[str, Any]:
        """Until it has ended; how."""
        poll = select.poll()
        for number in (self._output, self._control, self._woken):
            poll.register(number, select.POLLIN)
        while not self._has_ended():
            if not self._home.exists:
                self._kill_by(0.0)
            for number, _ in poll.poll(self._patience_s() * 1000):
                if number == self._output and not self._copy():
                    poll.unregister(self._output)  # it has closed its output and goes on
                elif number == self._control:
                    self._obey()
                elif number == self._woken:
                    _drain(self._woken)
            self._end_when_asked()
        return self._bury()

    def _has_ended(self) -> bool:
        """Without reaping it: as long as it is not, its number is no other's."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _patience_s(self) -> float:
        return LOOK_S if self._kill_at is None else min(LOOK_S, max(0.0, self._kill_at - time.monotonic()) + 0.001)

    def _copy(self) -> bool:
        try:
            data = os.read(self._output, CHUNK)
        except BlockingIOError:
            return True
        self._log.write(data)
        return bool(data)

    def _obey(self) -> None:
        for line in _drain(self._control).split(b"\n"):
            what, _, how_long = line.partition(b" ")
            with suppress(ValueError):  # whatever else somebody may write into our pipe
                if what == b"kill":
                    self._kill_by(0.0)
                elif what == b"stop" and (grace_s := float(how_long)) >= 0:
                    self._kill_by(time.monotonic() + grace_s)
                    self._is_asked = True

    def _kill_by(self, when: float) -> None:
        self._kill_at = when if self._kill_at is None else min(self._kill_at, when)

    def _be_asked(self, number: int, frame: object) -> None:
        self._is_asked = True

    def _end_when_asked(self) -> None:
        """It is asked alone, since it knows best in which order what it has started should end."""
        if self._is_asked and not self._was_told:
            with suppress(PermissionError):  # it has become another user's
                os.kill(self.pid, signal.SIGTERM)
            self._was_told = True
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            with suppress(PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._kill_at = None

    def _bury(self) -> dict[str, Any]:
        left = end_process_tree(self._sign, self.pid, END_TREE_S)
        code = self._process.wait()
        self._write_rest()
        reason = f"these of its processes do not end, not even by SIGKILL: {left}"[:LONGEST_REASON] if left else None
        return {
            "exit_code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "reason": reason,
            "ended_at": time.time(),
        }

    def _write_rest(self) -> None:
        """What the launch has written is in the pipe by now, and fits into one chunk. Others are waited for."""
        is_open = self._copy()
        deadline = time.monotonic() + REST_S
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        while is_open and time.monotonic() < deadline:
            if poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                is_open = self._copy()
        self._log.close()


def _become(keeper: int, limits: list[tuple[int, tuple[int, int]]]) -> Callable[[], None]:
    """What the process does before it is another program. There is no second thread that could hold a lock."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl if IS_LINUX else None

    def become() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper:  # it died before the kernel knew that this is to follow
            os._exit(1)
        for kind, values in limits:
            resource.setrlimit(kind, values)
        for which in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with suppress(OSError):
                signal.signal(which, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    return become


def keep(home: LaunchHome, spec: Mapping[str, Any]) -> None:
    """All that a keeper does."""
    with home.locked(LOCK_TIMEOUT_S) as is_ours:
        if not is_ours or home.has_begun:
            _answer(is_kept=True)
            return
        try:
            keeper = LaunchKeeper(home, spec, home.open_control())
            home.reserve_end()
            home.write_keeper(_me())
            _crash_here("CrashPoint.KEEPER_BEFORE_BEGUN")
            home.begin()
        except OSError as error:
            _answer(trouble=str(error))
            return
        _crash_here("CrashPoint.KEEPER_BEGUN")
        try:
            keeper.start()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            problem = _problem(spec, error)
            home.write_end({"reason": problem, "is_never_begun": True})
            _answer(problem=problem)
            return
        _crash_here("CrashPoint.KEEPER_STARTED")
        _note(home, keeper.pid)
        _crash_here("CrashPoint.KEEPER_NOTED")
        _answer(pid=keeper.pid)
        end = keeper.keep()
        _crash_here("CrashPoint.KEEPER_BEFORE_END")
        home.write_end(end)
        _crash_here("CrashPoint.KEEPER_AFTER_END")


def _me() -> dict[str, Any]:
    return {"keeper": os.getpid(), "keeper_born": born(os.getpid())}


def _note(home: LaunchHome, pid: int) -> None:
    try:
        home.write_keeper({**_me(), "pid": pid, "born": born(pid), "boot": boot(), "started_at": time.time()})
    except OSError as error:  # a full disk: it runs all the same, only its number cannot be told
        sys.stderr.write(f"the number of the process cannot be noted: {error}\n")


def _problem(spec: Mapping[str, Any], error: Exception) -> str:
    """In words that say what to mend."""
    program, directory = spec["command"][0], spec["directory"]
    if not isinstance(error, OSError):
        return str(error)
    if error.filename == directory:
        return f"its directory {directory} cannot be used: {error.strerror}"
    if isinstance(error, FileNotFoundError) and Path(directory, program).exists():
        return f"the program that {program!r} names in its first line is not there"
    if isinstance(error, FileNotFoundError):
        where = "" if "/" in program else f" in {os.pathsep.join(os.get_exec_path(spec['environment']))}"
        return f"there is no program {program!r}{where}"
    if isinstance(error, PermissionError):
        return f"{program!r} is not a program that this user may run"
    return f"{program!r} cannot be run: {error.strerror}"


def _answer(**told: Any) -> None:
    """To whoever started us, if it is still there."""
    with suppress(BrokenPipeError):
        os.write(1, json.dumps(told).encode() + b"\n")
    _to_nowhere(1)


def _noticed(number: int, frame: object) -> None:
    """Only wakes us: a signal that is ignored would be ignored by the process too."""


def _drain(number: int) -> bytes:
    with suppress(BlockingIOError):
        return os.read(number, CHUNK)
    return b""


def _to_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, number)
    os.close(nowhere)


def _crash_here(name: str) -> None:
    if os.environ.get("TOWPATH_CRASH"):
        from towpath.core.crash import CrashPoint, here

        here(CrashPoint[name.partition(".")[2]])


def main() -> None:
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # what whoever started us has left open is not ours
    with suppress(PermissionError):  # it leads one already
        os.setsid()
    os.chdir("/")
    spec = json.loads(sys.stdin.buffer.read())
    _to_nowhere(0)
    keep(LaunchHome(Path(sys.argv[1])), spec)


if __name__ == "__main__":
    main()
