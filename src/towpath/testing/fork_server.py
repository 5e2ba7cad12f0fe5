"""Children that are forked from a process which has imported everything: most of a short life is to load modules.

One such process serves the process that started it, and ends with it. It imports what it is asked to run, forks, and
tells how each child ended; a child has its own environment, directory, input and output, and dies like any other.

    python -m towpath.testing.fork_server FD    is started by `ForkServer`

`ForkEnds`, `settle` and `run` give a fork what a Python that has just started has; `quick_python` uses them too.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from towpath.core import crash

MOST_BYTES = 1 << 20


class ForkServer:
    """Asks the forking process for children. Safe from several threads."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self._lock = threading.Lock()
        self._begun = threading.Event()
        self._newest: ForkedChild | None = None
        self._children: dict[int, ForkedChild] = {}
        threading.Thread(target=self._listen, name="fork-server", daemon=True).start()

    def start(
        self, module: str, argument: str, environment: Mapping[str, str], cwd: Path, log: IO[bytes]
    ) -> ForkedChild:
        """`python -m module argument`, begun."""
        theirs, ours = os.pipe()
        os.set_inheritable(ours, False)
        child = ForkedChild(ours)
        asked = {"module": module, "argument": argument, "environment": dict(environment), "cwd": str(cwd)}
        with self._lock:
            self._begun.clear()
            self._newest = child
            socket.send_fds(self._socket, [json.dumps(asked).encode()], [theirs, log.fileno()])
            os.close(theirs)
            self._begun.wait()
        if not child.pid:
            raise RuntimeError("the fork server has ended; what it wrote stands above")
        return child

    def _listen(self) -> None:
        """Listen until the process ends, and then release everybody who waits."""
        while message := self._socket.recv(MOST_BYTES):
            told = json.loads(message)
            if "began" in told and self._newest is not None:
                self._newest.pid = told["began"]
                self._children[told["began"]] = self._newest
                self._begun.set()
            else:
                self._children.pop(told["ended"]).end(told["code"])
        self._begun.set()
        for child in self._children.values():
            child.end(-signal.SIGKILL)


class ForkedChild:
    """A child, as `subprocess.Popen` would have it."""

    def __init__(self, stdin: int) -> None:
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb", buffering=0)
        self.pid = 0
        self._code: int | None = None
        self._ended = threading.Event()

    def end(self, code: int) -> None:
        self._code = code
        self._ended.set()

    def poll(self) -> int | None:
        return self._code

    def wait(self, timeout_s: float) -> int:
        if not self._ended.wait(timeout_s) or self._code is None:
            raise subprocess.TimeoutExpired([str(self.pid)], timeout_s)
        return self._code

    def send_signal(self, which: int) -> None:
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, which)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkEnds:
    """Wakes a `select` over `descriptor` when a fork has ended. A process has one of these."""

    def __init__(self) -> None:
        self.descriptor, self._written = os.pipe()
        for each in (self.descriptor, self._written):
            os.set_blocking(each, False)
        signal.set_wakeup_fd(self._written)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # for whoever asks; forks hear it

    def take(self) -> Iterator[tuple[int, int]]:
        """The forks that have ended since, with exit codes as `subprocess` gives them."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                yield ended[0], os.waitstatus_to_exitcode(ended[1])

    def leave(self) -> None:
        """Let go of all this in a fork, whose own signals and children these are not."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (self.descriptor, self._written):
            os.close(each)


def settle(cwd: str, environment: Mapping[str, str], files: Sequence[int]) -> None:
    """Set up what an interpreter finds when it starts: directory, variables, and files for input, output and errors."""
    for mine, wanted in zip(files, (0, 1, 2), strict=True):
        os.dup2(mine, wanted)
    for each in set(files):
        os.close(each)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    crash.arm(crash.from_environment())


def run(module: str, arguments: Sequence[str]) -> None:
    """`python -m module arguments`."""
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)  # it is run once more, as `__main__`
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _serve(ours: socket.socket) -> dict[str, Any] | None:
    """Returns in each child with its order, and in this process with None when nobody asks any more."""
    ends = ForkEnds()
    while True:
        ready, _, _ = select.select([ours.fileno(), ends.descriptor], [], [])
        if ours.fileno() in ready:
            asked, descriptors, _, _ = socket.recv_fds(ours, MOST_BYTES, 2)
            if not asked:
                return None
            told: dict[str, Any] = json.loads(asked)
            _import(told)
            if (pid := os.fork()) == 0:
                ends.leave()
                os.close(ours.detach())
                stdin, log = descriptors
                settle(told["cwd"], told["environment"], (stdin, log, log))
                return told
            for each in descriptors:
                os.close(each)
            _tell(ours, began=pid)
        for pid, code in ends.take():
            _tell(ours, ended=pid, code=code)


def _tell(ours: socket.socket, **told: int) -> None:
    with suppress(OSError):  # whoever asked is gone, which the next look finds
        ours.send(json.dumps(told).encode())


def _import(told: Mapping[str, Any]) -> None:
    """Import a module, so that the next child has it. The child itself reports what is wrong with it."""
    if told["cwd"] not in sys.path:
        sys.path.insert(0, told["cwd"])
    with suppress(Exception):
        importlib.import_module(told["module"])


def main() -> None:
    told = _serve(socket.socket(fileno=int(sys.argv[1])))
    if told is not None:
        run(told["module"], [told["argument"]])


if __name__ == "__main__":
    main()
