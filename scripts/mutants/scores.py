"""What the check has found: kept while it runs, counted at its end, and written into the documentation."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.mutants.cores import GOAL, ROOT, Core
from scripts.mutants.mutations import Mutation, mutations_of
from scripts.mutants.trial import Fate

FOLDER = ROOT / ".cache" / "mutants"
RESULT = FOLDER / "result.json"
PAGE = ROOT / "docs" / "reference" / "mutation.md"
EXPLAINED = Path(__file__).parent / "explained.toml"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault in its source."""

    source: str  # below src/towpath
    mutation: Mutation

    @property
    def id(self) -> str:
        """The same as long as its source is the same."""
        return f"{self.source}:{self.mutation.start}-{self.mutation.stop}:{self.mutation.after}"

    @property
    def place(self) -> str:
        return f"{self.source}:{self.mutation.line}"


def mutants_of(core: Core) -> list[Mutant]:
    return [
        Mutant(name, mutation)
        for name, path in zip(core.sources, core.source_paths, strict=True)
        for mutation in mutations_of(path.read_text(encoding="utf-8"), core.without)
    ]


# Kept while it runs


class Notes:
    """What became of the faults of a core, kept in a file line by line: a run that is ended goes on where it was.

    What was found with other sources or other tests does not count. Who has only added tests may keep what was killed.
    """

    def __init__(self, core: Core, folder: Path = FOLDER, *, keep_killed: bool = False) -> None:
        self._path = folder / f"{core.name.replace(' ', '-')}.jsonl"
        program = Path(__file__).with_name("mutations.py")
        self._head = [_digest([program, *core.source_paths]) + " ".join(sorted(core.without)), _digest(core.test_paths)]
        self.fates = self._read(keep_killed)

    def _read(self, keep_killed: bool) -> dict[str, Fate]:
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        whole = [json.loads(line) for line in lines if line.endswith("]")]  # the last one may have been cut off
        head, *rest = whole or [[]]
        if head[:1] != self._head[:1] or (head != self._head and not keep_killed):
            return {}
        fates = {id: Fate(fate) for id, fate in rest}
        return {id: fate for id, fate in fates.items() if head == self._head or fate is not Fate.SURVIVED}

    def begin(self) -> None:
        """Make the file new, with what is known."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lines = [self._head, *([id, fate] for id, fate in self.fates.items())]
        self._path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")

    def add(self, id: str, fate: Fate) -> None:
        self.fates[id] = fate
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps([id, fate]) + "\n")


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


# Explained


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a fault changes nothing that anybody could notice. It is for all faults of that line that are so written."""

    source: str
    code: str
    change: str
    why: str

    def covers(self, mutant: Mutant) -> bool:
        mutation = mutant.mutation
        return (self.source, self.code, self.change) == (mutant.source, mutation.code, mutation.change)


def explanations() -> list[Explanation]:
    with EXPLAINED.open("rb") as stream:
        return [Explanation(**each) for each in tomllib.load(stream).get("equivalent", [])]


# Counted


@dataclass(frozen=True, slots=True)
class Score:
    """How a core has done. What is explained counts as survived all the same."""

    core: str
    killed: int
    survivors: tuple[Mutant, ...]
    explained: int

    @property
    def mutants(self) -> int:
        return self.killed + len(self.survivors)

    @property
    def share(self) -> float:
        return self.killed / self.mutants if self.mutants else 0.0

    @property
    def is_enough(self) -> bool:
        return self.share >= GOAL


def score_of(core: Core, fates: Mapping[str, Fate], known: Sequence[Explanation]) -> Score:
    survivors = tuple(each for each in mutants_of(core) if fates.get(each.id) is Fate.SURVIVED)
    killed = sum(fate is Fate.KILLED for fate in fates.values())
    explained = sum(any(each.covers(mutant) for each in known) for mutant in survivors)
    return Score(core.name, killed, survivors, explained)


_HEAD = ("core", "mutants", "killed", "survived", "explained", "score")


def rows(scores: Sequence[Score]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [_HEAD]
    for each in scores:
        numbers = (each.mutants, each.killed, len(each.survivors), each.explained)
        found.append((each.core, *(f"{number:,}" for number in numbers), f"{_percent(each.share)} %"))
    return found


def _percent(share: float) -> str:
    """Cut, not rounded: 79.97 is not 80."""
    return f"{int(share * 1000) / 10:.1f}"


def write_result(scores: Sequence[Score], path: Path = RESULT) -> None:
    """For programs."""
    cores = {
        each.core: {
            "mutants": each.mutants,
            "killed": each.killed,
            "survived": len(each.survivors),
            "explained": each.explained,
            "score": round(each.share, 4),
            "is_enough": each.is_enough,
            "survivors": [{"place": mutant.place, "change": mutant.mutation.change} for mutant in each.survivors],
        }
        for each in scores
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"goal": GOAL, "cores": cores}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_page(scores: Sequence[Score], known: Sequence[Explanation], path: Path = PAGE) -> None:
    """Put both tables into the page."""
    head, *found = rows(scores)
    text = path.read_text(encoding="utf-8")
    text = _put(text, "scores", [head, ("---", *["---:"] * (len(head) - 1)), *found])
    faults = [(f"`{each.source}`", _code(each.code), _code(each.change), each.why) for each in known]
    text = _put(text, "equivalent", [("source", "line", "change", "why nobody can notice"), ("---",) * 4, *faults])
    path.write_text(text, encoding="utf-8")


def _put(text: str, name: str, lines: Iterable[Sequence[str]]) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    before, after = text.split(begin)[0], text.split(end)[1]
    return f"{before}{begin}{table}{end}{after}"


def _code(text: str) -> str:
    """In a cell of a table."""
    return f"`{text.replace('|', chr(92) + '|')}`"
