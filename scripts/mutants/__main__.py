"""`python -m scripts.mutants`: try the faults of every core, or of some, and say how many are noticed."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from scripts.mutants import scores
from scripts.mutants.cores import CORES, GOAL, ROOT, Core
from scripts.mutants.scores import Mutant, Notes, Score
from scripts.mutants.trial import Fate, TrialFailed, health, try_all

SAY_EVERY_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The code to end with: 1 when a core has missed the goal."""
    asked = _parser().parse_args(arguments)
    cores = [each for each in CORES if not asked.core or each.name in asked.core]
    known = scores.explanations()
    found: list[Score] = []
    started = time.monotonic()
    for number, core in enumerate(cores, start=1):
        notes = Notes(core, keep_killed=asked.survivors)
        if asked.again:
            notes.fates.clear()
        try:
            _try_core(core, notes, f"[{number}/{len(cores)}] {core.name}", jobs=asked.jobs)
        except TrialFailed as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        found.append(scores.score_of(core, notes.fates, known))
    if asked.show:
        _show_survivors(found, known)
    _show(found, time.monotonic() - started)
    if not asked.core:
        scores.write_result(found)
        print(f"for programs: {scores.RESULT.relative_to(ROOT)}")
        if asked.write:
            scores.write_page(found, known)
            print(f"written: {scores.PAGE.relative_to(ROOT)}")
    return 0 if all(each.is_enough for each in found) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__, usage='make mutants ARGS="[options]"')
    names = [each.name for each in CORES]
    parser.add_argument("--core", action="append", choices=names, help="only this one; can be given several times")
    parser.add_argument("--show", action="store_true", help="show the change of each fault that nobody noticed")
    parser.add_argument("--survivors", action="store_true", help="tests were only added: try again what has survived")
    parser.add_argument("--again", action="store_true", help="try every fault, also those that were tried before")
    parser.add_argument("--write", action="store_true", help="put the scores into docs/reference/mutation.md")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="faults tried at once (%(default)s)")
    return parser


def _try_core(core: Core, notes: Notes, title: str, *, jobs: int) -> None:
    """Try what was not tried yet."""
    everything = scores.mutants_of(core)
    left = [each for each in everything if each.id not in notes.fates]
    if not left:
        print(f"{title}: all {len(everything)} were tried before")
        return
    notes.begin()
    well = health(core)
    progress = _Progress(title, len(everything), notes)
    for name, source in zip(core.sources, core.source_paths, strict=True):
        of_source = {each.mutation: each for each in left if each.source == name}
        if of_source:
            for mutation, fate in try_all(core, source, list(of_source), well, jobs):
                notes.add(of_source[mutation].id, fate)
                progress.say()
    progress.say(is_last=True)


class _Progress:
    """One moving line on a terminal, and a line from time to time in a log."""

    def __init__(self, title: str, total: int, notes: Notes) -> None:
        self._title, self._total, self._notes = title, total, notes
        self._started = self._said = time.monotonic()

    def say(self, *, is_last: bool = False) -> None:
        now = time.monotonic()
        is_terminal = sys.stdout.isatty()
        if not (is_last or is_terminal or now - self._said > SAY_EVERY_S):
            return
        self._said = now
        fates = list(self._notes.fates.values())
        survived = fates.count(Fate.SURVIVED)
        text = f"{self._title}: {len(fates)}/{self._total}, {survived} survived, {now - self._started:.0f} s"
        print(f"\r\033[K{text}" if is_terminal else text, end="\n" if is_last or not is_terminal else "", flush=True)


def _show_survivors(found: Sequence[Score], known: Sequence[scores.Explanation]) -> None:
    for score in found:
        for mutant in score.survivors:
            why = next((each.why for each in known if each.covers(mutant)), None)
            print(f"\n{score.core}, {mutant.place}: {mutant.mutation.change}" + (f"\n  {why}" if why else ""))
            print(_diff(mutant), end="")


def _diff(mutant: Mutant) -> str:
    path = ROOT / "src" / "towpath" / mutant.source
    return mutant.mutation.diff(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))


def _show(found: Sequence[Score], seconds: float) -> None:
    table = scores.rows(found)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    print()
    for row in table:
        first, *rest = (
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join((first, *rest)))
    missed = [each.core for each in found if not each.is_enough]
    print(
        f"\n{'✗' if missed else '✓'} {int(seconds)} s; "
        + (f"below {GOAL:.0%}: {', '.join(missed)}" if missed else f"every core has {GOAL:.0%} or more")
    )


if __name__ == "__main__":
    sys.exit(main())
