"""The parts of `make steady` that decide whom it stops, what a round is worth, and where it goes on."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from steady.book import Book, Outcome, commit, home_of, judge
from steady.plan import Running, Strike, family, seed_of, strikes, victims

PYTEST = 100
GOOD = Outcome(
    number=1, seed=7, passed=3, failed=[], skipped=[], stops=20, delayed=500, took_s=200.0, output="log", problems=[]
)


def running(pid: int, parent: int = 1, program: str = "python", started: int | None = None, **more: bool) -> Running:
    return Running(pid, pid if started is None else started, parent, program, **more)


def test_a_seed_gives_the_same_strikes_again() -> None:
    first = list(islice(strikes(7, 6.0), 500))
    assert first == list(islice(strikes(7, 6.0), 500))
    assert first != list(islice(strikes(8, 6.0), 500))
    assert 5 < sum(each.after_s for each in first) / 500 < 7
    assert {len(each.chances) for each in first} == {1, 2}


def test_each_round_has_a_seed_of_its_own() -> None:
    assert [seed_of(7, number) for number in (1, 2)] == [seed_of(7, number) for number in (1, 2)]
    assert len({seed_of(7, number) for number in range(100)}) > 95
    assert seed_of(8, 1) != seed_of(7, 1)


def test_all_below_pytest_belong_to_it_and_nobody_else() -> None:
    child, grandchild = running(101, PYTEST), running(102, 101)
    orphan, its_child = running(103, is_marked=True), running(104, 103)
    clean = running(105)  # an orphan without the variable
    steady, sibling, stranger = running(99), running(106, 99), running(107)
    reused = running(108, started=999)  # its number was that of a child once
    pytest_process = running(PYTEST, 99)
    seen = [stranger, its_child, clean, grandchild, steady, orphan, child, sibling, pytest_process, reused]
    found = family(PYTEST, seen, known={clean.identity, (108, 108)})
    assert found == [pytest_process, child, grandchild, orphan, its_child, clean]


def test_who_stands_still_for_a_test_is_left_alone() -> None:
    tree = [running(PYTEST), running(101, is_stopped=True), running(102, is_held=True), running(103, program="java")]
    hit = Counter(victim.pid for strike in islice(strikes(7), 300) for victim in victims(strike, PYTEST, tree))
    assert hit.keys() == {PYTEST, 103}
    assert victims(Strike(0, ((0.5, 0.5),)), PYTEST, tree[1:3]) == []


def test_one_strike_never_hits_the_same_process_twice() -> None:
    tree = [running(PYTEST), running(101)]
    strike = Strike(0, ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)))
    assert sorted(victim.pid for victim in victims(strike, PYTEST, tree)) == [PYTEST, 101]


def test_a_program_with_many_processes_does_not_draw_all_strikes() -> None:
    servers = [running(200 + number, 150, "postgres") for number in range(20)]
    tree = [running(PYTEST), running(101), running(102), *servers]
    hit: Counter[str] = Counter()
    for strike in islice(strikes(7), 900):
        for victim in victims(Strike(0, strike.chances[:1]), PYTEST, tree):
            hit["pytest" if victim.pid == PYTEST else victim.program] += 1
    assert hit.keys() == {"pytest", "python", "postgres"}
    assert all(200 < count < 400 for count in hit.values())


def test_a_round_holds_only_when_all_tests_passed_and_were_disturbed() -> None:
    assert judge(GOOD, 0) == []
    wrong = {
        "a test failed": (replace(GOOD, failed=["a"]), 1),
        "a test was skipped": (replace(GOOD, skipped=["a"]), 0),
        "none was selected": (replace(GOOD, passed=0), 5),
        "pytest itself was killed": (GOOD, -9),
        "pytest did not end": (GOOD, None),
        "nobody was stopped": (replace(GOOD, stops=0), 0),
        "no fsync was delayed": (replace(GOOD, delayed=0), 0),
    }
    assert [name for name, (outcome, code) in wrong.items() if not judge(outcome, code)] == []


def test_a_later_sitting_goes_on_where_the_one_before_has_ended(tmp_path: Path) -> None:
    book = Book(tmp_path / "kept", [], "abc", seed=7)
    assert book.next() == (1, seed_of(7, 1))
    book.add(GOOD)
    later = Book(tmp_path / "kept", [], "abc")
    assert later.seed == 7
    assert later.rounds == [GOOD]
    assert later.next() == (2, seed_of(7, 2))
    assert not later.close(2)[0]
    later.add(replace(GOOD, number=2))
    holds, path = later.close(2)
    assert holds
    told = json.loads(path.read_text())
    assert (told["commit"], told["seed"], told["holds"]) == ("abc", 7, True)
    assert [each["number"] for each in told["rounds"]] == [1, 2]


def test_a_failed_round_stays_failed(tmp_path: Path) -> None:
    book = Book(tmp_path, [], "abc")
    book.add(replace(GOOD, failed=["a"], problems=["failed: a"]))
    book.add(replace(GOOD, number=2))
    assert not Book(tmp_path, [], "abc").close(2)[0]


def test_rounds_with_another_seed_are_not_mixed_in(tmp_path: Path) -> None:
    Book(tmp_path, [], "abc", seed=7)
    with pytest.raises(ValueError, match="begun with seed 7"):
        Book(tmp_path, [], "abc", seed=8)


def test_what_was_changed_since_the_commit_gets_a_place_of_its_own(tmp_path: Path) -> None:
    assert commit(tmp_path) == "unknown"
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "--allow-empty", "-m", "first"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)
    clean = commit(tmp_path)
    (tmp_path / "new").write_text("1")
    with_new = commit(tmp_path)
    (tmp_path / "new").write_text("2")
    places = [clean, with_new, commit(tmp_path)]
    assert len(set(places)) == 3
    assert all(each.startswith(clean) for each in places)
    assert home_of(tmp_path, clean, []) != home_of(tmp_path, clean, ["-k", "claim"])
