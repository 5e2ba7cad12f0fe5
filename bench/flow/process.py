"""A contender at work: started, told to begin, watched from outside, ended."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.page import ROOT

READY_WITHIN_S = 300.0
DONE_WITHIN_S = 900.0
LEAVES_WITHIN_S = 30.0


@dataclass(frozen=True)
class Program:
    """How a contender is run."""

    command: Sequence[str]
    processes: int = 1
    environment: Mapping[str, str] | None = None

    @classmethod
    def module(cls, name: str, *, packages: Path | None = None) -> Program:
        """With Towpath's own interpreter; `packages` of the peers come after its own."""
        paths = [str(ROOT), *([] if packages is None else [str(packages)])]
        command = [sys.executable, "-m", f"bench.flow.contenders.{name}"]
        return cls(command, environment={"PYTHONPATH": os.pathsep.join(paths)})

    @classmethod
    def script(cls, python: Path, name: str, processes: int) -> Program:
        """With the peers' interpreter."""
        return cls([str(python), str(Path(__file__).with_name("contenders") / f"{name}.py")], processes)


class Crew:
    """The processes of one contender."""

    def __init__(self, processes: list[subprocess.Popen[str]], log: Path) -> None:
        self._processes = processes
        self._log = log

    def wait_until_ready(self) -> None:
        for process in self._processes:
            said = self._line(process, READY_WITHIN_S)
            assert said == "ready", f"not ready: {said!r}"

    def begin(self, what: str = "go") -> float:
        """Say so, and what is to be done. Returns when that was, by the monotonic clock."""
        began = time.perf_counter()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
        return began

    def figures(self) -> list[float]:
        """What the contender has measured itself."""
        found: list[float] = json.loads(self._line(self._processes[0], DONE_WITHIN_S))
        return found

    @property
    def pid(self) -> int:
        """Of the first process."""
        return self._processes[0].pid

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    @property
    def last_words(self) -> str:
        """What the contender has said in its trouble."""
        return _last_words(self._log)

    def end(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            try:
                process.wait(LEAVES_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def _line(self, process: subprocess.Popen[str], within_s: float) -> str:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], within_s)
        line = process.stdout.readline().strip() if readable else ""
        if not line:
            raise RuntimeError(f"the contender has said nothing; its last words: {self.last_words}")
        return line


@contextmanager
def crew(program: Program, settings: Mapping[str, object]) -> Iterator[Crew]:
    """Started with these settings, and gone at the end. Without a `home` in them it has one of its own."""
    with tempfile.TemporaryDirectory(prefix="towpath-bench-") as home:
        log = Path(home) / "contender.log"
        told = json.dumps({"home": home, **settings})
        with log.open("w") as errors:
            processes = [
                subprocess.Popen(
                    [*program.command, told],
                    cwd=home,
                    env={**os.environ, **(program.environment or {})},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
                for _ in range(program.processes)
            ]
        made = Crew(processes, log)
        try:
            yield made
        finally:
            made.end()


def _last_words(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-3:]) or "none"
