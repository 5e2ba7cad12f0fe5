"""The parts of `make bench-desk` that decide what is measured, and what it is worth."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench.desk import goals, roster
from bench.desk.errors import BODY_BYTES, append_errors, intake_of, make_flow
from bench.desk.figures import figure, write_figures
from bench.desk.findings import desk_finding
from bench.desk.intake import check
from bench.desk.introduction import introduction
from bench.desk.lines import QUERIES, Measure, Part, Store, lines
from bench.desk.replay import Replayed, replay_group
from bench.findings import Samples
from bench.line import Line
from bench.page import ROOT

import towpath
from towpath.desk.cases.model import CaseSelection

EVERYTHING = lines(tuple(Part), tuple(Store))


def row(ours: Measure, peer: Measure | None = None) -> Line:
    [found] = [each for each in EVERYTHING if (each.ours, each.peer) == (ours, peer)]
    return found


def measured(**figures: float) -> Samples:
    samples = Samples()
    for name, value in figures.items():
        samples.add(Measure[name], [value])
    return samples


# Rows


def test_every_measure_is_in_a_row() -> None:
    assert {measure for each in EVERYTHING for measure in each.measures} == set(Measure)


def test_the_goals_are_those_of_the_issue() -> None:
    assert goals.INTAKE_S == {"SQLITE": 10_000, "POSTGRES": 20_000}
    assert (goals.REPLAY_S, goals.QUERY_S, goals.GROUPING_RATIO) == (20_000, 0.1, 1.5)
    assert (goals.RELEASE_S, goals.HEALTHY_RATIO) == (1, 0.9)
    without = [each for each in EVERYTHING if each.goal is None]
    assert all(each.peer_name == "by hand" for each in without)


@pytest.mark.parametrize("store", Store)
def test_every_goal_holds_for_each_store(store: Store) -> None:
    found = {each.ours for each in lines(tuple(Part), (store,)) if each.goal is not None}
    parts = ("INTAKE", "REPLAY", "LANE", "TAKE_MANY", *QUERIES)
    assert found >= {Measure.of(part, store) for part in parts}


@pytest.mark.parametrize("part", Part)
def test_a_part_can_be_measured_alone(part: Part) -> None:
    found = lines((part,), tuple(Store))
    assert found
    assert {each.part for each in found} == {part}


def test_what_needs_servers_is_left_out_without_them() -> None:
    found = {measure for each in lines(tuple(Part), (Store.SQLITE,)) for measure in each.measures}
    assert not {Measure.INTAKE_HAND, Measure.REPLAY_HAND, Measure.HEALTHY_BAD, Measure.HEALTHY_CLEAN} & found
    assert all(measure.name.endswith("SQLITE") for measure in found)


# What figures are worth


@pytest.mark.parametrize(("rate_s", "is_met"), [(20_000, True), (19_999, False)])
def test_a_rate_is_met_by_itself(rate_s: float, is_met: bool) -> None:
    line, samples = row(Measure.INTAKE_POSTGRES), measured(INTAKE_POSTGRES=rate_s)
    found, shown = figure(line, samples), desk_finding(line, samples)
    assert (found.bound, found.measured, found.ratio, found.is_met) == (20_000, rate_s, rate_s / 20_000, is_met)
    assert shown.ratio.startswith(f"{rate_s / 20_000:.2f} ")
    assert shown.is_met is is_met


@pytest.mark.parametrize(("bad", "is_met"), [(90, True), (89, False)])
def test_errors_may_cost_a_tenth(bad: float, is_met: bool) -> None:
    line = row(Measure.HEALTHY_BAD, Measure.HEALTHY_CLEAN)
    found = figure(line, measured(HEALTHY_BAD=bad, HEALTHY_CLEAN=100))
    assert (found.ratio, found.is_met, found.peer_measured) == (bad / 100, is_met, 100)


@pytest.mark.parametrize(("many", "is_met"), [(0.75, True), (0.76, False)])
def test_grouping_may_slow_down_by_half(many: float, is_met: bool) -> None:
    line = row(Measure.TAKE_MANY_SQLITE, Measure.TAKE_FEW_SQLITE)
    found = figure(line, measured(TAKE_MANY_SQLITE=many, TAKE_FEW_SQLITE=0.5))
    assert (found.ratio, found.is_met) == (many / 0.5, is_met)


def test_a_query_has_to_be_quick_at_the_median() -> None:
    line, samples = row(Measure.OPEN_SQLITE), Samples()
    samples.add(Measure.OPEN_SQLITE, [0.01, 0.02, 5.0])
    assert figure(line, samples).is_met
    samples.add(Measure.OPEN_SQLITE, [5.0, 5.0])
    assert not figure(line, samples).is_met


def test_what_was_not_measured_is_not_met() -> None:
    failed = Samples(failures={Measure.LANE_SQLITE: "gone"})
    found = figure(row(Measure.LANE_SQLITE), failed)
    assert (found.measured, found.ratio, found.is_met) == (None, None, False)


def test_programs_can_read_the_rows(tmp_path: Path) -> None:
    write_figures(tmp_path / "rows.json", [figure(row(Measure.LANE_SQLITE), measured(LANE_SQLITE=0.5))])
    [found] = json.loads((tmp_path / "rows.json").read_text())
    assert (found["bound"], found["measured"], found["ratio"], found["is_met"]) == (1, 0.5, 0.5, True)


# What is measured


def test_a_replay_counts_only_when_each_case_is_in_the_topic_once() -> None:
    good = Replayed(cases=10, seconds=2, records=10, replayed=10)
    assert good.rate_s == 5
    for bad in (replace(good, records=11), replace(good, records=9, replayed=9), replace(good, replayed=9)):
        with pytest.raises(AssertionError):
            assert bad.rate_s


def test_a_group_is_replayed_by_a_bulk_job(tmp_path: Path) -> None:
    with towpath.connect(f"sqlite:///{tmp_path}/towpath.db", desk={"directory": str(tmp_path / "desk")}) as runtime:
        assert replay_group(runtime, "bench", 20).rate_s > 0


def test_errors_of_one_cause_become_cases_of_one_group(tmp_path: Path) -> None:
    with towpath.connect(f"sqlite:///{tmp_path}/towpath.db", desk={"directory": str(tmp_path / "desk")}) as runtime:
        make_flow(runtime, "shop")
        append_errors(runtime, "shop", 30)
        intake = intake_of(runtime)
        while intake.run_once().done:
            pass
        intake.on_stop()
        check(runtime, 30)
        with pytest.raises(AssertionError, match="desk_case"):
            check(runtime, 31)
        [group] = runtime.desk.groups.page(limit=10)
        [newest] = runtime.desk.cases.page(CaseSelection(), limit=1).cases
    assert (group.seen, newest.body_bytes) == (30, BODY_BYTES)


# What is told


def test_the_introduction_says_how_much_was_measured() -> None:
    said = introduction(5, 100_000, 50_000, 400_000)
    assert all(
        number in said for number in ("5 rounds", "100,000 error records", "50,000 open cases", "400,000 events")
    )


def test_who_took_part_is_told_with_versions() -> None:
    assert [name for name, _, _ in roster.rows(tuple(Part), None, None, None)] == ["Towpath"]
    assert all(all(each) for each in roster.rows(tuple(Part), None, None, "9.0"))


def test_exit_code_and_options_are_those_of_the_others() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "bench.desk", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert all(option in told for option in ("--only", "--rounds", "--quick", "--write", "--json"))
