"""How groups of cases look: as rows, and one with why its cases are together.

How bulk jobs look: as rows, one whole, and its items.

Beginning a bulk job from the command line: the count first, then a question, then how far it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from towpath.cli.context import FAILED, UsageError, say
from towpath.cli.desk.case_views import counted
from towpath.cli.options import confirm
from towpath.cli.output import (
    Column,
    age,
    console,
    plain,
    print_fields,
    print_json,
    print_older,
    print_table,
    time_and_age,
)
from towpath.cli.progress import RecordProgress
from towpath.core.clock import to_datetime, to_micros
from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.job_store import BulkJob, ItemState, JobItem, JobState
from towpath.desk.actions.jobs import JobView
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.desk.groups.model import Group, GroupState
from towpath.desk.groups.service import GroupView
from towpath.desk.groups.store import Mark
from towpath.operations.cases import done_item, fingerprint_item, group_item, item_item, job_item

if TYPE_CHECKING:
    from towpath.runtime import Runtime


_COLUMNS = (
    Column("group", right=True, whole=True),
    Column("state", whole=True),
    Column("open", right=True, whole=True),
    Column("waiting", right=True, whole=True),
    Column("replaying", right=True, whole=True),
    Column("settled", right=True, whole=True, from_width=100),
    Column("flow"),
    Column("code", right=True, whole=True),
    Column("step"),
    Column("what happened"),
    Column("last", right=True, whole=True),
    Column("for", from_width=110),
)


def group_state(text: str) -> GroupState:
    try:
        return GroupState(text.lower())
    except ValueError:
        raise UsageError(f"{text!r} is no state of a group; those are: {', '.join(GroupState)}") from None


def cursor_of(group: Group) -> str:
    return f"{to_micros(group.last_at)}-{group.id}"


def read_cursor(text: str) -> Mark:
    at, _, number = text.partition("-")
    if not (at.isdecimal() and number.isdecimal()):
        raise UsageError(f"--before {text!r} is not a cursor that a list has printed")
    return to_datetime(int(at)), int(number)


def print_groups(groups: Sequence[Group], now: datetime, cursor: str | None) -> None:
    rows = [
        [
            group.id,
            group.state,
            f"{group.cases[CaseState.OPEN]:,}",
            f"{group.cases[CaseState.WAITING] + group.cases[CaseState.PARKED]:,}",
            f"{group.cases[CaseState.REPLAYING]:,}",
            f"{group.cases.total() - group.live:,}",
            group.flow,
            group.code,
            group.step,
            group.headline,
            age(group.last_at, now),
            group.assignee,
        ]
        for group in groups
    ]
    print_table(_COLUMNS, rows)
    if not rows:
        console().print("no group matches", style="dim")
    print_older(cursor)


def group_view_item(view: GroupView) -> dict[str, Any]:
    """For programs."""
    return {
        **group_item(view.group),
        "fingerprints": [fingerprint_item(each) for each in view.fingerprints],
        "history": [done_item(each) for each in view.history],
    }


def print_group(view: GroupView, now: datetime) -> None:
    group = view.group
    counts = ", ".join(f"{count:,} {state}" for state, count in sorted(group.cases.items()) if count)
    print_fields(
        [
            ("group", group.id),
            ("state", group.state),
            ("archived", None if group.archive is None else json.dumps(group.archive.to_json())),
            ("flow", group.flow),
            ("where", f"code {group.code} in {group.step}"),
            ("what", group.headline),
            ("cases", counts or "none"),
            ("first", time_and_age(group.first_at, now)),
            ("last", time_and_age(group.last_at, now)),
            ("for", group.assignee),
            ("merged into", group.merged_into),
        ]
    )
    typer.echo()
    console().print("why these are together", style="bold")
    for known in view.fingerprints:
        console().print(plain(f"{known.fingerprint} (algorithm {known.algorithm})"), soft_wrap=True)
        for name, value in known.made_of.items():
            console().print(plain(f"  {name}: {value}"), style="dim", soft_wrap=True)
    if view.history:
        typer.echo()
        rows = [[f"{each.at:%Y-%m-%d %H:%M:%S}", each.what, each.who, each.why] for each in view.history]
        print_table([Column("at (UTC)", whole=True), Column("what", whole=True), Column("who"), Column("why")], rows)


LOOK_S = 0.3
_ENDED = (JobState.FINISHED, JobState.ABORTED, JobState.FAILED)


def start_job(
    runtime: Runtime,
    kind: JobKind,
    selection: CaseSelection,
    who: str,
    why: str,
    *,
    yes: bool,
    as_json: bool,
    arguments: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    rate_s: float | None = None,
    name: str | None = None,
    wait: bool = False,
) -> None:
    """Count, ask, begin. What comes after the count is not part of the job."""
    jobs = runtime.desk.jobs
    found = jobs.count(kind, selection, arguments)
    if not yes and not dry_run:
        confirm(f"{kind} {counted(found.cases)}?", "nothing was done")
    job = jobs.plan(
        kind,
        selection,
        who=who,
        why=why,
        name=name,
        rate_s=rate_s or None,
        arguments=arguments,
        counted=found,
        begin=not dry_run,
    )
    if wait and not dry_run:
        job = follow(runtime, job)
    say_job(job, as_json)
    if wait and job.state is not JobState.FINISHED and not dry_run:
        raise typer.Exit(FAILED)


def follow(runtime: Runtime, job: BulkJob) -> BulkJob:
    """Until it has ended. Whoever leaves does not end it."""
    try:
        with RecordProgress("done", job.cases) as counting:
            while job.state not in _ENDED:
                counting.show(job.done + job.refused)
                time.sleep(LOOK_S)
                job = runtime.desk.jobs.show(job.id).job
    except KeyboardInterrupt:
        say(f"job {job.seq} goes on without you: towpath desk job show {job.seq}")
        raise
    return job


def say_job(job: BulkJob, as_json: bool) -> None:
    if as_json:
        print_json(job_item(job))
        return
    typer.echo(plain(f"job {job.seq}, {job.name!r}, is {job.state}: {job_words(job)}"))
    if job.state is JobState.COUNTED:
        typer.echo(f"nothing is done yet; begin it: towpath desk job begin {job.seq} --why …")
    elif job.state in (JobState.FILLING, JobState.RUNNING):
        typer.echo(f"towpath desk run carries it out; towpath desk job show {job.seq} says how far it is")


def job_words(job: BulkJob) -> str:
    """How far it is."""
    said = [f"{counted(job.cases)}"]
    if job.done or job.refused or job.begun_at is not None:
        said += [f"{job.done:,} done", f"{job.refused:,} refused", f"{job.left:,} left"]
    return ", ".join(said) + (f"; {job.reason}" if job.reason else "")


_COLUMNS_of_desk_job_view = (
    Column("job", right=True, whole=True),
    Column("state", whole=True),
    Column("kind", whole=True),
    Column("name"),
    Column("cases", right=True, whole=True),
    Column("done", right=True, whole=True),
    Column("refused", right=True, whole=True),
    Column("left", right=True, whole=True),
    Column("who"),
    Column("made", right=True, whole=True),
    Column("why", from_width=110),
)
_ITEMS = (
    Column("case", right=True, whole=True),
    Column("state", whole=True),
    Column("id", whole=True),
    Column("what was said"),
)

State = TypeVar("State", bound=StrEnum)


def _named(states: type[State], text: str, what: str) -> State:
    try:
        return states(text.lower())
    except ValueError:
        raise UsageError(f"{text!r} is no state of {what}; those are: {', '.join(states)}") from None


def job_state(text: str) -> JobState:
    return _named(JobState, text, "a job")


def item_state(text: str) -> ItemState:
    return _named(ItemState, text, "an item")


def print_jobs(jobs: Sequence[BulkJob], now: datetime, cursor: int | None) -> None:
    rows = [
        [
            job.seq,
            job.state,
            job.kind,
            job.name,
            f"{job.cases:,}",
            f"{job.done:,}",
            f"{job.refused:,}",
            f"{job.left:,}",
            job.who,
            age(job.made_at, now),
            job.why,
        ]
        for job in jobs
    ]
    print_table(_COLUMNS_of_desk_job_view, rows)
    print_older(cursor)


def job_view_item(view: JobView) -> dict[str, Any]:
    """For programs."""
    return {**job_item(view.job), "now": dict(view.now), "refused_first": [item_item(item) for item in view.refused]}


def print_job(view: JobView, now: datetime) -> None:
    job = view.job
    arguments = {name: value for name, value in job.arguments.items() if name not in ("last_seq", "counted")}
    print_fields(
        [
            ("job", f"{job.seq} ({job.id})"),
            ("name", job.name),
            ("state", job.state),
            ("what", f"{job.kind} {json.dumps(arguments)}" if arguments else job.kind),
            ("which", json.dumps(job.selection.to_json())[:500]),
            ("counted", f"{job.arguments.get('counted', job.cases):,}"),
            ("far", job_words(job)),
            ("at most", None if job.rate_s is None else f"{job.rate_s:g} cases a second"),
            ("who", f"{job.who}: {job.why}"),
            ("made", time_and_age(job.made_at, now)),
            ("begun", time_and_age(job.begun_at, now)),
            ("ended", time_and_age(job.ended_at, now)),
            ("cases now", ", ".join(f"{count:,} {state}" for state, count in sorted(view.now.items())) or None),
        ]
    )
    if view.refused:
        typer.echo()
        print_items(view.refused, None)


def print_items(items: Sequence[JobItem], cursor: int | None) -> None:
    print_table(_ITEMS, [[item.number, item.state, item.case_id, item.said] for item in items])
    if cursor is not None:
        console().print(f"more: the same command with --after {cursor}", style="dim")
