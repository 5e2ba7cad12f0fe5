"""One whole run: learn from what was taken, correct what failed, compare with the truth."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence

from rich.console import Console

from bench.corrections import goals, majority
from bench.corrections.data_set import DataSet
from bench.corrections.scoring import Score, best_of, learned, score, scored
from bench.findings import Finding
from bench.goal import Goal
from bench.rows_report import Report

INTRODUCTION = (
    "Generated records with known truth, on data sets that no constant was chosen on (`bench/corrections/held_out`). "
    "A field is *correctable* when the model of the generator decides it: its deciding field is clean and at least "
    "five taken records have the same, or its text is a slip of one known value only, or the format of its sender is "
    "known. Precision counts every change, also those of fields that nobody could have known or that were right; "
    "coverage counts right changes among the correctable fields. The majority values are told which fields are wrong, "
    "corrections have to find that out; of theirs as many are taken as there are corrections, the surest first."
)


class Run:
    """Measures data sets, one after the other."""

    def __init__(self, data_sets: Sequence[type[DataSet]], console: Console) -> None:
        self._data_sets = data_sets
        self._console = console

    def report(self) -> Report:
        """Measure everything."""
        findings = [finding for each in self._data_sets for finding in self._measured(each)]
        return Report(
            title="Learned corrections",
            command="make bench-corrections",
            findings=findings,
            peers=[
                ("majority value", "-", "the most frequent value of the field"),
                ("majority by decider", "-", "the most frequent value among records with the same deciding value"),
            ],
            failures=[],
            introduction=INTRODUCTION,
            machine=f"Machine: {os.cpu_count()} cores; Python {platform.python_version()}.",
        )

    def _measured(self, kind: type[DataSet]) -> Iterator[Finding]:
        self._console.print(f"{kind.name}: learn, correct, compare", style="dim", highlight=False)
        data = kind()
        found = score(learned(data), data.failing)
        size = f"{len(data.taken):,} taken, {len(data.failing):,} failing"
        changed = f"{found.precision:.2%} of {len(found.changes):,} changes"
        yield _row(f"{data.name}: precision", size, found.precision, goals.precision(), changed)
        covered = f"{found.coverage:.2%} of {found.correctable:,} fields"
        yield _row(f"{data.name}: coverage", size, found.coverage, goals.coverage(), covered)
        for name, changes in (("majority", majority.of_all), ("majority by decider", majority.of_decided)):
            other = scored(best_of(changes(data), len(found.changes)), data.failing)
            yield _beside(f"{data.name}: beside {name}", size, found, other)


def _row(operation: str, place: str, value: float, goal: Goal, shown: str) -> Finding:
    return Finding(operation, place, shown, "-", f"{value / goal.bound:.2f}", goal.text, goal.met_by(value))


def _beside(operation: str, place: str, ours: Score, other: Score) -> Finding:
    """At equal coverage: as many changes, or all that the other can make."""
    goal = goals.better()
    ratio = ours.precision / other.precision if other.precision else float("inf")
    peer = f"{other.precision:.2%} of {len(other.changes):,} changes"
    is_met = goal.met_by(ratio) and ours.precision > other.precision
    return Finding(operation, place, f"{ours.precision:.2%}", peer, f"{ratio:.2f}", goal.text, is_met)
