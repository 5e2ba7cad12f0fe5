"""Real child processes for tests of faults: armed to die, signalled, awaited, never left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from towpath.core import crash
from towpath.core.os_processes import is_standing_still
from towpath.errors import TowpathError
from towpath.testing.clock import wait_until
from towpath.testing.fork_server import ForkedChild, ForkServer

WAIT_S = 60.0
LOG_LINES_SHOWN = 25
EXIT_CODE_ORPHANED = 71

_are_quick = False


class ChildProcess:
    """`python -m module '{order}'` as a process of its own; killed, if it still runs, when the block ends.

    The child gets none of this process's `TOWPATH_*` variables. With `crash_at="point:n"` it is armed to die there. A
    child that calls `leave_with_parent` ends also when this process is killed.
    """

    def __init__(
        self, module: str, order: Mapping[str, Any], *, log: Path, crash_at: str | None = None, cwd: Path | None = None
    ) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.upper().startswith("TOWPATH_")}
        if crash_at is not None:
            environment[crash.VARIABLE] = crash_at
        self.module = module
        self.log = log
        self._name = f"{module} ({crash_at or 'unarmed'})"
        with log.open("ab") as written:
            self._process = _start(module, json.dumps(order), environment, cwd or Path.cwd(), written)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative number of the signal when one ended it."""
        return self._process.poll()

    def signal(self, which: signal.Signals) -> None:
        """Send a signal; one that has ended already is no error."""
        self._process.send_signal(which)

    def kill(self) -> None:
        """End it with SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait(WAIT_S)

    def wait(self, timeout_s: float = WAIT_S) -> int:
        """Wait for its end and return its exit code."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise ChildFailed(f"{self._name} did not end within {timeout_s:g} s\n{self.log_tail()}") from error

    def wait_killed(self, timeout_s: float = WAIT_S) -> None:
        """Wait until SIGKILL has ended it; any other end means that the crash point was never reached."""
        self._expect(-signal.SIGKILL, timeout_s)

    def wait_done(self, timeout_s: float = WAIT_S) -> None:
        """Wait until it has ended well."""
        self._expect(0, timeout_s)

    def wait_stopped(self, timeout_s: float = WAIT_S) -> None:
        """Wait until SIGSTOP has taken hold of it."""
        wait_until(lambda: is_standing_still(self.pid), timeout_s, f"{self._name} stopped")

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _expect(self, code: int, timeout_s: float) -> None:
        ended = self.wait(timeout_s)
        if ended != code:
            raise ChildFailed(f"{self._name} ended with {ended} in place of {code}\n{self.log_tail()}")


class ChildFailed(TowpathError):
    """A child process did not end as it should have. The text ends with the last lines that it wrote."""


def leave_with_parent() -> None:
    """For the child: end at once when the process that started it is gone, which closes our standard input."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(EXIT_CODE_ORPHANED)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def order() -> dict[str, Any]:
    """For the child: what it was told to do."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def quicken_children() -> None:
    """From now on the children of this process are forked from one that has imported what they need."""
    global _are_quick
    _are_quick = True


def _start(
    module: str, argument: str, environment: Mapping[str, str], cwd: Path, log: IO[bytes]
) -> subprocess.Popen[bytes] | ForkedChild:
    if _are_quick:
        return _fork_server().start(module, argument, environment, cwd, log)
    command = [sys.executable, "-m", module, argument]
    return subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log)


@cache
def _fork_server() -> ForkServer:
    return ForkServer()
