"""The parts of `make bench-corrections`: what is measured, and on which data sets."""

from __future__ import annotations

from random import Random

import pytest
from bench.corrections import goals
from bench.corrections.damage import slipped, slips
from bench.corrections.data_set import DataSet
from bench.corrections.held_out import DATA_SETS
from bench.corrections.run import Run
from bench.corrections.scoring import Change, best_of, scored
from bench.corrections.tuning.shipments import Shipments
from bench.corrections.tuning.staff import Staff
from rich.console import Console

from towpath.desk.corrections.formats import folded, slips_between


def test_no_figure_comes_from_data_that_constants_were_chosen_on() -> None:
    tuned: tuple[type[DataSet], ...] = (Staff, Shipments)
    assert not {each.seed for each in tuned} & {each.seed for each in DATA_SETS}
    assert not {field for each in tuned for field in each.decided} & {
        field for each in DATA_SETS for field in each.decided
    } - {"country"}
    assert len(DATA_SETS) >= 3


@pytest.mark.part("matrix")
@pytest.mark.parametrize("data_set", DATA_SETS, ids=lambda each: each.name)
def test_the_figures_are_reached(data_set: type[DataSet]) -> None:
    report = Run([data_set], Console(quiet=True)).report()
    assert [(row.operation, row.towpath) for row in report.findings if not row.is_met] == []
    assert len(report.findings) == 4


def test_goals_are_those_of_the_issue() -> None:
    assert (goals.precision().bound, goals.coverage().bound) == (0.99, 0.60)


def test_wrong_changes_of_good_fields_count_against_precision() -> None:
    changes = [Change(0, "a", True, 0.9), Change(1, "b", False, 0.5)]
    assert scored(changes, []).precision == 0.5
    assert best_of(changes, 1) == changes[:1]


def test_two_ways_to_count_slips_agree() -> None:
    rng = Random(5)
    for _ in range(300):
        word = "".join(rng.choice("abcdefgh") for _ in range(rng.randint(4, 9)))
        other = slipped(rng, word)
        assert slips(word, other) == slips_between(folded(word), folded(other), 9)
