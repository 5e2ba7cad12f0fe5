"""What the rounds have come to: one line each, kept for the commit, so that they can be run in several sittings."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from steady.plan import seed_of

ROUND_S = 360  # a round should not take longer: 20 of them are two hours then


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One round."""

    number: int
    seed: int
    passed: int
    failed: list[str]
    skipped: list[str]
    stops: int
    delayed: int
    took_s: float
    output: str  # where to look
    problems: list[str]

    @property
    def holds(self) -> bool:
        return not self.problems

    @property
    def line(self) -> str:
        return (
            f"round {self.number}: seed {self.seed}, {self.passed} passed, {len(self.failed)} failed, "
            f"{self.stops} stops, {self.delayed} fsyncs delayed, {_clock(self.took_s)}"
        )


def judge(outcome: Outcome, exit_code: int | None) -> list[str]:
    """What is wrong with a round. One that has not disturbed its tests proves nothing."""
    wrong = [f"failed: {each}" for each in outcome.failed]
    wrong += [f"skipped: {each}" for each in outcome.skipped]
    if not outcome.passed:
        wrong.append("no test has passed")
    if exit_code != 0 and not outcome.failed:
        wrong.append(f"pytest ended with {exit_code}")
    if not outcome.stops:
        wrong.append("void: no process was stopped")
    if not outcome.delayed:
        wrong.append("void: no fsync was delayed")
    return wrong


class Book:
    """The rounds of one set on one commit, in a directory of their own. A round that failed stays failed."""

    def __init__(self, home: Path, arguments: Sequence[str], commit: str, seed: int | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self._arguments = list(arguments)
        self._commit = commit
        self._lines = home / "rounds.jsonl"
        kept = home / "seed"
        if not kept.exists():
            kept.write_text(str(random.randrange(10**6) if seed is None else seed))
        self.seed = int(kept.read_text())
        if seed is not None and seed != self.seed:
            raise ValueError(
                f"the rounds in {home} have begun with seed {self.seed}; take another --home, or remove it"
            )

    @property
    def rounds(self) -> list[Outcome]:
        if not self._lines.exists():
            return []
        return [Outcome(**json.loads(line)) for line in self._lines.read_text().splitlines()]

    def next(self) -> tuple[int, int]:
        """The number and the seed of the next round."""
        number = len(self.rounds) + 1
        return number, seed_of(self.seed, number)

    def add(self, outcome: Outcome) -> None:
        with self._lines.open("a") as lines:
            lines.write(json.dumps(asdict(outcome)) + "\n")

    def close(self, wanted: int) -> tuple[bool, Path]:
        """Whether so many rounds have been run, none of which failed; and the file that says all of it."""
        rounds = self.rounds
        holds = len(rounds) >= wanted and all(each.holds for each in rounds)
        told = {
            "commit": self._commit,
            "arguments": self._arguments,
            "seed": self.seed,
            "wanted": wanted,
            "holds": holds,
            "rounds": [asdict(each) for each in rounds],
        }
        path = self.home / "steady.json"
        path.write_text(json.dumps(told, indent=2) + "\n")
        return holds, path


def table(rounds: Sequence[Outcome]) -> Table:
    """One row for each, and one for all."""
    made = Table(title="Steadiness", title_justify="left")
    for heading in ("round", "seed", "passed", "failed", "stops", "fsyncs delayed", "time"):
        made.add_column(heading, justify="right")
    for each in rounds:
        passed, failed = str(each.passed), str(len(each.failed)) if each.holds or each.failed else "void"
        figures = (f"{each.stops}", f"{each.delayed:,}", _clock(each.took_s))
        made.add_row(str(each.number), str(each.seed), passed, failed, *figures, style="" if each.holds else "red")
    made.add_section()
    made.add_row(
        "all",
        "",
        f"{sum(each.passed for each in rounds):,}",
        str(sum(len(each.failed) for each in rounds)),
        f"{sum(each.stops for each in rounds):,}",
        f"{sum(each.delayed for each in rounds):,}",
        _clock(sum(each.took_s for each in rounds)),
    )
    return made


def commit(root: Path) -> str:
    """The name of what is checked out, with a mark of its own for what was changed since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout

    try:
        name = git("rev-parse", "--short=12", "HEAD").strip()
        changed = git("diff", "HEAD", "--binary")
        changed += "".join(
            f"{each}\n{git('hash-object', each)}" for each in _untracked(git("ls-files", "-zo", "--exclude-standard"))
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"  # sources without their history
    return f"{name}-{_mark(changed)}" if changed else name


def _untracked(listed: str) -> list[str]:
    return [each for each in listed.split("\0") if each]


def home_of(root: Path, of_commit: str, arguments: Sequence[str]) -> Path:
    """Where the rounds of a commit are kept. Other arguments are another set of tests, so they are not added up."""
    name = f"{of_commit}-{_mark(json.dumps(list(arguments)))}" if arguments else of_commit
    return root / ".cache" / "steady" / name


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02}"
