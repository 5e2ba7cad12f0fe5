"""Beginning a bulk job from the command line: the count first, then a question, then how far it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from towpath.cli.asking import confirm
from towpath.cli.desk_view import counted
from towpath.cli.failures import FAILED, say
from towpath.cli.output import plain, print_json
from towpath.cli.topic_progress import Counting
from towpath.desk.desk_json import job_item
from towpath.desk.job import Job
from towpath.desk.job_state import JobKind, JobState
from towpath.desk.selection import Selection

if TYPE_CHECKING:
    from towpath.runtime import Runtime

LOOK_S = 0.3
_ENDED = (JobState.FINISHED, JobState.ABORTED, JobState.FAILED)


def start_job(
    runtime: Runtime,
    kind: JobKind,
    selection: Selection,
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


def follow(runtime: Runtime, job: Job) -> Job:
    """Until it has ended. Whoever leaves does not end it."""
    try:
        with Counting("done", job.cases) as counting:
            while job.state not in _ENDED:
                counting.show(job.done + job.refused)
                time.sleep(LOOK_S)
                job = runtime.desk.jobs.show(job.id).job
    except KeyboardInterrupt:
        say(f"job {job.seq} goes on without you: towpath desk job show {job.seq}")
        raise
    return job


def say_job(job: Job, as_json: bool) -> None:
    if as_json:
        print_json(job_item(job))
        return
    typer.echo(plain(f"job {job.seq}, {job.name!r}, is {job.state}: {job_words(job)}"))
    if job.state is JobState.COUNTED:
        typer.echo(f"nothing is done yet; begin it: towpath desk job begin {job.seq} --why …")
    elif job.state in (JobState.FILLING, JobState.RUNNING):
        typer.echo(f"towpath desk run carries it out; towpath desk job show {job.seq} says how far it is")


def job_words(job: Job) -> str:
    """How far it is."""
    said = [f"{counted(job.cases)}"]
    if job.done or job.refused or job.begun_at is not None:
        said += [f"{job.done:,} done", f"{job.refused:,} refused", f"{job.left:,} left"]
    return ", ".join(said) + (f"; {job.reason}" if job.reason else "")
