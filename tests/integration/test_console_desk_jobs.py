"""Bulk jobs and lanes in the console: counted first, begun with a reason and a rate, watched, stopped."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run, said
from tests.support.desk_world import FAILURE, FLOW, World
from tests.support.tables import rows

from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.job_store import JobState
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "ada", "why": "as agreed"}
OTHER = FAILURE._replace(step="tax", exception="ValueError", message="no tax")


@pytest.fixture
def runtime(desk_runtime: Runtime) -> Runtime:
    return desk_runtime


@pytest.fixture
def world(runtime: Runtime) -> World:
    return World(runtime)


@pytest.fixture
def operator(world: World, make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("operator")


@pytest.fixture
def viewer(world: World, make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("viewer")


def fields_of(page: str) -> dict[str, str]:
    """What a browser would send of the form for a bulk job, as it is filled in."""
    form = page.split('action="/desk/bulk"')[1].split("</form>")[0]
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
    return {name: unescape(value) for name, value in found if name != "token"}


# Bulk


def test_how_many_it_would_be_done_to_is_shown_first(operator: Visitor, world: World) -> None:
    world.cases(4)
    world.cases(2, state=CaseState.IGNORED)
    world.case(failure=OTHER)
    page = operator.text(f"/desk/bulk?kind=replay&flow={FLOW}&text=price")
    assert "Replay all 4 that match" in page
    assert "<strong>4</strong>" in page
    assert "Replay 4 cases" in page
    assert "Open all 2 that match" in operator.text("/desk/bulk?kind=open")
    assert "Abandon all 7 that match" in operator.text("/desk/bulk?kind=abandon")
    assert "no case" in operator.text("/desk/bulk?kind=open&text=tax")
    assert "Replay all 4 that match" in operator.text("/desk/bulk?kind=replay&state=on+the+desk&text=price")
    assert "no case" in operator.text("/desk/bulk?kind=replay&state=ignored")
    for kind in ("replay", "abandon", "assign", "correct", "open", "resend"):
        operator.text(f"/desk/bulk?kind={kind}")
    for wrong in ("kind=regroup", "kind=pray", "", "kind=replay&state=lost"):
        assert operator.get(f"/desk/bulk?{wrong}").status_code == 422
    assert operator.get("/desk/bulk?kind=replay&group=999").status_code == 404
    assert rows(world.database, "desk_job") == []


def test_it_is_done_to_what_was_counted_and_not_to_what_came_later(operator: Visitor, world: World) -> None:
    cases = world.cases(3)
    page = operator.text(f"/desk/bulk?kind=abandon&group={cases[0].group_id}")
    later = world.case()
    done = operator.done("/desk/bulk", **fields_of(page), name="clean up", rate_s="1000", why="known")
    assert re.fullmatch(r"job \d+ .*\b3 cases", said(done))
    with world.hosted():
        job = world.ended(world.desk.jobs.page(limit=1)[0])
    assert (job.name, job.who, job.why, job.rate_s, job.done) == ("clean up", "operator", "known", 1000, 3)
    assert {world.read(case).state for case in cases} == {CaseState.ABANDONED}
    assert world.read(later).state is CaseState.OPEN
    after = operator.text(f"/desk/jobs/{job.seq}")
    assert '<span class="big">3</span> done' in after
    assert 'value="3" max="3"' in after


def test_arguments_of_each_kind(operator: Visitor, world: World) -> None:
    (case, *_) = world.cases(2)
    for kind, more in (
        ("replay", {"delay": "10m"}),
        ("assign", {"assignee": "bea"}),
        ("assign", {"assignee": " "}),
        ("correct", {"rule": "7", "replays": "yes"}),
        ("correct", {}),
    ):
        page = operator.text(f"/desk/bulk?kind={kind}&group={case.group_id}")
        answer = operator.post("/desk/bulk", **fields_of(page), **more)
        assert answer.status_code == (404 if "rule" in more else 303)  # there is no such rule
    kept = [{**job.arguments} for job in world.desk.jobs.page()]
    for arguments in kept:
        assert arguments.pop("counted") == 2
        assert arguments.pop("last_seq") >= case.seq
    assert kept == [
        {"rule": None, "replays": False},
        {"assignee": None},
        {"assignee": "bea"},
        {"delay_s": 600.0},
    ]


def test_a_bulk_job_needs_a_reason_and_a_rate_that_can_be(operator: Visitor, world: World) -> None:
    world.case()
    fields = fields_of(operator.text("/desk/bulk?kind=abandon"))
    for more in ({"why": " "}, {"rate_s": "0"}, {"rate_s": "-1"}, {"rate_s": "x"}, {"name": "x" * 300}):
        operator.refused("/desk/bulk", 422, **fields, **more)
    operator.refused("/desk/bulk", 422, kind="regroup")
    assert rows(world.database, "desk_job") == []


# Jobs


def test_jobs_and_one_of_them(viewer: Visitor, world: World) -> None:
    world.cases(3)
    job = world.desk.jobs.plan(JobKind.ABANDON, CaseSelection(flow=FLOW), name="clean <b>up</b>", **BY)
    page = viewer.text("/desk/jobs")
    assert "clean &lt;b&gt;up&lt;/b&gt;" in page
    assert f'href="/desk/jobs/{job.seq}"' in page
    assert "clean" not in viewer.text("/desk/jobs?state=finished")
    assert viewer.get("/desk/jobs?state=lost").status_code == 422
    for name in (str(job.seq), job.id, job.id[:13]):
        shown = viewer.text(f"/desk/jobs/{name}").split("<main")[1]
        assert '<span class="big">3</span> cases' in shown
        assert 'method="post"' not in shown  # a viewer has no buttons
    assert viewer.get("/desk/jobs/999").status_code == 404
    assert viewer.get(f"/desk/jobs/{job.seq}?items=lost").status_code == 422


def test_a_job_is_begun_paused_resumed_and_aborted(operator: Visitor, viewer: Visitor, world: World) -> None:
    world.cases(3)
    job = world.desk.jobs.plan(JobKind.ABANDON, CaseSelection(flow=FLOW), **BY)
    path = f"/desk/jobs/{job.seq}"

    def buttons() -> list[str]:
        return re.findall(r'<summary aria-label="(\w+)…"', operator.text(path).split("<main")[1])

    def state() -> JobState:
        return world.desk.jobs.show(job.id).job.state

    assert buttons() == ["Begin", "Abort"]
    viewer.refused(f"{path}/begin", 403)
    operator.done(f"{path}/begin")
    assert (state(), buttons()) == (JobState.FILLING, ["Pause", "Abort"])
    operator.done(f"{path}/pause")
    assert (state(), buttons()) == (JobState.PAUSED, ["Resume", "Abort"])
    assert "operator: a test" in operator.text(path)
    operator.done(f"{path}/resume")
    viewer.refused(f"{path}/abort", 403)
    assert state() is JobState.FILLING
    operator.done(f"{path}/abort")
    assert (state(), buttons()) == (JobState.ABORTED, [])
    assert "aborted" in operator.refused(f"{path}/pause", 409)
    operator.refused("/desk/jobs/999/pause", 404)


def test_what_became_of_each_case(viewer: Visitor, world: World) -> None:
    cases = world.cases(60)
    gap = world.case(kind="gap")
    job = world.desk.jobs.plan(JobKind.REPLAY, CaseSelection(flow=FLOW), begin=True, **BY)
    with world.hosted():
        world.ended(job)
    page = viewer.text(f"/desk/jobs/{job.seq}")
    assert "replaying</span> 60" in page
    refused = viewer.text(f"/desk/jobs/{job.seq}?items=refused").split("<h2>Case by case")[1]
    assert f">{gap.seq}</a>" in refused
    assert f">{cases[0].seq}</a>" not in refused
    more = re.search(r'href="([^"]*after=\d+)" rel="next"', page)
    assert more is not None
    assert f">{gap.seq}</a>" in viewer.text(unescape(more[1])).split("<h2>Case by case")[1]


# Lanes


def test_lanes_say_what_waits_and_when_it_is_due(viewer: Visitor, operator: Visitor, world: World) -> None:
    viewer.text("/desk/lanes")
    cases = world.cases(3)
    operator.done("/desk/cases/replay", case=[case.id for case in cases], delay="1h")
    page = viewer.text("/desk/lanes")
    assert f"{FLOW} / 0" in page
    assert ">1h<" in page
    one = viewer.text(f"/desk/lanes/{FLOW}/0")
    assert [int(number) for number in re.findall(r'href="/desk/cases/(\d+)"', one)] == [case.seq for case in cases]
    assert 'name="case"' not in one
    world.database.shift_clock(3700)
    assert "overdue" in viewer.text("/desk/lanes")
    assert viewer.get(f"/desk/lanes/{FLOW}/17").status_code == 404
    assert viewer.get(f"/desk/lanes/{FLOW}/x").status_code == 422
    assert viewer.get(f"/desk/lanes/{FLOW}/0?after=x").status_code == 422


def test_pages_of_a_lane(viewer: Visitor, world: World) -> None:
    cases = world.cases(53)
    world.desk.operate.replay([case.id for case in cases], delay_s=600, **BY)
    first = viewer.text(f"/desk/lanes/{FLOW}/0")
    later = re.search(r'href="([^"]*after=[^"]+)" rel="next"', first)
    assert later is not None
    numbers = [re.findall(r'href="/desk/cases/(\d+)"', page) for page in (first, viewer.text(unescape(later[1])))]
    assert [int(number) for page in numbers for number in page] == [case.seq for case in cases]


def test_what_an_operator_does_about_a_lane(operator: Visitor, viewer: Visitor, world: World) -> None:
    cases = world.cases(4)
    world.desk.operate.replay([case.id for case in cases], delay_s=600, **BY)
    path = f"/desk/lanes/{FLOW}/0"
    for what in ("pause", "resume", "hurry", "empty"):
        viewer.refused(f"{path}/{what}", 403)
    operator.done(f"{path}/pause", why="the geocoder is down", back=path)
    assert world.runtime.lanes.show(FLOW, 0).lane.is_paused
    listed = viewer.text("/desk/lanes")
    assert "paused" in listed
    assert "by operator" in listed
    assert "the geocoder is down" in listed
    operator.done(f"{path}/resume", back=path)
    assert not world.runtime.lanes.show(FLOW, 0).lane.is_paused
    assert said(operator.done(f"{path}/hurry", back=path)).startswith("4 cases ")
    operator.done("/desk/cases/recall", case=cases[0].id, back=path)
    assert world.read(cases[0]).state is CaseState.OPEN
    assert said(operator.done(f"{path}/empty", back=path)).startswith("3 cases ")
    assert world.states() == {"open": 4}
    operator.refused(f"/desk/lanes/{FLOW}/17/empty", 404)
    operator.refused(f"{path}/pause", 422, why="")


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_is_said_stays_text(operator: Visitor, world: World, text: str) -> None:
    case = world.case(failure=FAILURE._replace(message=text, step=text))
    world.desk.operate.replay([case.id], delay_s=600, **BY)
    world.runtime.lanes.pause(FLOW, 0, who="ada", why=text)
    job = world.desk.jobs.plan(JobKind.ASSIGN, CaseSelection(text=text), name=text, arguments={"assignee": text}, **BY)
    job = world.desk.jobs.begin(job.id, **BY)
    world.desk.jobs.pause(job.id, who=text, why=text)
    for path in ("/desk/lanes", f"/desk/lanes/{FLOW}/0", "/desk/jobs", f"/desk/jobs/{job.seq}"):
        page = operator.text(path)
        assert not has_run(page)
        assert "{" not in text or text in page
