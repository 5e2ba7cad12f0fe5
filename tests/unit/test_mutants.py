"""The mutation check: which faults it makes, what it keeps of a run, and when a core has missed its goal."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from scripts.mutants import scores, trial
from scripts.mutants.cores import CORES, ROOT, Core
from scripts.mutants.mutations import Mutation, mutations_of
from scripts.mutants.scores import Explanation, Mutant, Notes, Score
from scripts.mutants.trial import Fate, TrialFailed


def changed(source: str) -> set[str]:
    """Each fault as the text that it leaves, on one line."""
    source = textwrap.dedent(source).strip() + "\n"
    return {" ".join(each.applied(source).split()) for each in mutations_of(source)}


# Faults


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("a = b < c", {"a = b <= c"}),
        ("a = b is not None", {"a = b is None"}),
        ("a = b not  in c", {"a = b in c"}),
        ("a = (b) == (c)", {"a = (b) != (c)"}),
        ("a = b < c <= d", {"a = b <= c <= d", "a = b < c < d"}),
        ("a = b and c or d", {"a = b or c or d", "a = b and c and d"}),
        ("a = not b", {"a = b"}),
        ("a = b // c", {"a = b * c"}),
        ("a = b if c else d", {"a = b if True else d", "a = b if False else d"}),
        ("a = [b for b in c if b]", {"a = [b for b in c if True]", "a = [b for b in c if False]"}),
        ("a = {b, c, d}", {"a = {c, d}", "a = {b, d}", "a = {b, c, }"}),
        ("a = {b: c, **d}", {"a = {**d}", "a = {b: c, }"}),
        ("a = (b, c)", {"a = (b,)", "a = (c,)"}),
        ("a = 1", {"a = 2"}),
        ("a = 'b'", {"a = 'bX'"}),
        ("a = True", {"a = False"}),
        ("a = b(c=d)", {"a = b()"}),
        ("a = max(b)", {"a = min(b)"}),
        ("a.b = c", {"pass"}),
        ("a += b", {"a -= b", "pass"}),
        ("raise A('text')", {"pass"}),
        ("def a():\n    return b", {"def a(): return None"}),
        ("while a:\n    break", {"while False: break", "while a: continue"}),
        ("match a:\n    case B():\n        c", {"match a: case B() if False: c", "match a: case B(): pass"}),
    ],
)
def test_faults(source: str, faults: set[str]) -> None:
    assert changed(source) == faults


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "from a import b",
        "a = f'{b + 1}'",
        "a: dict[str, int]",
        "Test = Callable[[Get], bool]",
        "Then = Isolate | Ignore",
        "__all__ = ['a']",
        "@a(b=1)\nclass C:\n    '''What it is.'''\n    d: int",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert changed(source) == set()


def test_a_fault_knows_its_place() -> None:
    source = "é = 'ü'\nif é == b:  # a comment\n    pass\n"
    found = next(each for each in mutations_of(source) if each.change == "== → !=")
    assert (found.line, found.code) == (2, "if é == b:  # a comment")
    assert found.applied(source) == "é = 'ü'\nif é != b:  # a comment\n    pass\n"
    assert "-if é == b:  # a comment\n+if é != b:  # a comment\n" in found.diff(source, "a.py")


@pytest.mark.parametrize("path", ["queue/states.py", "flow/run/outage.py"])
def test_every_fault_of_a_source_is_another_program(path: str) -> None:
    """None is a syntax error, and none leaves what was there."""
    source = (ROOT / "src" / "towpath" / path).read_text(encoding="utf-8")
    programs = [ast.dump(ast.parse(each.applied(source))) for each in mutations_of(source)]
    assert len({*programs, ast.dump(ast.parse(source))}) == len(programs) + 1


# Cores


def test_cores_name_files_that_there_are() -> None:
    paths = [path for core in CORES for path in (*core.source_paths, *core.test_paths)]
    assert [path for path in paths if not path.is_file()] == []
    sources = [source for core in CORES for source in core.sources]
    assert len(set(sources)) == len(sources), "a source belongs to one core"
    assert len({core.name for core in CORES}) == len(CORES)


def test_what_is_explained_is_still_a_fault() -> None:
    """An explanation whose line has changed explains nothing any more."""
    there = [mutant for core in CORES for mutant in scores.mutants_of(core)]
    stale = [each for each in scores.explanations() if not any(each.covers(mutant) for mutant in there)]
    assert stale == []


# Scores


def mutant(change: str = "a → b") -> Mutant:
    before, after = change.split(" → ")
    return Mutant("judge.py", Mutation(0, 1, before, after, 7, "return a"))


@pytest.mark.parametrize(
    ("killed", "survived", "is_enough", "shown"),
    [(80, 20, True, "80.0 %"), (7_999, 2_001, False, "79.9 %"), (0, 0, False, "0.0 %"), (3, 0, True, "100.0 %")],
)
def test_a_core_needs_eighty_of_a_hundred(killed: int, survived: int, is_enough: bool, shown: str) -> None:
    score = Score("judge", killed, (mutant(),) * survived, 0)
    assert score.is_enough is is_enough
    assert scores.rows([score])[1][-1] == shown


def test_what_is_explained_counts_as_survived() -> None:
    [core] = [each for each in CORES if each.name == "outage detector"]
    first, second, third, *_ = scores.mutants_of(core)
    known = [Explanation(first.source, first.mutation.code, first.mutation.change, "nobody can see it")]
    fates = {first.id: Fate.SURVIVED, second.id: Fate.KILLED, third.id: Fate.BROKEN}
    score = scores.score_of(core, fates, known)
    assert (score.mutants, score.killed, score.explained, score.survivors) == (2, 1, 1, (first,))


def test_results_are_for_programs_and_for_the_page(tmp_path: Path) -> None:
    score = Score("judge", 9, (mutant(),), 1)
    scores.write_result([score], tmp_path / "result.json")
    told = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))["cores"]["judge"]
    assert (told["mutants"], told["killed"], told["score"], told["is_enough"]) == (10, 9, 0.9, True)
    assert told["survivors"] == [{"place": "judge.py:7", "change": "a → b"}]

    page = tmp_path / "page.md"
    names = ("scores", "equivalent")
    page.write_text("".join(f"# T\n<!-- {name} -->\nold\n<!-- end of {name} -->\n" for name in names), encoding="utf-8")
    for _ in range(2):  # written again, it is the same
        scores.write_page([score], [Explanation("judge.py", "a | b", "| → &", "all the same")], page)
        text = page.read_text(encoding="utf-8")
        assert "| judge | 10 | 9 | 1 | 1 | 90.0 % |\n<!-- end of scores -->" in text
        assert "| `judge.py` | `a \\| b` | `\\| → &` | all the same |\n<!-- end of equivalent -->" in text
        assert "old" not in text


# A run


@pytest.fixture
def small_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Core:
    """A core with a source and a test of its own, in a tree of its own."""
    source = tmp_path / "src" / "towpath" / "tiny.py"
    test = tmp_path / "tests" / "unit" / "test_tiny.py"
    for path in (source, test):
        path.parent.mkdir(parents=True)
    source.write_text("LIMIT = 3\n\n\ndef allows(n: int) -> bool:\n    return n < LIMIT\n", encoding="utf-8")
    test.write_text("from towpath.tiny import allows\n\n\ndef test_it():\n    assert allows(2)\n", encoding="utf-8")
    monkeypatch.setattr("scripts.mutants.cores.ROOT", tmp_path)
    return Core("tiny", ("tiny.py",), ("test_tiny.py",))


def test_a_run_goes_on_where_it_was_until_a_file_changes(small_core: Core, tmp_path: Path) -> None:
    notes = Notes(small_core, tmp_path)
    notes.begin()
    notes.add("one", Fate.KILLED)
    notes.add("two", Fate.SURVIVED)
    path = tmp_path / "tiny.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + '["three", "kil', encoding="utf-8")  # it was cut off
    assert Notes(small_core, tmp_path).fates == {"one": Fate.KILLED, "two": Fate.SURVIVED}

    [test] = small_core.test_paths
    test.write_text(test.read_text(encoding="utf-8") + "    assert not allows(3)\n", encoding="utf-8")
    assert Notes(small_core, tmp_path).fates == {}
    assert Notes(small_core, tmp_path, keep_killed=True).fates == {"one": Fate.KILLED}

    [source] = small_core.source_paths
    source.write_text(source.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert Notes(small_core, tmp_path, keep_killed=True).fates == {}


def test_who_imports_a_module_is_loaded_with_it() -> None:
    imports = {"a": ["b"], "b": ["c"], "c": [], "d": ["c.e"], "e": ["a", "d"]}
    assert trial.dependents("c", imports) == {"a", "b", "c", "e"}
    assert trial.dependents("d", imports) == {"d", "e"}


TRY = """
from dataclasses import replace
from scripts.mutants import trial
from scripts.mutants.cores import CORES
from scripts.mutants.mutations import Mutation

