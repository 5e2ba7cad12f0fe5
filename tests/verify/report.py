"""Results of parts, as a table and as a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.verify.parts import MOST_MINUTES

SHOWN_FAILURES = 5
SHOWN_CHARACTERS = 3000


@dataclass(frozen=True)
class Failure:
    """One case or program that failed, and how to run it again."""

    name: str
    text: str
    again: str


@dataclass
class PartResult:
    """What one part came to."""

    part: str
    passed: int = 0
    missing: int = 0  # cases that were not run
    spent_s: float = 0.0  # over all sittings
    failures: list[Failure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.passed > 0 and not (self.missing or self.failures or self.problems)

    def as_json(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "is_good": self.is_good,
            "passed": self.passed,
            "failed": len(self.failures),
            "not_run": self.missing,
            "minutes": round(self.spent_s / 60, 1),
            "failures": [vars(each) for each in self.failures],
            "problems": self.problems,
        }


@dataclass
class Summary:
    """All parts of one run."""

    seed: int
    is_quick: bool
    parts: list[PartResult] = field(default_factory=list)

    def add(self, part: PartResult) -> None:
        self.parts.append(part)

    @property
    def is_good(self) -> bool:
        return bool(self.parts) and all(part.is_good for part in self.parts)

    def as_json(self) -> dict[str, Any]:
        parts = [part.as_json() for part in self.parts]
        return {"seed": self.seed, "is_quick": self.is_quick, "is_good": self.is_good, "parts": parts}


def show(summary: Summary, console: Console) -> None:
    table = Table(title="make verify" + (" QUICK=1" if summary.is_quick else ""), title_justify="left")
    for heading in ("", "part"):
        table.add_column(heading)
    for heading in ("passed", "failed", "not run", "minutes"):
        table.add_column(heading, justify="right")
    for part in summary.parts:
        too_long = " (over the limit)" if part.spent_s > MOST_MINUTES * 60 else ""
        table.add_row(
            "✓" if part.is_good else "✗",
            part.part,
            *map(str, (part.passed, len(part.failures), part.missing)),
            f"{part.spent_s / 60:.1f}{too_long}",
            style=None if part.is_good else "red",
        )
    console.print(table)


def tail(part: PartResult, console: Console) -> None:
    """What failed, and how to run it again."""
    for problem in part.problems:
        console.print(f"✗ {problem}", markup=False)
    for failure in part.failures[:SHOWN_FAILURES]:
        console.print(f"\n✗ {failure.name}\n{failure.text[-SHOWN_CHARACTERS:]}\nAgain: {failure.again}", markup=False)
    if len(part.failures) > SHOWN_FAILURES:
        console.print(f"… and {len(part.failures) - SHOWN_FAILURES} more:", _names(part.failures), markup=False)


def _names(failures: Sequence[Failure]) -> str:
    return "".join(f"\n  {each.name}" for each in failures[SHOWN_FAILURES:])
