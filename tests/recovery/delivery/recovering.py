"""Runs all recovery cases in several processes side by side, and gathers what became of them.

Each process is a pytest with a Spark session of its own; the servers are shared. One that hangs or dies is ended, its
case has failed, and another goes on in its place.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.recovery.delivery.sharing import CLAIMS, ITEMS, RESULTS

ROOT = Path(__file__).parents[3]
GRACE_S = 60  # beyond the limit of a case, which its own process should have kept
MOST_CASES = 120  # of one process; a Java that has run a thousand queries becomes slow
MOST_DEATHS = 10


@dataclass(frozen=True)
class Order:
    """What is to be run, and how."""

    processes: int
    seed: int
    limit_s: int
    sample: int = 0
    arguments: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """What became of one test."""

    number: int
    passed: bool
    took_s: float
    text: str


@dataclass
class Recovering:
    """The processes at work."""

    home: Path
    order: Order
    servers: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    done: dict[int, Result] = field(default_factory=dict)
    deaths: list[str] = field(default_factory=list)
    _workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _read: dict[Path, int] = field(default_factory=dict)
    _started: int = 0

    def run(self) -> Iterator[None]:
        """Yields now and then, until everything is done or nobody can go on."""
        for name in (CLAIMS, RESULTS):
            (self.home / name).mkdir(exist_ok=True)
        self._take_up()
        for _ in range(self.order.processes):
            self._start()
        try:
            while self._workers:
                time.sleep(1)
                self._gather()
                self._end_hung()
                self._look_after()
                yield
        finally:
            for process in self._workers.values():
                _end(process)

    @property
    def items(self) -> list[dict[str, str]]:
        path = self.home / ITEMS
        return json.loads(path.read_text()) if path.exists() else []

    @property
    def is_complete(self) -> bool:
        return bool(self.items) and len(self.done) == len(self.items)

    def _take_up(self) -> None:
        """What an interrupted run has done is done; what it had claimed is anybody's."""
        self._gather()
        for path in (self.home / CLAIMS).iterdir():
            if int(path.name) not in self.done:
                path.unlink()

    def _start(self) -> None:
        self._started += 1
        name = f"p{self._started}"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "recover", "-p", "tests.recovery.delivery.sharing"]
        command += ["-p", "no:randomly", "-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=failed"]
        command += ["--share-home", str(self.home), "--share-name", name, "--share-seed", str(self.order.seed)]
        command += ["--share-sample", str(self.order.sample), "--share-most", str(MOST_CASES)]
        command += ["--basetemp", str(self.home / name), "--timeout", str(self.order.limit_s)]
        command += [*self.order.arguments, "tests/recovery/delivery"]
        environment = {**os.environ, **self.variables, "RECOVER_SERVERS": json.dumps(self.servers)}
        with (self.home / f"{name}.log").open("wb") as log:
            self._workers[name] = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
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
            if time.time() - at > self.order.limit_s + GRACE_S and name in self._workers:
                _end(self._workers[name])

    def _look_after(self) -> None:
        """Whoever has ended is followed by another, if there is something left to claim."""
        for name, process in list(self._workers.items()):
            if (code := process.poll()) is None:
                continue
            del self._workers[name]
            self._gather()
            for number, by, at in list(self._open_claims()):
                if by == name:
                    text = f"its process ended with {code}; {name}.log says more"
                    self.done[number] = Result(number, False, round(time.time() - at, 2), text)
            if code not in (0, 1, 2):
                self.deaths.append(f"{name} ended with {code}")
            if self._has_more() and len(self.deaths) < MOST_DEATHS:
                self._start()

    def _has_more(self) -> bool:
        return not self.items or len(list((self.home / CLAIMS).iterdir())) < len(self.items)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With its Java and its workers, which are of its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