[core] = [each for each in CORES if each.name == "queue moves"]
[path] = core.source_paths
source = path.read_text(encoding="utf-8")
faults = []
for before, after in FAULTS:
    start = source.index(before)
    faults.append(Mutation(start, start + len(before), before, after, 1, before))
trial.LEAST_CPU_S = 1
well = replace(trial.health(core), cpu_s=0.0)  # what never ends is ended after a second
for fault, fate in trial.try_all(core, path, faults, well, 2):
    print(faults.index(fault), fate)
"""


def test_a_real_core_is_tried() -> None:
    """Of the states of messages. In a process of its own, which has not loaded them."""
    faults = {
        ("Arrow((_NEW, _ACK), _DEAD)", "Arrow((_NEW,), _DEAD)"): Fate.KILLED,
        ("# waiting to be claimed", "# waiting"): Fate.SURVIVED,
        ("TERMINAL = frozenset(", "TERMINAL = frozen("): Fate.BROKEN,
        ("        try:\n", "        while True: pass\n        try:\n"): Fate.KILLED,  # it never ends
    }
    program = f"FAULTS = {list(faults)!r}\n{TRY}"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={**os.environ, "PYTHONPATH": "src:."}, capture_output=True
    )
    assert ran.stderr == b""
    assert sorted(ran.stdout.decode().split("\n")[:-1]) == [
        f"{number} {fate}" for number, fate in enumerate(faults.values())
    ]


def test_tests_that_fail_anyway_say_nothing(tmp_path: Path) -> None:
    failing = tmp_path / "test_it.py"
    failing.write_text("def test_it():\n    assert False\n", encoding="utf-8")
    with pytest.raises(TrialFailed, match=r"test_it\.py::test_it"):
        trial.health(Core("odd", ("queue/states.py",), (str(failing),)))
