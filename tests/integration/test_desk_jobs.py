"""Bulk jobs: named, counted, with a reason, a rate, pause, abort, an outcome for each item and a finish line."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.desk_world import FLOW, World
from tests.support.sweep import sweep
from tests.support.tables import rows
from tests.support.writes import MOST_S, ROUNDS, Stopwatch

import towpath
from towpath.core.events import EventKind
from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.job_run import FILL, NAME, PORTION, BulkRun
from towpath.desk.actions.job_store import ItemState, JobState
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.desk.janitor import BulkJanitor
from towpath.errors import BadName, BadValue, IllegalJobMove, UnknownJob
from towpath.runtime import Runtime
from towpath.settings import DeskSettings

BY: dict[str, Any] = {"who": "ada", "why": "mended"}
ALL = CaseSelection(flow=FLOW)


@pytest.fixture
def world(desk_runtime: Runtime) -> World:
    return World(desk_runtime)


def test_a_job_is_done_to_each_of_its_cases_once(world: World) -> None:
    cases = world.cases(2 * PORTION + 7)
    with world.hosted():
        job = world.desk.jobs.plan(JobKind.REPLAY, ALL, begin=True, **BY)
        ended = world.ended(job)
    assert (ended.state, ended.cases, ended.done, ended.refused, ended.left) == (
        JobState.FINISHED,
        len(cases),
        len(cases),
        0,
        0,
    )
    assert world.states() == {"replaying": len(cases)}
    outbox = rows(world.database, "desk_outbox")
    assert sorted(row["case_id"] for row in outbox) == sorted(case.id for case in cases)
    # The oldest first, as they came.
    by_seq = [row["case_id"] for row in sorted(outbox, key=lambda row: row["seq"])]
    assert by_seq[:PORTION] == [case.id for case in cases[:PORTION]]
    told = [row for row in rows(world.database, "event") if row["kind"] == EventKind.DESK_JOB_ENDED]
    assert len(told) == 1


def test_counted_first_begun_later_and_what_comes_meanwhile_is_not_part_of_it(world: World) -> None:
    """A replay that fired without warning sent 380 k events (KurrentDB 3844)."""
    world.cases(3)
    job = world.desk.jobs.plan(JobKind.ABANDON, ALL, name="useless", **BY)
    assert (job.state, job.cases) == (JobState.COUNTED, 3)
    world.cases(4)
    with world.hosted():
        world.desk.jobs.begin(job.id, who="bob", why="as agreed")
        ended = world.ended(job)
    assert (ended.cases, ended.done) == (3, 3)
    assert world.states() == {"abandoned": 3, "open": 4}


def test_what_was_counted_is_what_the_person_saw(world: World) -> None:
    world.cases(2)
    seen = world.desk.jobs.count(JobKind.REPLAY, ALL)
    world.cases(5)
    with world.hosted():
        job = world.desk.jobs.plan(JobKind.REPLAY, ALL, counted=seen, begin=True, **BY)
        assert world.ended(job).cases == 2


@pytest.mark.parametrize(
    ("kind", "arguments", "before", "after"),
    [
        (JobKind.REPLAY, {}, CaseState.OPEN, "replaying"),
        (JobKind.REPLAY, {"delay_s": 60.0}, CaseState.OPEN, "waiting"),
        (JobKind.RESEND, {}, CaseState.OPEN, "replaying"),
        (JobKind.ABANDON, {}, CaseState.OPEN, "abandoned"),
        (JobKind.OPEN, {}, CaseState.IGNORED, "open"),
        (JobKind.ASSIGN, {"assignee": "bob"}, CaseState.OPEN, "open"),
    ],
)
def test_every_kind_of_job(
    world: World, kind: JobKind, arguments: dict[str, Any], before: CaseState, after: str
) -> None:
    cases = world.cases(3, state=before)
    with world.hosted():
        job = world.desk.jobs.plan(kind, ALL, arguments=arguments, begin=True, **BY)
        assert world.ended(job).done == 3
    assert world.states() == {after: 3}
    assert {world.read(case).assignee for case in cases} == {arguments.get("assignee")}
    assert world.desk.jobs.show(job.id).now == {CaseState(after): 3}
    with world.database.read() as tx:
        last = world.parts.history.of_case(tx, cases[0].id)[-1]
    assert last.who == "ada"
    assert last.why == f"mended (job {job.seq}: {job.name})"


def test_each_item_says_what_became_of_it(world: World) -> None:
    """A resend that tells counts and not which (RocketMQ dashboard 3161)."""
    cases = world.cases(3)
    job = world.desk.jobs.plan(JobKind.REPLAY, CaseSelection(ids=tuple(case.id for case in cases)), **BY)
    world.desk.operate.abandon([cases[1].id], who="bob", why="faster")
    with world.hosted():
        world.desk.jobs.begin(job.id, **BY)
        ended = world.ended(job)
    # What was named but settled before the job came to it is not counted among its items any more.
    assert (ended.cases, ended.done, ended.refused) == (2, 2, 0)
    assert [item.case_id for item in world.desk.jobs.items(job.id, state=ItemState.DONE)] == [cases[0].id, cases[2].id]


def test_an_item_that_is_refused_says_why_and_the_others_go_on(world: World) -> None:
    cases = world.cases(3)
    job = world.desk.jobs.plan(JobKind.REPLAY, ALL, begin=True, **BY)
    run = BulkRun(world.parts, job.id)
    assert run.fill() is JobState.RUNNING
    world.desk.operate.abandon([cases[1].id], who="bob", why="faster")
    assert run.work()[0] is JobState.FINISHED
    view = world.desk.jobs.show(job.id)
    assert (view.job.done, view.job.refused) == (2, 1)
    (item,) = view.refused
    assert item.case_id == cases[1].id
    assert "abandoned" in (item.said or "")


def test_a_flow_that_is_gone_refuses_its_items_only(world: World) -> None:
    world.cases(2)
    gone = world.case(flow="gone")
    with world.hosted():
        job = world.desk.jobs.plan(JobKind.REPLAY, CaseSelection(), begin=True, **BY)
        ended = world.ended(job)
    assert (ended.done, ended.refused) == (2, 1)
    (item,) = world.desk.jobs.show(job.id).refused
    assert item.case_id == gone.id
    assert "gone" in (item.said or "")


def test_a_rate_is_kept(world: World) -> None:
    world.cases(12)
    begun = time.monotonic()
    with world.hosted():
        job = world.desk.jobs.plan(JobKind.REPLAY, ALL, rate_s=8.0, begin=True, **BY)
        assert world.ended(job).done == 12
    assert time.monotonic() - begun >= 1.0  # the first eight, then a second for them


def test_paused_resumed_aborted(world: World) -> None:
    world.cases(30)
    with world.hosted():
        job = world.desk.jobs.plan(JobKind.REPLAY, ALL, rate_s=5.0, begin=True, **BY)
        world.until(job, lambda now: now.done > 0)
        world.desk.jobs.pause(job.id, **BY)
        world.until(job, lambda now: now.state is JobState.PAUSED)
        resting = world.desk.jobs.show(job.id).job
        assert resting.left > 0
        assert "ada" in (resting.reason or "")
        world.desk.jobs.resume(job.id, **BY)
        world.until(job, lambda now: now.done > resting.done)
        world.desk.jobs.abort(job.id, who="bob", why="enough")
        after = world.desk.jobs.show(job.id).job
        wait_for_rest(world, job.id)
    assert after.state is JobState.ABORTED
    final = world.desk.jobs.show(job.id).job
    assert final.done == after.done
    assert final.left > 0
    assert world.states() == {"open": final.left, "replaying": final.done}


def wait_for_rest(world: World, job: str) -> None:
    from towpath.testing.clock import wait_until

    wait_until(lambda: not world.runtime.actors.instance(NAME, job).is_live, timeout_s=30)


def test_who_leaves_does_not_end_it(make_desk: Callable[..., Runtime]) -> None:
    """Closing a progress dialog cancelled the resend and lost all messages (CrossBusExplorer 64)."""
    person = make_desk()
    world = World(person)
    world.cases(PORTION + 3)
    job = world.desk.jobs.plan(JobKind.REPLAY, ALL, begin=True, **BY)
    person.close()
    later = World(make_desk(), log=False)
    with later.hosted():
        ended = later.ended(job)
    assert ended.done == PORTION + 3
    assert later.states() == {"replaying": PORTION + 3}


@pytest.mark.part("matrix")
def test_no_cap_drops_anything(world: World) -> None:
    """Lists of others end at 1,000 or 10,000 without a word (Axon, Hangfire)."""
    count = 10 * PORTION + 1
    for _ in range(10):
        world.cases(PORTION)
    world.case()
    seen = world.desk.jobs.count(JobKind.ABANDON, ALL)
    assert seen.cases == count
    with world.hosted():
        job = world.desk.jobs.plan(JobKind.ABANDON, ALL, counted=seen, begin=True, **BY)
        ended = world.ended(job)
    assert (ended.cases, ended.done, ended.left) == (count, count, 0)
    assert world.states() == {"abandoned": count}


def test_a_job_that_failed_is_resumed_where_it_was(world: World) -> None:
    world.cases(6)
    with world.hosted():
        job = world.desk.jobs.plan(JobKind.REPLAY, ALL, rate_s=2.0, begin=True, **BY)
        world.until(job, lambda now: now.done > 0)
        world.runtime.actors.abort(NAME, job.id, who="eve", why="by mistake")
        failed = world.until(job, lambda now: now.state is JobState.FAILED)
        assert "by mistake" in (failed.reason or "")
        assert failed.left > 0
        world.desk.jobs.resume(job.id, **BY)
        ended = world.until(job, lambda now: now.state is JobState.FINISHED)
    assert ended.done == 6
    assert len(rows(world.database, "desk_outbox")) == 6


# Where each act leads from which state; from every other one it is refused.
WHERE_TO: dict[str, dict[JobState, JobState]] = {
    "begin": {JobState.COUNTED: JobState.FILLING},
    "pause": {JobState.FILLING: JobState.PAUSED, JobState.RUNNING: JobState.PAUSED},
    "resume": {
        JobState.PAUSED: JobState.FILLING,
        JobState.FAILED: JobState.FILLING,
        # Nobody carries it out in this test: then it is taken up again.
        JobState.FILLING: JobState.FILLING,
        JobState.RUNNING: JobState.RUNNING,
    },
    "abort": {
        JobState.COUNTED: JobState.ABORTED,
        JobState.FILLING: JobState.ABORTED,
        JobState.RUNNING: JobState.ABORTED,
        JobState.PAUSED: JobState.ABORTED,
    },
}


@sweep("state", JobState)
@sweep("act", WHERE_TO)
def test_every_move_of_a_job(world: World, act: str, state: JobState) -> None:
    world.case()
    job = world.desk.jobs.plan(JobKind.REPLAY, ALL, **BY)
    put(world, job.id, state)
    wanted = WHERE_TO[act].get(state)
    if wanted is not None:
        assert getattr(world.desk.jobs, act)(job.id, **BY).state is wanted
    else:
        before = rows(world.database, "desk_job"), rows(world.database, "event")
        with pytest.raises(IllegalJobMove):
            getattr(world.desk.jobs, act)(job.id, **BY)
        assert (rows(world.database, "desk_job"), rows(world.database, "event")) == before


def put(world: World, id: str, state: JobState) -> None:
    ways = {
        JobState.COUNTED: (),
        JobState.FILLING: (JobState.FILLING,),
        JobState.RUNNING: (JobState.FILLING, JobState.RUNNING),
        JobState.PAUSED: (JobState.FILLING, JobState.PAUSED),
        JobState.FINISHED: (JobState.FILLING, JobState.RUNNING, JobState.FINISHED),
        JobState.ABORTED: (JobState.ABORTED,),
        JobState.FAILED: (JobState.FILLING, JobState.FAILED),
    }
    for step in ways[state]:
        with world.database.transaction() as tx:
            world.parts.jobs.move(tx, id, step)


def test_names_rates_and_ids_are_checked(world: World) -> None:
    for name in ("", " ", "x" * 201):
        with pytest.raises(BadName):
            world.desk.jobs.plan(JobKind.REPLAY, ALL, name=name, **BY)
    for rate in (0, -1, float("nan"), float("inf")):
        with pytest.raises(BadValue):
            world.desk.jobs.plan(JobKind.REPLAY, ALL, rate_s=rate, **BY)
    with pytest.raises(UnknownJob):
        world.desk.jobs.find("7")
    with pytest.raises(UnknownJob):
        world.desk.jobs.find("")
    job = world.desk.jobs.plan(JobKind.REPLAY, ALL, **BY)
    assert {world.desk.jobs.find(text).id for text in (str(job.seq), job.id, job.id[:13].upper())} == {job.id}


def test_jobs_that_ended_long_ago_are_deleted(desk_runtime: Runtime) -> None:
    world = World(desk_runtime)
    world.cases(3)
    with world.hosted():
        old = world.ended(world.desk.jobs.plan(JobKind.REPLAY, ALL, begin=True, **BY))
    kept = world.desk.jobs.plan(JobKind.REPLAY, ALL, **BY)
    janitor = BulkJanitor(world.database, DeskSettings(retention_s=60), desk_runtime.events)
    assert janitor.run_once().done == 0
    world.database.shift_clock(61)
    assert janitor.run_once().done == 3 + 1
    assert [job.id for job in world.desk.jobs.page()] == [kept.id]
    assert rows(world.database, "desk_job_item") == []
    assert old.state is JobState.FINISHED


@pytest.mark.part("matrix")
def test_a_portion_keeps_a_writer_waiting_for_less_than_250_ms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite there is one writer at a time. With the default durability, and the largest portions."""
    with towpath.connect(f"sqlite:///{tmp_path}/towpath.db") as runtime:
        world = World(runtime)
        for _ in range(ROUNDS * FILL // PORTION):
            world.cases(PORTION)
        job = world.desk.jobs.plan(JobKind.REPLAY, ALL, begin=True, **BY)
        run = BulkRun(world.parts, job.id)
        stopwatch = Stopwatch(monkeypatch)
        assert 0 < stopwatch.best_of(run.fill) < MOST_S
        while run.fill() is JobState.FILLING:
            pass
        run.work(1)  # asks for ways
        assert 0 < stopwatch.best_of(run.work) < MOST_S
        assert world.desk.jobs.show(job.id).job.done > PORTION
