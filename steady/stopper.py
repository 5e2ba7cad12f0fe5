"""Stops processes of a round as its seed decides, and continues them some seconds later, whatever happens meanwhile.

    python -m steady.stopper '{"root": PID, "mark": "NAME=VALUE", "seed": 7, ...}'

It goes on until its standard input is closed, and stops nobody else then.

What is stopped must be continued, also when this process is killed while it waits. Its guardian sees to that: a process
that is forked from it and reads from a pipe whom it is about to stop, and whom it has continued. The kernel closes the
pipe when the stopper ends, however it ends, and the guardian continues whoever is left. It is in a session of its own
and ignores the signals of a terminal. Should the guardian itself die, the next word to it fails, and the stopper ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from steady.plan import Identity, Running, Strike, family, strikes, victims
from steady.preload import Shared

PROC = Path("/proc")
LOOK_S = 0.5  # between two looks for processes with a clean environment, before they lose their parents
TICK_S = 0.05
EXIT_CODE_ALONE = 70  # the guardian is gone


@dataclass
class Stopped:
    """A process that we have stopped. Its descriptor means this process alone, however numbers are given out."""

    process: Running
    descriptor: int
    until: float


class Guardian:
    """The other end of the pipe."""

    def __init__(self) -> None:
        theirs, self._ours = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._ours)
            try:
                _guard(theirs)
            finally:
                os._exit(0)
        os.close(theirs)

    def about_to_stop(self, process: Identity) -> None:
        self._tell("+", process)

    def continued(self, process: Identity) -> None:
        self._tell("-", process)

    def _tell(self, what: str, process: Identity) -> None:
        os.write(self._ours, f"{what} {process[0]} {process[1]}\n".encode())  # in one piece: it is short


def _guard(pipe: int) -> None:
    """Reads until the stopper is gone, and continues whom it has left behind."""
    os.setsid()
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(which, signal.SIG_IGN)
    _close_all_but(pipe)
    left: set[Identity] = set()
    with os.fdopen(pipe) as lines:
        for line in lines:
            what, *numbers = line.split()
            process = int(numbers[0]), int(numbers[1])
            (left.add if what == "+" else left.discard)(process)
    for pid, started in left:
        now = look(pid)
        if now is not None and now.started == started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _close_all_but(pipe: int) -> None:
    """Whoever waits for the stopper's files to be closed must not wait for the guardian."""
    for each in os.listdir("/proc/self/fd"):
        if int(each) != pipe:
            with suppress(OSError):
                os.close(int(each))


class Stopper:
    """Strikes, as one round has it."""

    def __init__(self, order: dict[str, Any], guardian: Guardian) -> None:
        self._root: int = order["root"]
        self._mark = order["mark"].encode()
        self._stop_s: float = order["stop_s"]
        self._strikes: Iterator[Strike] = strikes(order["seed"], order["pause_s"])
        self._shared = Shared(Path(order["shared"]))
        self._journal = Path(order["journal"])
        self._guardian = guardian
        self._stopped: list[Stopped] = []
        self._known: set[Identity] = set()

    def run(self, end: IO[bytes]) -> None:
        """Until there is something to read at `end`, which is its end."""
        with self._journal.open("a") as journal:
            try:
                self._run(end, journal)
            finally:
                self._continue(self._stopped)

    def _run(self, end: IO[bytes], journal: IO[str]) -> None:
        now = looked = time.monotonic()
        strike = next(self._strikes)
        due = now + strike.after_s
        while not select.select([end], [], [], TICK_S)[0]:
            now = time.monotonic()
            self._continue([each for each in self._stopped if each.until <= now])
            if now >= due:
                for victim in victims(strike, self._root, self._look()):
                    self._stop(victim, journal)
                strike = next(self._strikes)
                due = time.monotonic() + strike.after_s
            elif now - looked > LOOK_S:
                self._look()
                looked = now

    def _look(self) -> list[Running]:
        tree = family(self._root, list(look_around(self._mark, self._shared)), self._known)
        self._known = {each.identity for each in tree}
        return tree

    def _stop(self, victim: Running, journal: IO[str]) -> None:
        try:
            descriptor = os.pidfd_open(victim.pid)
        except ProcessLookupError:
            return
        now = look(victim.pid)
        if now is None or now.started != victim.started:
            os.close(descriptor)
            return
        self._guardian.about_to_stop(victim.identity)
        self._stopped.append(Stopped(victim, descriptor, time.monotonic() + self._stop_s))
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
            line = {"at": time.time(), "pid": victim.pid, "program": victim.program, "what": _command(victim.pid)}
            journal.write(json.dumps(line) + "\n")
            journal.flush()

    def _continue(self, stopped: list[Stopped]) -> None:
        """Not those that a test has stopped meanwhile; it decides about them."""
        for each in list(stopped):
            pid = each.process.pid
            with suppress(ProcessLookupError):
                if not self._shared.is_held(pid):
                    signal.pidfd_send_signal(each.descriptor, signal.SIGCONT)
                    if self._shared.is_held(pid):  # just now: its signal had nothing to stop
                        signal.pidfd_send_signal(each.descriptor, signal.SIGSTOP)
            self._stopped.remove(each)
            os.close(each.descriptor)
            with suppress(BrokenPipeError):  # the next stop will find that out
                self._guardian.continued(each.process.identity)


def look_around(mark: bytes, shared: Shared | None = None) -> Iterator[Running]:
    """All processes of this machine."""
    for path in PROC.iterdir():
        if path.name.isdigit() and (found := look(int(path.name), mark, shared)) is not None:
            yield found


def look(pid: int, mark: bytes = b"", shared: Shared | None = None) -> Running | None:
    """One process; None when it has ended."""
    home = PROC / str(pid)
    try:
        # The name of the program stands in brackets and may hold anything.
        name, _, rest = (home / "stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return None
    environment = b""
    if mark:
        with suppress(OSError):  # another user's
            environment = (home / "environ").read_bytes()
    fields = rest.split()
    if fields[0] in "ZX":
        return None
    return Running(
        pid,
        int(fields[19]),
        int(fields[1]),
        name.partition("(")[2],
        is_marked=bool(mark) and mark in environment.split(b"\0"),
        is_stopped=fields[0] in "Tt",
        is_held=shared is not None and shared.is_held(pid),
    )


def _command(pid: int) -> str:
    with suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:300]
    return ""


def main() -> None:
    stopper = Stopper(json.loads(sys.argv[1]), Guardian())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception: whoever is stopped is continued
    try:
        stopper.run(sys.stdin.buffer)
    except BrokenPipeError:
        sys.exit(EXIT_CODE_ALONE)


if __name__ == "__main__":
    main()
