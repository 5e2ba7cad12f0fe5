"""How groups of cases and bulk jobs look, and how a bulk job is begun: the count first, then a question."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from towpath.cli.context import FAILED, UsageError, say
from towpath.cli.options import confirm
from towpath.cli.output import (
    Column,
    age,
    console,
    counted,
    plain,
    print_fields,
    print_json,
    print_more,
    print_older,
    print_table,
    time_and_age,
)
from towpath.cli.progress import RecordProgress
from towpath.core.clock import to_datetime, to_micros
from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.job_store import BulkJob, JobItem, JobState
from towpath.desk.actions.jobs import JobView
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.desk.groups.model import Group
from towpath.desk.groups.service import GroupView
from towpath.desk.groups.store import Mark
from towpath.operations.cases import item_item, job_item

if TYPE_CHECKING:
    from towpath.cli.desk.changes import ActionOptions
    from towpath.runtime import Runtime


LOOK_S = 0.3
_ENDED = (JobState.FINISHED, JobState.ABORTED, JobState.FAILED)

_GROUPS = (
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

_JOBS = (
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
    print_table(_GROUPS, rows)
    if not rows:
        console().print("no group matches", style="dim")
    print_older(cursor)


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


def start_job(
    runtime: Runtime,
    kind: JobKind,
    selection: CaseSelection,
    doing: ActionOptions,
    *,
    why: str,
    arguments: Mapping[str, Any] | None,
) -> None:
    """Count the cases, ask, and begin. Cases that match only after the count are not part of the job."""
    jobs = runtime.desk.jobs
    found = jobs.count(kind, selection, arguments)
    if not doing.yes and not doing.dry_run:
        confirm(f"{kind} {counted(found.cases, 'case')}?", "nothing was done")
    job = jobs.plan(
        kind,
        selection,
        who=doing.who,
        why=why,
        name=doing.name,
        rate_s=doing.rate or None,
        arguments=arguments,
        counted=found,
        begin=not doing.dry_run,
    )
    waits = doing.wait and not doing.dry_run
    if waits:
        job = follow(runtime, job)
    say_job(job, doing.as_json)
    if waits and job.state is not JobState.FINISHED:
        raise typer.Exit(FAILED)


def follow(runtime: Runtime, job: BulkJob) -> BulkJob:
    """Show the progress of a job until it has ended. Ctrl-C leaves the job running."""
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
    typer.echo(plain(f"job {job.seq}, {job.name!r}, is {job.state}: {_job_words(job)}"))
    if job.state is JobState.COUNTED:
        typer.echo(f"nothing is done yet; begin it: towpath desk job begin {job.seq} --why …")
    elif job.state in (JobState.FILLING, JobState.RUNNING):
        typer.echo(f"towpath desk run carries it out; towpath desk job show {job.seq} says how far it is")


def _job_words(job: BulkJob) -> str:
    """How far the job is."""
    said = [counted(job.cases, "case")]
    if job.done or job.refused or job.begun_at is not None:
        said += [f"{job.done:,} done", f"{job.refused:,} refused", f"{job.left:,} left"]
    return ", ".join(said) + (f"; {job.reason}" if job.reason else "")


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
    print_table(_JOBS, rows)
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
            ("far", _job_words(job)),
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
    print_more(cursor)
