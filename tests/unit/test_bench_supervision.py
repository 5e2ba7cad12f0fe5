"""The parts of `make bench-supervision` that decide what is measured, and what it is worth."""

from __future__ import annotations

import os

from bench.findings import Samples
from bench.supervision import goals
from bench.supervision.lines import Measure, Part, lines
from bench.supervision.load import share_of_a_core
from bench.supervision.run import Plan, introduction, supervision_finding

EVERYTHING = lines(tuple(Part), 10)


def test_every_measure_is_in_a_row() -> None:
    assert [row.ours for row in EVERYTHING] == list(Measure)


def test_the_goals_are_those_that_were_set() -> None:
    assert (goals.EXIT_WITHIN_S, goals.SILENCE_WITHIN_S, goals.BACK_WITHIN_S) == (1, 3, 5)
    assert (goals.COORDINATOR_WITHIN_S, goals.CORE_SHARE) == (3, 0.02)


def test_one_restart_by_mistake_is_one_too_many() -> None:
    [row] = lines((Part.LOAD,), 10)
    for deaths, is_met in ((0.0, True), (1.0, False)):
        samples = Samples()
        samples.add(Measure.MISTAKES, [deaths])
        found = supervision_finding(row, samples)
        assert (found.towpath, found.is_met) == (f"{deaths:.0f}", is_met)


def test_the_share_is_shown_as_one() -> None:
    [row] = lines((Part.WATCH,), 10)
    samples = Samples()
    samples.add(Measure.WATCHING, [0.0123])
    assert supervision_finding(row, samples).towpath == "1.23% of a core"


def test_a_figure_that_is_missing_is_missed() -> None:
    assert not any(supervision_finding(row, Samples()).is_met for row in EVERYTHING)


def test_a_process_that_sleeps_uses_next_to_nothing() -> None:
    assert 0 <= share_of_a_core(os.getpid(), 0.2) < 0.5


def test_the_introduction_says_how_often() -> None:
    assert "50 times each" in introduction(Plan(tuple(Part), 50, 10, 600, 200, 60))
