"""One part from its start, or from where it stopped, to its result."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from tests.support.shared_servers import shared_servers
from tests.support.spark import PYTHON
from tests.verify.crew import ROOT, Crew, Order
from tests.verify.parts import Part
from tests.verify.report import Failure, PartResult

from towpath.testing.quick_python import quick_python

EVERY_S = 30  # seconds between two lines of progress
MODULES_OF_SHAPES = ["tests.recovery.delivery.shapes"]


class PartRun:
    """Runs a part and keeps in its directory what it has come to."""

    def __init__(self, part: Part, home: Path, seed: int, *, is_quick: bool, arguments: Sequence[str] = ()) -> None:
        self._part = part
        self._home = home
        self._seed = seed
        self._is_quick = is_quick
        self._arguments = arguments

    def go(self, console: Console) -> PartResult:
        self._home.mkdir(parents=True, exist_ok=True)
        self._home.chmod(0o711)  # servers that run as another user have their data below it
        result = PartResult(self._part.name)
        before_s, started = self._spent_before_s(), time.monotonic()
        console.print(f"\n── {self._part.name}: {self._part.about}")
        try:
            if self._part.programs:
                self._run_programs(result, console)
            else:
                self._run_cases(result, console)
        finally:
            result.spent_s = before_s + time.monotonic() - started
            (self._home / "spent_s").write_text(str(result.spent_s))
        return result

    def _spent_before_s(self) -> float:
        kept = self._home / "spent_s"
        return float(kept.read_text()) if kept.exists() else 0.0

    def _run_cases(self, result: PartResult, console: Console) -> None:
        """Side by side; then, one at a time, those that depend on real time."""
        part = self._part
        selection = [*part.paths, *self._arguments, f"--part={part.name}"]
        percent = self._part.quick_percent if self._is_quick else 100
        together = Order([*selection, "-m", "not realtime"], part.processes, self._seed, percent, part.most_cases)
        alone = Order([*selection, "-m", "realtime"], 1, self._seed, percent, part.most_cases)
        crews = [Crew(self._home / "together", together), Crew(self._home / "alone", alone)]
        if all(crew.is_recorded for crew in crews):
            console.print("   done before")
        else:
            with ExitStack() as stack:
                variables = stack.enter_context(shared_servers())
                if self._part.quick_python:
                    variables |= {PYTHON: str(stack.enter_context(quick_python(MODULES_OF_SHAPES)))}
                for crew in crews:
                    crew.order.variables.update(variables)
                    _watch(crew, console)
        for crew in crews:
            items = crew.items
            result.passed += len(crew.done) - len(crew.failed)
            result.missing += len(items) - len(crew.done)
            result.problems += crew.deaths
            for each in crew.failed:
                name = items[each.number]
                again = f".venv/bin/python -m pytest -n0 --part any --hypothesis-seed={self._seed} '{name}'"
                result.failures.append(Failure(name, each.text, again))

    def _run_programs(self, result: PartResult, console: Console) -> None:
        quick = self._part.quick_programs if self._is_quick else ()
        for number, (module, *words) in enumerate(quick or self._part.programs):
            passed, log = self._home / f"{number}.passed", self._home / f"{number}.log"
            command = [sys.executable, "-m", module, *words, *self._seeded(module)]
            console.print(f"   {' '.join(command[2:])}")
            if not passed.exists():
                with log.open("w") as output:
                    code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
                if code.returncode == 0:
                    passed.touch()
            if passed.exists():
                result.passed += 1
            else:
                text = log.read_text(errors="replace")
                result.failures.append(Failure(module, text, f".venv/bin/python {' '.join(command[1:])}"))

    def _seeded(self, module: str) -> list[str]:
        match module:
            case "simulation":
                return ["--first", str(self._seed)]
            case "soak.flow":
                return []
            case _:
                return ["--seed", str(self._seed)]


def _watch(crew: Crew, console: Console) -> None:
    began = said_at = time.monotonic()
    before: int | None = None  # what an interrupted run had done
    told: set[int] = set()
    for _ in crew.run():
        before = len(crew.done) if before is None else before
        for each in crew.failed:
            if each.number not in told:
                told.add(each.number)
                console.print(f"   FAILED {crew.items[each.number]}", markup=False)
        if time.monotonic() - said_at > EVERY_S:
            said_at = time.monotonic()
            console.print(f"   {_progress(crew, said_at - began, before)}")


def _progress(crew: Crew, spent_s: float, before: int) -> str:
    done, of = len(crew.done), len(crew.items)
    left = f"{spent_s / (done - before) * (of - done) / 60:.0f} minutes left" if done > before else "…"
    return f"{spent_s / 60:.0f} min  {done} of {of}, {len(crew.failed)} failed, {left}"
