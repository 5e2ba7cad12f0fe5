"""Operators' changes and bulk jobs die by SIGKILL at every point: nothing is half done, nothing is done twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.recovery import desk_acts
from tests.recovery.desk_acts import ACTS, BY, CASES, JOBS
from tests.support.desk_world import World
from tests.support.leases import LONG_LEASE
from tests.support.tables import rows
from tests.support.taught import NO_CITY, city_rule, teach, without_city

import towpath
from towpath.core.crash import CrashPoint
from towpath.db import Database
from towpath.desk.actions.job_store import BulkJob, JobState
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.runtime import Runtime
from towpath.testing.processes import ChildProcess

ROOT = Path(__file__).parents[2]
MODULE = "tests.recovery.desk_acts"
FAST = {"process": LONG_LEASE, "queue": {"poll_s": 0.5, "caretaker_s": 0.1}}
# With eleven cases in portions of three: filled in four, worked off in four.
JOB = {
    CrashPoint.JOB_FILL_BEFORE_COMMIT: (1, 4),
    CrashPoint.JOB_FILL_AFTER_COMMIT: (1, 4),
    CrashPoint.JOB_WORK_BEFORE_COMMIT: (1, 2, 5),  # the first asks for the way only
    CrashPoint.JOB_WORK_AFTER_COMMIT: (1, 2, 5),
    CrashPoint.JOB_ENDED: (1,),
}
# Between the job's own commits and those of its actor.
ACTOR = {
    CrashPoint.INTAKE_AFTER_COMMIT: (1,),
    CrashPoint.ACTORS_CLAIM_AFTER_COMMIT: (1,),
    CrashPoint.TURN_BEGUN: (1, 2),
    CrashPoint.TURN_DONE: (1, 2),
    CrashPoint.TURN_BEFORE_COMMIT: (1, 2),
    CrashPoint.TURN_AFTER_COMMIT: (1, 2),
}
# One pass of each point of the job, and two of its actor, whose own tests have the others.
GATE = {
    "job_fill_before_commit:4",
    "job_fill_after_commit:1",
    "job_work_before_commit:2",
    "job_work_after_commit:5",
    "job_ended:1",
    "turn_done:2",
    "turn_after_commit:1",
}
WORK = (CrashPoint.JOB_WORK_BEFORE_COMMIT, CrashPoint.JOB_WORK_AFTER_COMMIT)
JOB_POINTS = frozenset(JOB)
# The gate has each change at one of the two points.
CHANGES_BY_HAND = [
    pytest.param(act, point, marks=() if (number + place) % 2 == 0 else pytest.mark.part("kills"))
    for number, act in enumerate(ACTS)
    for place, point in enumerate((CrashPoint.OPERATE_BEFORE_COMMIT, CrashPoint.OPERATE_AFTER_COMMIT))
]
TABLES = {
    "desk_case": ("id",),
    "desk_body": ("case_id",),
    "desk_tally": ("group_id", "state"),
    "desk_history": ("case_id", "group_id", "what"),
    "desk_outbox": ("seq",),
    "flow_recalled": ("correlation", "ticket"),
    "desk_lane": ("flow", "partition"),
    "desk_edit": ("case_id", "edit"),
    "desk_touched": ("case_id", "edit", "field"),
    "desk_group": ("id",),
    "desk_fingerprint": ("fingerprint",),
    "desk_job": ("seq",),
    "desk_job_item": ("job_id", "number"),
    "event": ("seq",),
    "actor_instance": ("instance",),
}
JSON = ("selection", "arguments", "data", "archive", "made_of", "beyond")
GROUPS = ("group_id", "merged_into")
TOLD = ("into", "from", "group")  # groups in what is told of a change
LEFT_OUT = ("seq", "run_id", "head_id", "last_id", "owner", "inbox", "restarts")


def everything(database: Database) -> dict[str, list[dict[str, Any]]]:
    """All tables of the desk whole, but for times and for numbers that nobody can foresee.

    Jobs and groups are known by their place among all: PostgreSQL leaves out the numbers of what was not committed.
    """
    jobs = {row["id"]: f"job {at}" for at, row in enumerate(sorted(rows(database, "desk_job"), key=_seq))}
    groups = {row["id"]: f"group {at}" for at, row in enumerate(sorted(rows(database, "desk_group"), key=_id))}
    return {
        table: [_plain(table, row, jobs, groups) for row in _ordered(database, table, by)]
        for table, by in TABLES.items()
    }


def _id(row: dict[str, Any]) -> int:
    return int(row["id"])


def _seq(row: dict[str, Any]) -> int:
    return int(row["seq"])


def _ordered(database: Database, table: str, by: tuple[str, ...]) -> list[dict[str, Any]]:
    found = rows(database, table)
    if table == "event":
        found = [row for row in found if row["kind"].startswith(("case_", "desk_"))]
    if table == "desk_tally":
        found = [row for row in found if row["cases"]]
    return sorted(found, key=lambda row: [f"{row[name]:>30}" if row[name] is not None else "" for name in by])


def _plain(table: str, row: dict[str, Any], jobs: dict[str, str], groups: dict[int, str]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if not name.endswith("_at") and name != "at"}
    kept = {
        name: value for name, value in kept.items() if name not in LEFT_OUT or (name, table) == ("seq", "desk_outbox")
    }
    for name in JSON:
        if isinstance(kept.get(name), str):
            kept[name] = _with_groups(json.loads(kept[name]), groups)
    if kept.get("kind") == "case_group_changed_by_hand":
        kept["subject"] = groups[int(kept["subject"])]
    kept = {name: groups[value] if name in GROUPS and value is not None else value for name, value in kept.items()}
    if table == "desk_group":
        kept["id"] = groups[kept["id"]]
    return {
        name: jobs.get(str(value), bytes(value) if isinstance(value, memoryview) else value)
        for name, value in kept.items()
    }


def _with_groups(data: Any, groups: dict[int, str]) -> Any:
    if not isinstance(data, dict):
        return data
    return {
        name: groups.get(value, value) if name in TOLD and isinstance(value, int) else value
        for name, value in data.items()
    }


@pytest.fixture
def sections(database_settings: dict[str, Any], desk_log: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    return {**FAST, "database": database_settings, "log": desk_log, "desk": {"directory": str(tmp_path / "desk")}}


@pytest.fixture
def oracle(tmp_path: Path) -> Iterator[World]:
    """The same on a database of its own, where nobody dies."""
    url = f"sqlite:///{tmp_path}/oracle.db"
    with towpath.connect(url, process=FAST["process"], desk={"directory": str(tmp_path / "desk")}) as runtime:
        yield World(runtime)


def child(sections: dict[str, Any], tmp_path: Path, act: str, crash_at: str | None = None) -> ChildProcess:
    return ChildProcess(MODULE, {"sections": sections, "act": act}, log=tmp_path / "log", crash_at=crash_at, cwd=ROOT)


@pytest.mark.parametrize(("act", "point"), CHANGES_BY_HAND)
def test_a_change_by_hand_is_made_whole_or_not_at_all(
    act: str,
    point: CrashPoint,
    desk_runtime: Runtime,
    oracle: World,
    sections: dict[str, Any],
    tmp_path: Path,
) -> None:
    """Without one transaction a case would be moved that nobody sends, or sent without a name to it."""
    world = World(desk_runtime)
    for each in (world, oracle):
        desk_acts.prepare(each)
    before = everything(world.database)
    assert before == everything(oracle.database)
    with child(sections, tmp_path, act, f"{point}:1") as dying:
        dying.wait_killed()
    if point is CrashPoint.OPERATE_BEFORE_COMMIT:
        assert everything(world.database) == before
        with child(sections, tmp_path, act) as again:
            again.wait_done()
    ACTS[act](oracle)
    assert everything(world.database) == everything(oracle.database) != before


def at(points: Mapping[CrashPoint, tuple[int, ...]]) -> list[str]:
    return [f"{point}:{passes}" for point, times in points.items() for passes in times]


@pytest.fixture
def kill_and_recover(
    desk_runtime: Runtime, oracle: World, sections: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], BulkJob]:
    def go(kind: str, crash_at: str) -> BulkJob:
        world = World(desk_runtime)
        for each in (world, oracle):
            begin(each, kind)
        with child(sections, tmp_path, "carry out", crash_at) as dying:
            dying.wait_killed()
        with child(sections, tmp_path, "carry out") as again:
            again.wait_done()
        monkeypatch.setattr("towpath.desk.actions.job_run.FILL", desk_acts.PORTION)
        monkeypatch.setattr("towpath.desk.actions.job_run.PORTION", desk_acts.PORTION)
        with oracle.hosted():
            oracle.ended(oracle.desk.jobs.page()[0])
        wait_for_rest(oracle)
        assert everything(world.database) == everything(oracle.database)
        return world.desk.jobs.page()[0]

    return go


def wait_for_rest(world: World) -> None:
    with world.hosted():
        from towpath.testing.clock import wait_until

        wait_until(lambda: desk_acts.is_done(world), timeout_s=30)


def begin(world: World, kind: str) -> None:
    """Eleven cases, one of which refuses."""
    rule = city_rule(teach(world.runtime))
    world.runtime.corrections.turn_on(rule.id, **BY)
    world.cases(CASES - 1, failure=NO_CITY, values=[without_city(number) for number in range(CASES - 1)])
    other = world.case(flow="gone")
    job, arguments = JOBS[kind]
    chosen = CaseSelection(states=(CaseState.OPEN,))
    world.desk.jobs.plan(job, chosen, arguments=arguments, name="all", begin=True, **BY)
    assert other.seq == CASES


@pytest.mark.parametrize(
    "crash_at",
    [pytest.param(each, marks=() if each in GATE else pytest.mark.part("kills")) for each in at(JOB) + at(ACTOR)],
)
def test_a_bulk_job_survives_kill_at(crash_at: str, kill_and_recover: Callable[[str, str], BulkJob]) -> None:
    """Kill during a replay: others lost what was not sent yet, or sent it twice (KurrentDB 2181)."""
    job = kill_and_recover("replay", crash_at)
    assert (job.state, job.cases, job.done, job.refused) == (JobState.FINISHED, CASES, CASES - 1, 1)


@pytest.mark.parametrize("kind", ["replay later", "abandon", "correct"])
@pytest.mark.parametrize("crash_at", at(dict.fromkeys(JOB, (1,)) | dict.fromkeys(WORK, (4,))))
@pytest.mark.part("kills")
def test_other_jobs_survive_kill_at(kind: str, crash_at: str, kill_and_recover: Callable[[str, str], BulkJob]) -> None:
    assert kill_and_recover(kind, crash_at).state is JobState.FINISHED
