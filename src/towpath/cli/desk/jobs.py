"""`towpath desk job`: bulk jobs, what is wanted of them and how far they are."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import UsageError, open_runtime
from towpath.cli.desk.options import desk_state
from towpath.cli.options import DEFAULT_ROWS, AsJson, Before, Limit, Who, Why
from towpath.cli.output import cut, print_json
from towpath.core.clock import to_datetime

if TYPE_CHECKING:
    from towpath.desk.actions.job_store import BulkJob
    from towpath.desk.actions.jobs import JobService


app = typer.Typer(help="Bulk jobs: one thing done to many cases.", no_args_is_help=True)

JobName = Annotated[
    str, typer.Argument(metavar="JOB", show_default=False, help="A job: its number, its id or the beginning of that.")
]


@app.command("list")
def list_(
    ctx: typer.Context,
    state: Annotated[str | None, typer.Option(metavar="STATE", help="Only in this state.")] = None,
    limit: Limit = DEFAULT_ROWS,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Bulk jobs, the newest first."""
    from towpath.cli.desk.group_views import print_jobs
    from towpath.desk.actions.job_store import JobState
    from towpath.operations.cases import job_item

    wanted = None if state is None else desk_state(JobState, state, "a job")
    with open_runtime(ctx) as runtime:
        found = runtime.desk.jobs.page(limit=limit + 1, before=before, state=wanted)
        now = to_datetime(runtime.database.now())
    page, cursor = cut(found, limit)
    if as_json:
        print_json({"items": [job_item(job) for job in page], "next": cursor})
    else:
        print_jobs(page, now, cursor)


@app.command()
def show(
    ctx: typer.Context,
    job: JobName,
    wait: Annotated[bool, typer.Option("--wait", help="Show how far it is, until it has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """One job: how far it is, where its cases are now, and what was refused."""
    from towpath.cli.desk.group_views import follow, job_view_item, print_job

    with open_runtime(ctx) as runtime:
        found = runtime.desk.jobs.find(job)
        if wait:
            follow(runtime, found)
        view = runtime.desk.jobs.show(found.id)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json(job_view_item(view))
    else:
        print_job(view, now)


@app.command()
def items(
    ctx: typer.Context,
    job: JobName,
    state: Annotated[str | None, typer.Option(metavar="STATE", help="Only waiting, done or refused.")] = None,
    limit: Limit = DEFAULT_ROWS,
    after: Annotated[int, typer.Option(min=0, metavar="N", help="Go on after the item of this number.")] = 0,
    as_json: AsJson = False,
) -> None:
    """What became of each case of a job, the oldest case first."""
    from towpath.cli.desk.group_views import print_items
    from towpath.desk.actions.job_store import ItemState
    from towpath.operations.cases import item_item

    wanted = None if state is None else desk_state(ItemState, state, "an item")
    with open_runtime(ctx) as runtime:
        jobs = runtime.desk.jobs
        found = jobs.items(jobs.find(job).id, limit=limit + 1, after=after, state=wanted)
    page, cursor = cut(found, limit, attrgetter("number"))
    if as_json:
        print_json({"items": [item_item(item) for item in page], "next": cursor})
    else:
        print_items(page, cursor)


@app.command()
def begin(ctx: typer.Context, job: JobName, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Begin a job that was counted."""
    _change(ctx, job, as_json, lambda jobs, id: jobs.begin(id, who=who, why=why))


@app.command()
def pause(ctx: typer.Context, job: JobName, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let a job rest after the portion that is under way."""
    _change(ctx, job, as_json, lambda jobs, id: jobs.pause(id, who=who, why=why))


@app.command()
def resume(ctx: typer.Context, job: JobName, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let a job go on that is paused or has failed."""
    _change(ctx, job, as_json, lambda jobs, id: jobs.resume(id, who=who, why=why))


@app.command()
def abort(ctx: typer.Context, job: JobName, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """End a job: what is done stays done, all other cases stay as they are."""
    _change(ctx, job, as_json, lambda jobs, id: jobs.abort(id, who=who, why=why))


def _change(ctx: typer.Context, name: str, as_json: bool, change: Callable[[JobService, str], BulkJob]) -> None:
    from towpath.cli.desk.group_views import say_job

    if not name.strip():
        raise UsageError("name a job")
    with open_runtime(ctx) as runtime:
        jobs = runtime.desk.jobs
        job = change(jobs, jobs.find(name).id)
    say_job(job, as_json)
