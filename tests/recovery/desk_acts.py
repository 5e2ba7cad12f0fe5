"""What the children of the tests of operators and bulk jobs do: `python -m tests.recovery.desk_acts '{…}'`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.desk_world import FAILURE, World

import towpath
from towpath.core.logs import configure
from towpath.desk.actions import job_run as bulk_run
from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.job_store import BulkJob, JobState
from towpath.desk.cases.model import Case, CaseSelection, CaseState
from towpath.desk.groups.model import Archive
from towpath.runtime import Runtime
from towpath.settings import LoggingSettings
from towpath.testing.clock import wait_until
from towpath.testing.processes import leave_with_parent, order

SETTLE_S = 45.0
CASES, PORTION = 11, 3
BY: dict[str, Any] = {"who": "ada", "why": "mended"}
NEW = b'{"id":1,"city":"Bonn"}'


def main() -> None:
    leave_with_parent()
    configure(LoggingSettings(level="warning"))
    told = order()
    with towpath.connect(**told["sections"]) as runtime:
        if told["act"] == "carry out":
            carry_out(runtime)
        else:
            ACTS[told["act"]](World(runtime, log=False))


def small_portions() -> None:
    """So that a handful of cases passes a point more than once."""
    bulk_run.FILL = bulk_run.PORTION = PORTION


def carry_out(runtime: Runtime) -> None:
    """All jobs, until none is left."""
    small_portions()
    world = World(runtime, log=False)
    with world.hosted():
        wait_until(lambda: is_done(world), SETTLE_S, "no job is left")


def is_done(world: World) -> bool:
    jobs = world.desk.jobs.page()
    return all(job.ended_at is not None for job in jobs) and not any(
        each.is_live for each in world.runtime.actors.instances()
    )


# What a person does, to what `prepare` has made


def prepare(world: World) -> None:
    """One case for each act, always the same ones."""
    world.cases(CASES)
    world.case(state=CaseState.IGNORED)
    world.case(failure=FAILURE._replace(step="tax"))
    world.desk.operate.replay([_case(world, 2).id], delay_s=3600, **BY)
    world.desk.operate.replay([_case(world, 7).id], **BY)
    world.desk.jobs.plan(JobKind.REPLAY, CaseSelection(ids=(_case(world, 3).id,)), name="counted", **BY)
    world.desk.jobs.plan(JobKind.REPLAY, CaseSelection(ids=(_case(world, 4).id,)), name="begun", begin=True, **BY)
    paused = world.desk.jobs.plan(
        JobKind.REPLAY, CaseSelection(ids=(_case(world, 5).id,)), name="paused", begin=True, **BY
    )
    world.desk.jobs.pause(paused.id, **BY)


def _case(world: World, seq: int) -> Case:
    return world.desk.cases.find(str(seq))


def _job(world: World, name: str) -> BulkJob:
    return next(job for job in world.desk.jobs.page() if job.name == name)


def _edit(world: World) -> None:
    case = _case(world, 6)
    world.desk.edits.edit(case.id, NEW, seen=world.desk.cases.show(case.id).seen, **BY)


def _split(world: World) -> None:
    case = _case(world, 6)
    world.desk.groups.split(case.group_id, ids=[case.id], title="alone", **BY)


ACTS: dict[str, Callable[[World], object]] = {
    "replay": lambda world: world.desk.operate.replay([_case(world, 1).id], **BY),
    "replay later": lambda world: world.desk.operate.replay([_case(world, 1).id], delay_s=3600, **BY),
    "resend": lambda world: world.desk.operate.resend([_case(world, 1).id], **BY),
    "recall": lambda world: world.desk.operate.recall([_case(world, 2).id], **BY),
    "recall what is out": lambda world: world.desk.operate.recall([_case(world, 7).id], **BY),
    "abandon": lambda world: world.desk.operate.abandon([_case(world, 1).id, _case(world, 2).id], **BY),
    "open": lambda world: world.desk.operate.open([_case(world, CASES + 1).id], **BY),
    "assign": lambda world: world.desk.operate.assign([_case(world, 1).id], "bob", **BY),
    "note": lambda world: world.desk.operate.note(_case(world, 1).id, "asked", who="ada"),
    "edit": _edit,
    "archive a group": lambda world: world.desk.groups.archive(1, Archive(more=3), **BY),
    "merge groups": lambda world: world.desk.groups.merge(1, _case(world, CASES + 2).group_id, **BY),
    "split a group": _split,
    "begin a job": lambda world: world.desk.jobs.begin(_job(world, "counted").id, **BY),
    "plan a job": lambda world: world.desk.jobs.plan(JobKind.ABANDON, CaseSelection(), name="new", begin=True, **BY),
    "pause a job": lambda world: world.desk.jobs.pause(_job(world, "begun").id, **BY),
    "resume a job": lambda world: world.desk.jobs.resume(_job(world, "paused").id, **BY),
    "abort a job": lambda world: world.desk.jobs.abort(_job(world, "begun").id, **BY),
}

JOBS: dict[str, tuple[JobKind, dict[str, Any]]] = {
    "replay": (JobKind.REPLAY, {}),
    "replay later": (JobKind.REPLAY, {"delay_s": 3600.0}),
    "abandon": (JobKind.ABANDON, {}),
    "correct": (JobKind.CORRECT, {}),
}
ENDED = (JobState.FINISHED, JobState.ABORTED, JobState.FAILED)

if __name__ == "__main__":
    main()
