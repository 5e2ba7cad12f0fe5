"""One round: load, a slow disk and random stops, while pytest runs the set once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steady import recorder
from steady.book import Outcome, judge
from steady.plan import PAUSE_S, STOP_S
from steady.preload import Preload, preload
from steady.stopper import look_around

ROOT = Path(__file__).resolve().parents[1]
SET = ("-m", "realtime or processes")  # of the gate: what takes minutes is in parts of `make verify`
HANGS_S = 1_800.0
MARK = "STEADY_RUN"
TICK_S = 0.1
GOODBYE_S = 10.0  # for what pytest has left behind
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(10**6): pass"


@dataclass(frozen=True, slots=True)
class Load:
    """What a round does to the machine."""

    busy: int = os.cpu_count() or 1
    delay_ms: int = 200
    pause_s: float = PAUSE_S
    stop_s: float = STOP_S


class Round:
    """Runs once. Its files are those in `home` whose names begin with `name`."""

    def __init__(self, seed: int, home: Path, name: str, arguments: Sequence[str], load: Load) -> None:
        self._seed = seed
        self._arguments = list(arguments or SET)
        self._load = load
        self._log = home / f"{name}.log"
        self._failures = home / f"{name}.failures.txt"
        self._results = home / f"{name}.tests.jsonl"
        self._stops = home / f"{name}.stops.jsonl"
        self._mark = f"{MARK}={uuid.uuid4()}"

    def run(self, number: int) -> Outcome:
        for each in (self._log, self._failures, self._results, self._stops):  # of one that was interrupted
            each.unlink(missing_ok=True)
            each.touch()
        began = time.monotonic()
        with preload() as library:
            code, more = self._run(library)
            delayed = library.shared.delayed
        tests = _lines(self._results)
        stops = _lines(self._stops)
        ids = {
            outcome: [each["id"] for each in tests if each["outcome"] == outcome] for outcome in ("failed", "skipped")
        }
        outcome = Outcome(
            number=number,
            seed=self._seed,
            passed=sum(each["outcome"] == "passed" for each in tests),
            failed=ids["failed"],
            skipped=ids["skipped"],
            stops=len(stops),
            delayed=delayed,
            took_s=round(time.monotonic() - began, 1),
            output=str(self._failures if ids["failed"] else self._log),
            problems=[],
        )
        self._say_what_was_stopped(tests, stops)
        return replace(outcome, problems=judge(outcome, code) + more)

    def _run(self, library: Preload) -> tuple[int | None, list[str]]:
        """The code that pytest has ended with, and what was wrong with the round itself."""
        problems = []
        with ExitStack() as stack:
            stack.callback(self._clear_up)
            for _ in range(self._load.busy):
                stack.enter_context(_child([sys.executable, "-c", BUSY, str(os.getpid())]))
            log = stack.enter_context(self._log.open("ab"))
            pytest = stack.enter_context(_child(self._command(), self._environment(library), log, signal.SIGINT))
            stopper = stack.enter_context(_child(self._stopper(library, pytest.pid), stdin=subprocess.PIPE))
            deadline = time.monotonic() + HANGS_S
            while pytest.poll() is None and time.monotonic() < deadline and stopper.poll() is None:
                time.sleep(TICK_S)
            if stopper.poll() is not None:
                problems.append(f"the stopper has ended by itself, with {stopper.returncode}")
            elif pytest.returncode is None:
                problems.append(f"the round did not end within {HANGS_S:g} s")
            code = pytest.returncode
            if stopper.stdin is not None:
                stopper.stdin.close()
            stopper.wait()
        return code, problems

    def _command(self) -> list[str]:
        ours = ["-n0", "-p", "no:cacheprovider", "-p", recorder.__name__, "-p", "no:sugar", "--color=no"]
        return [sys.executable, "-m", "pytest", *ours, f"--randomly-seed={self._seed}", *self._arguments]

    def _environment(self, library: Preload) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("TOWPATH_")}
        name, _, value = self._mark.partition("=")
        ours = {
            name: value,
            recorder.RESULTS: str(self._results.resolve()),
            recorder.FAILURES: str(self._failures.resolve()),
        }
        return {**kept, **library.environment(self._load.delay_ms), **ours}

    def _stopper(self, library: Preload, root: int) -> list[str]:
        order = {
            "root": root,
            "mark": self._mark,
            "seed": self._seed,
            "pause_s": self._load.pause_s,
            "stop_s": self._load.stop_s,
            "shared": str(library.shared.path),
            "journal": str(self._stops),
        }
        return [sys.executable, "-m", "steady.stopper", json.dumps(order)]

    def _clear_up(self) -> None:
        """Ends what pytest has left behind: it carries the mark of this round."""
        deadline = time.monotonic() + GOODBYE_S
        while left := [each for each in look_around(self._mark.encode()) if each.is_marked]:
            if time.monotonic() > deadline:
                for each in left:
                    with suppress(ProcessLookupError):
                        os.kill(each.pid, signal.SIGKILL)
            time.sleep(TICK_S)

    def _say_what_was_stopped(self, tests: list[dict[str, Any]], stops: list[dict[str, Any]]) -> None:
        """After what the tests that failed have said, for each of them."""
        with self._failures.open("a") as log:
            for test in tests:
                if test["outcome"] == "failed":
                    took_s = test["ended"] - test["began"]
                    log.write(f"\nStopped for {self._load.stop_s:g} s while {test['id']} ran ({took_s:.1f} s):\n")
                    for stop in stops:
                        if test["began"] - self._load.stop_s < stop["at"] < test["ended"]:
                            log.write(f"  after {stop['at'] - test['began']:5.1f} s: {stop['pid']} {stop['what']}\n")


@contextmanager
def _child(
    command: list[str],
    environment: dict[str, str] | None = None,
    log: Any = None,
    goodbye: signal.Signals = signal.SIGTERM,
    stdin: int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    """In a session of its own: Ctrl-C is for us, and we end it in order."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=stdin, stdout=log, stderr=log, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(goodbye)
            try:
                process.wait(GOODBYE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _lines(path: Path) -> list[dict[str, Any]]:
    """What was not written to its end, when a process died, is no line."""
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
