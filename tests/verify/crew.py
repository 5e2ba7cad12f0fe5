"""Runs the cases of one part in several processes side by side, and gathers their results.

Each process is a pytest with a Spark session of its own. One that hangs or dies is ended, its case has failed, and
another takes its place.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.verify.sharing import CLAIMS, ITEMS, RESULTS

ROOT = Path(__file__).parents[2]
LIMIT_S = 600  # of one case: a walk of thirty crashes, or a child with a Spark of its own, on a busy machine
GRACE_S = 60  # beyond the limit of a case, which its own process should have kept
MOST_DEATHS = 10
COLLECTED_NOTHING = 5  # pytest's exit code
INTERRUPTED = 2
EMPTY = "empty"


@dataclass(frozen=True)
class Order:
    """What is to be run, and how."""

    selection: Sequence[str]  # for pytest
    processes: int
    seed: int
    percent: int = 100
    most_cases: int = 0  # of one process, which another one follows; 0: no limit
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The result of one case."""

    number: int
    passed: bool
    took_s: float
    text: str


@dataclass
class Crew:
    """The processes at work."""

    home: Path
    order: Order
    done: dict[int, Result] = field(default_factory=dict)
    deaths: list[str] = field(default_factory=list)
    _workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _read: dict[Path, int] = field(default_factory=dict)

    def run(self) -> Iterator[None]:
        """Yields now and then, until everything is done or no process can go on."""
        for name in (CLAIMS, RESULTS):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        self._resume()
        if self.is_complete:
            return
        for _ in range(self.order.processes):
            self._start()
        try:
            while self._workers:
                time.sleep(0.5)
                self._gather()
                self._end_hung()
                self._replace_ended()
                yield
        finally:
            for process in self._workers.values():
                _end(process)

    @property
    def is_empty(self) -> bool:
        """No case is selected."""
        return (self.home / EMPTY).exists()

    @property
    def is_recorded(self) -> bool:
        """An earlier run has done everything, and nothing failed."""
        (self.home / RESULTS).mkdir(parents=True, exist_ok=True)
        self._gather()
        return self.is_complete and not self.failed

    @property
    def items(self) -> list[str]:
        path = self.home / ITEMS
        items: list[str] = json.loads(path.read_text()) if path.exists() else []
        return items

    @property
    def is_complete(self) -> bool:
        return self.is_empty or (bool(self.items) and len(self.done) == len(self.items))

    @property
    def failed(self) -> list[Result]:
        return [self.done[number] for number in sorted(self.done) if not self.done[number].passed]

    def _resume(self) -> None:
        """What an interrupted run has passed is done; what it had claimed, and what failed, is run again."""
        self._gather()
        for result in self.failed:
            del self.done[result.number]
        for path in (self.home / CLAIMS).iterdir():
            if int(path.name) not in self.done:
                path.unlink()

    def _start(self) -> None:
        name = f"p{time.time_ns()}"
        order = self.order
        command = [sys.executable, "-m", "pytest", "-q", *order.selection, "-p", "tests.verify.sharing"]
        command += ["-p", "no:randomly", "-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=failed"]
        # With a blank in place of each "=", pytest would take the directories for tests before it knows the options.
        command += [f"--share-home={self.home}", f"--share-name={name}", f"--share-seed={order.seed}"]
        command += [f"--hypothesis-seed={order.seed}"]
        command += [f"--share-percent={order.percent}", f"--share-most={order.most_cases}"]
        command += [f"--basetemp={self.home / name}", f"--timeout={LIMIT_S}"]
        with (self.home / f"{name}.log").open("wb") as log:
            self._workers[name] = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **order.variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _gather(self) -> None:
        for path in sorted((self.home / RESULTS).glob("*.jsonl")):
            with path.open() as file:
                file.seek(self._read.get(path, 0))
                while (line := file.readline()).endswith("\n"):
                    result = Result(**json.loads(line))
                    self.done[result.number] = result
                    self._read[path] = file.tell()

    def _open_claims(self) -> Iterator[tuple[int, str, float]]:
        for path in (self.home / CLAIMS).iterdir():
            if int(path.name) not in self.done and (text := path.read_text()):
                claim = json.loads(text)
                yield int(path.name), claim["by"], claim["at"]

    def _end_hung(self) -> None:
        for _, name, at in self._open_claims():
            if time.time() - at > LIMIT_S + GRACE_S and name in self._workers:
                _end(self._workers[name])

    def _replace_ended(self) -> None:
        """Another process starts for one that has ended, if there is something left to claim."""
        for name, process in list(self._workers.items()):
            if (code := process.poll()) is None:
                continue
            del self._workers[name]
            self._gather()
            for number, by, at in list(self._open_claims()):
                if by == name:
                    text = f"its process ended with {code}; {self.home / name}.log says more"
                    self.done[number] = Result(number, False, round(time.time() - at, 2), text)
            if code == COLLECTED_NOTHING and not self.items:
                (self.home / EMPTY).touch()
            elif code not in (0, 1, INTERRUPTED) or (self._has_more() and not self._has_results(name)):
                self.deaths.append(f"a process ended with {code}: {self.home / name}.log")
            if not self.is_empty and self._has_more() and len(self.deaths) < MOST_DEATHS:
                self._start()

    def _has_results(self, name: str) -> bool:
        return (self.home / RESULTS / f"{name}.jsonl").exists()

    def _has_more(self) -> bool:
        return not self.items or len(list((self.home / CLAIMS).iterdir())) < len(self.items)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With its Java and its workers, which are of its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
