"""The desk's write transactions on SQLite, which hold up every other writer: at the largest portions under 250 ms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.desk import NO_CITY, DeskFlow, intake_of, take_all
from tests.support.desk_world import FLOW, World
from tests.support.sent import sending_parts
from tests.support.taught import CITIES, city_rule, teach, without_city
from tests.support.taught import NO_CITY as WITHOUT_CITY
from tests.support.writes import MOST_S, Stopwatch

import towpath
from towpath.desk.actions import job_run as bulk_run
from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.job_run import BulkRun
from towpath.desk.actions.job_store import JobState
from towpath.desk.actions.service import MOST_AT_ONCE
from towpath.desk.background import open_case_janitor
from towpath.desk.cases.model import Case, CaseSelection, CaseState
from towpath.desk.corrections.learner import MOST_COUNTS, TopicCounter
from towpath.desk.corrections.model import Aspect, Count, Counts
from towpath.desk.intake.service import RECORDS_AT_ONCE
from towpath.desk.janitor import DeskUpkeep
from towpath.desk.replay.outbox import SMALL_PORTION
from towpath.desk.replay.relay import Relay
from towpath.desk.replay.replayer import Replayer
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.topics import FlowTopics
from towpath.log.record import Record
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ada", "why": "a test"}
BODY = json.dumps({"city": "Ulm", "note": "x" * 800}).encode()  # about as large as records are


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """With the default durability."""
    monkeypatch.chdir(tmp_path)
    with towpath.connect(f"sqlite:///{tmp_path}/towpath.db", log={"url": "embedded"}) as made:
        yield made


@pytest.fixture
def world(runtime: Runtime) -> World:
    return World(runtime)


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    return Stopwatch(monkeypatch)


def in_turns(world: World, stopwatch: Stopwatch, prepare: Callable[[], Any], act: Callable[[Any], Any]) -> float:
    """The longest write of an act, in the best of some rounds, each on something that is prepared for it."""

    def round_() -> None:
        given = prepare()
        stopwatch.longest_s = 0.0
        act(given)

    return stopwatch.best_of(round_)


def ids(cases: list[Case]) -> list[str]:
    return [case.id for case in cases]


@pytest.mark.parametrize("causes", [1, 50], ids=["one cause", "many causes"])
def test_taking_in_a_full_portion(runtime: Runtime, stopwatch: Stopwatch, causes: int) -> None:
    flow, intake, at = DeskFlow(runtime), intake_of(runtime), iter(range(1_000_000))

    def told() -> None:
        for number in range(causes):
            some = [next(at) for _ in range(RECORDS_AT_ONCE["sqlite"] // causes)]
            failure = NO_CITY._replace(step=f"s{number}", trace=f'  File "a.py", line {number}, in f\nValueError: x')
            flow.fail(*some, failure=failure, value=BODY, hash=f"b{some[0]}")

    def round_() -> None:
        told()
        stopwatch.longest_s = 0.0
        take_all(intake)

    assert 0 < stopwatch.best_of(round_) < MOST_S


def test_taking_in_what_has_failed_again_and_what_has_loaded(
    world: World, runtime: Runtime, stopwatch: Stopwatch
) -> None:
    flow = DeskFlow(runtime, "again")
    intake, rounds = intake_of(runtime), iter(range(100))

    def sent_back() -> list[Record]:
        number = next(rounds)
        flow.fail(*range(number * 1_000, number * 1_000 + 1_000), hash=f"b{number}")
        take_all(intake)
        cases = runtime.desk.cases.page(CaseSelection(flow="again", states=(CaseState.OPEN,)), limit=1_000).cases
        with runtime.database.transaction() as tx:
            world.parts.sends.replay(tx, cases, delay_s=None, frm=(CaseState.OPEN,), **BY)
        relay = Relay(sending_parts(runtime))
        while relay.run_once().done:
            pass
        relay.on_stop()
        return list(runtime.log.read(flow.topics.reentry, 0, number * 1_000, (number + 1) * 1_000))

    def fail_half(back: list[Record]) -> None:
        for record in back[:500]:
            flow.fail_again(record, hash=f"again{record.offset}")
        for record in back[500:]:
            flow.outcome(record)
        stopwatch.longest_s = 0.0
        take_all(intake)

    assert 0 < in_turns(world, stopwatch, sent_back, fail_half) < MOST_S


@pytest.mark.parametrize(
    "act",
    ["replay", "replay later", "resend", "abandon", "assign", "recall what waits", "recall what is out"],
)
def test_operators_at_the_largest_selection(world: World, stopwatch: Stopwatch, act: str) -> None:
    operate = world.desk.operate

    def prepare() -> list[str]:
        found = ids(world.cases(MOST_AT_ONCE, values=[BODY] * MOST_AT_ONCE))
        if act.startswith("recall"):
            operate.replay(found, delay_s=60 if act == "recall what waits" else None, **BY)
        return found

    acts: dict[str, Callable[[list[str]], Any]] = {
        "replay": lambda found: operate.replay(found, **BY),
        "replay later": lambda found: operate.replay(found, delay_s=60, **BY),
        "resend": lambda found: operate.resend(found, **BY),
        "abandon": lambda found: operate.abandon(found, **BY),
        "assign": lambda found: operate.assign(found, "bea", **BY),
        "recall what waits": lambda found: operate.recall(found, **BY),
        "recall what is out": lambda found: operate.recall(found, **BY),
    }

    def carry_out(found: list[str]) -> None:
        assert acts[act](found).refused == {}

    assert 0 < in_turns(world, stopwatch, prepare, carry_out) < MOST_S


def test_corrections_of_the_largest_selection_and_taking_them_back(world: World, stopwatch: Stopwatch) -> None:
    corrections = world.runtime.corrections
    rule = city_rule(teach(world.runtime))
    codes = list(CITIES)

    def prepare() -> list[str]:
        corrections.turn_on(rule.id, **BY) if corrections.rule(rule.id).state != "on" else None
        values = [without_city(at, codes[at % 4]) for at in range(MOST_AT_ONCE)]
        return ids(world.cases(MOST_AT_ONCE, failure=WITHOUT_CITY, values=values))

    def carry_out(found: list[str]) -> None:
        assert world.desk.operate.correct(found, replays=False, **BY).refused == {}
        assert len(corrections.revert(rule.id, **BY).taken_back) == MOST_AT_ONCE
        corrections.report(FLOW)  # judges them

    assert 0 < in_turns(world, stopwatch, prepare, carry_out) < MOST_S


@pytest.mark.parametrize("kind", [JobKind.REPLAY, JobKind.ABANDON, JobKind.CORRECT])
def test_bulk_jobs(world: World, stopwatch: Stopwatch, kind: JobKind) -> None:
    rule = city_rule(teach(world.runtime))
    world.runtime.corrections.turn_on(rule.id, **BY)
    count = 2 * bulk_run.PORTION

    def prepare() -> str:
        some = world.cases(count, failure=WITHOUT_CITY, values=[without_city(at) for at in range(count)])
        chosen = CaseSelection(ids=tuple(ids(some)))
        return world.desk.jobs.plan(kind, chosen, begin=True, **BY).id

    def carry_out(id: str) -> None:
        run = BulkRun(_parts(world), id)
        while run.fill() is JobState.FILLING:
            pass
        while run.work()[0] is JobState.RUNNING:
            pass
        assert world.desk.jobs.show(id).job.done == count

    assert 0 < in_turns(world, stopwatch, prepare, carry_out) < MOST_S


def _parts(world: World) -> Any:
    return world.desk.jobs._parts


def test_relay_and_replayer(world: World, runtime: Runtime, stopwatch: Stopwatch) -> None:
    parts = sending_parts(runtime)
    relay, replayer = Relay(parts), Replayer(parts)
    count = 2 * SMALL_PORTION

    def prepare() -> None:
        cases = world.cases(count, values=[BODY] * count)
        for begin in range(0, count, MOST_AT_ONCE):
            world.desk.operate.replay(ids(cases[begin : begin + MOST_AT_ONCE]), delay_s=60, **BY)

    def carry_out(_: None) -> None:
        while relay.run_once().done:
            pass
        runtime.database.shift_clock(61)
        while replayer.run_once().done:
            pass
        assert world.states()["replaying"] % count == 0

    try:
        assert 0 < in_turns(world, stopwatch, prepare, carry_out) < MOST_S
    finally:
        relay.on_stop()
        replayer.on_stop()


def test_deleting_what_is_past_its_time(world: World, runtime: Runtime, stopwatch: Stopwatch) -> None:
    janitor = open_case_janitor(runtime.settings, runtime.database, runtime.events, runtime.event_log)
    upkeep = DeskUpkeep(runtime.database, runtime.settings.desk, runtime.events)

    def prepare() -> None:
        teach(runtime)
        flow = DeskFlow(runtime, "old")
        flow.fail(*range(1_500), value=BODY, failure=NO_CITY._replace(trace="x"))
        take_all(intake_of(runtime))
        cases = world.cases(1_500, values=[BODY] * 1_500)
        for begin in range(0, 1_500, MOST_AT_ONCE):
            world.desk.operate.abandon(ids(cases[begin : begin + MOST_AT_ONCE]), **BY)
        runtime.database.shift_clock(400 * 86400)

    def carry_out(_: None) -> None:
        assert janitor.clean() >= 1_500
        assert upkeep.run_once().done > 0

    assert 0 < in_turns(world, stopwatch, prepare, carry_out) < MOST_S


def test_counts_of_a_range(runtime: Runtime, stopwatch: Stopwatch) -> None:
    errors = FlowTopics.of(FLOW).errors
    counter = TopicCounter(runtime.database, runtime.log, runtime.spark, FLOW, errors=errors)
    ranges = iter(range(100))

    def commit() -> None:
        counts = Counts(
            {Count("city", Aspect.DECIDED, "postcode", f'"{n:05}"', f'"town {n}"'): n + 1 for n in range(MOST_COUNTS)}
        )
        start = next(ranges) * 1_000
        counter.commit(counts, [OffsetRange("orders", "id", 0, start, start + 1_000)])

    assert 0 < stopwatch.best_of(commit) < MOST_S
