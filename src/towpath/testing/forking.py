"""What a fork needs to be like a Python that has just started, and how the one it is forked from hears of its end."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from towpath import crash


class Ends:
    """Wakes a `select` over `descriptor` when a fork has ended. A process has one of these."""

    def __init__(self) -> None:
        self.descriptor, self._written = os.pipe()
        for each in (self.descriptor, self._written):
            os.set_blocking(each, False)
        signal.set_wakeup_fd(self._written)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # for whoever asks; forks hear it

    def take(self) -> Iterator[tuple[int, int]]:
        """Who has ended since, with the exit code, which is that of `subprocess`."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                yield ended[0], os.waitstatus_to_exitcode(ended[1])

    def leave(self) -> None:
        """In a fork: what is noticed here is not its own."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (self.descriptor, self._written):
            os.close(each)


def settle(cwd: str, environment: Mapping[str, str], files: Sequence[int]) -> None:
    """What an interpreter finds when it starts: these become its input, its output and what it has to say."""
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
