"""The parts of `make bench-actors` that decide what is measured, and what it is worth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench.actors import goals, roster
from bench.actors.cast import CAST, HERD_PER_TURN, Herd, Herder, One, Stepper
from bench.actors.contenders.contract import STATES, Order, Shape
from bench.actors.contenders.towpath_steps import check
from bench.actors.findings import actors_finding
from bench.actors.introduction import introduction
from bench.actors.lines import AT_ONCE, Measure, Part, Store, lines
from bench.actors.looking import in_phase, wait_for
from bench.actors.run import SHOWN_BY
from bench.actors.sleepers import cpu_s
from bench.actors.steps import TASKS
from bench.findings import Samples
from bench.line import Line
from bench.page import ROOT

import towpath
from towpath.actors.definition import define
from towpath.actors.instance import Phase
from towpath.runtime import Runtime
from towpath.settings import ActorSettings

EVERYTHING = lines(tuple(Part), tuple(Store))


def row(ours: Measure, peer: Measure | None = None) -> Line:
    [found] = [each for each in EVERYTHING if (each.ours, each.peer) == (ours, peer)]
    return found


# Rows


def test_every_measure_is_in_a_row() -> None:
    assert {measure for each in EVERYTHING for measure in each.measures} == set(Measure)


def test_the_goals_are_those_of_the_issue() -> None:
    assert (goals.ON_SQLITE, goals.ON_POSTGRES, goals.GOES_ON_WITHIN_S) == (10, 4, 5)
    assert (goals.IDLE_CORE_SHARE, goals.CLAIM_RATIO, goals.ALL_TAKEN_WITHIN_S) == (0.01, 1.1, 10)


def test_each_peer_is_as_durable_as_what_it_is_compared_with() -> None:
    for each in lines((Part.STEPS,), tuple(Store)):
        ours, peer = (TASKS[measure] for measure in each.measures)  # type: ignore[index]
        assert (ours.is_ours, peer.is_ours) == (True, False)
        assert (ours.store, ours.synchronous) == (peer.store, peer.synchronous), each.operation


def test_one_part_or_one_database_can_be_measured_alone() -> None:
    assert {each.part for each in lines((Part.TAKEOVER,), tuple(Store))} == {Part.TAKEOVER}
    assert not {each.place for each in lines(tuple(Part), (Store.SQLITE,))} & {"PostgreSQL"}


def test_a_host_runs_as_many_at_once_as_it_does_by_default() -> None:
    assert ActorSettings().workers == AT_ONCE


@pytest.mark.parametrize(("ours", "is_met"), [(1000.0, True), (999.0, False)])
def test_ten_times_is_ten_times(ours: float, is_met: bool) -> None:
    samples = Samples({Measure.TOWPATH_FULL: [[ours]], Measure.DBOS_FULL: [[100.0]]})
    assert actors_finding(row(Measure.TOWPATH_FULL, Measure.DBOS_FULL), samples).is_met is is_met


def test_one_slow_going_on_is_one_too_many() -> None:
    measure = Measure.GOES_ON_SQLITE
    assert actors_finding(row(measure), Samples({measure: [[1.0, 4.9, 1.0]]})).is_met
    assert not actors_finding(row(measure), Samples({measure: [[1.0, 5.1, 1.0]]})).is_met


def test_claims_are_compared_within_a_herd() -> None:
    measures = Measure.ACTOR_SQLITE, Measure.ACTOR_ALONE_SQLITE
    samples = Samples({measures[0]: [[0.002], [0.0105]], measures[1]: [[0.002], [0.010]]})
    found = actors_finding(row(*measures), samples)
    assert found.is_met
    assert (found.ratio, found.towpath) == ("1.02", "p50 6.250 ms")
    assert not actors_finding(row(*measures), Samples({measures[0]: [[0.0023]], measures[1]: [[0.002]]})).is_met


def test_an_idle_host_is_told_as_part_of_a_core() -> None:
    measure = Measure.IDLE_POSTGRES
    found = actors_finding(row(measure), Samples({measure: [[0.004], [0.011]]}))
    assert "0.75%" in found.towpath
    assert "1.10%" in found.towpath
    assert not found.is_met


def test_what_was_not_measured_or_failed_is_not_met() -> None:
    for each in EVERYTHING:
        assert not actors_finding(each, Samples()).is_met
        failed = Samples({measure: [[1.0]] for measure in each.measures}, {each.ours: "it fell over"})
        assert not actors_finding(each, failed).is_met


def test_a_herd_gives_a_figure_for_each_of_its_rows() -> None:
    measures = {Measure.of(what, Store.SQLITE) for what in SHOWN_BY}
    assert measures == {measure for each in lines((Part.SLEEPERS,), (Store.SQLITE,)) for measure in each.measures}


# What is said


def test_who_took_part_is_said_with_version_and_settings() -> None:
    rows = roster.rows(tuple(Part), tuple(Store), "18.0")
    assert {"towpath", "dbos", "PostgreSQL"} <= {row[0] for row in rows}
    assert all(version and settings for _, version, settings in rows)
    assert len(roster.rows((Part.TAKEOVER,), (Store.SQLITE,), None)) == 1


def test_the_introduction_says_how_often() -> None:
    text = introduction(5, 7, 3, 30.0)
    assert all(said in text for said in ("5 rounds", "7 times", "3 times", "30 s", f"{AT_ONCE} runs"))


# What is measured


def test_five_states_are_five_steps() -> None:
    declared = [kind for kind in define(Stepper).states.values() if not kind.is_terminal]
    assert len(declared) == STATES


def test_the_actors_do_what_is_counted(runtime: Runtime) -> None:
    runtime.actors.register(*CAST)
    with_host = runtime.actors.host()
    with_host.start()
    try:
        runtime.actors.start(Stepper, One(7), instance="one")
        runtime.actors.start(Herder, Herd(HERD_PER_TURN + 1, 3600.0))
        wait_for(lambda: in_phase(runtime.database, "sleeping") == HERD_PER_TURN + 1, "all sleep", 60)
        wait_for(lambda: in_phase(runtime.database, "ended") == 2, "the others have ended", 60)
    finally:
        with_host.stop()
    assert runtime.actors.instance("stepper", "one").phase is Phase.ENDED
    states = [each.function for each in runtime.actors.history("stepper", "one")]
    assert states == ["End", "Five", "Four", "Three", "Two", "One", "One"]  # newest first; the last is the start


@pytest.mark.parametrize("shape", list(Shape))
def test_a_measurement_of_ours(shape: Shape, tmp_path: Path) -> None:
    order = Order(f"sqlite:///{tmp_path}/actors.db", shape, 3, 2, "normal")
    assert run(order).returncode == 0


def test_what_is_not_written_down_or_not_as_durable_has_no_figure(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/actors.db"
    with towpath.connect(database={"url": url, "synchronous": "normal"}) as runtime:
        nothing = Order(url, Shape.AT_ONCE, 0, AT_ONCE, "normal")
        check(runtime, nothing)
        with pytest.raises(AssertionError, match="0 of 2"):
            check(runtime, replace(nothing, runs=1))
        with pytest.raises(AssertionError):
            check(runtime, replace(nothing, synchronous="full"))


def run(order: Order) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.actors.contenders.towpath_steps"]
    told = json.dumps({"home": "unused", **order.as_told()})
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([*command, told], input="go\n", text=True, capture_output=True, env=environment, timeout=100)


def test_the_time_of_a_process_is_the_kernels() -> None:
    before = cpu_s(os.getpid())
    while cpu_s(os.getpid()) == before:
        sum(range(100_000))
    assert cpu_s(os.getpid()) - before < 10
