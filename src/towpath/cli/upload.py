"""`towpath upload`: what clients have sent, for operators. Clients themselves use `send` and `receive`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.asking import confirm
from towpath.cli.given import open_runtime
from towpath.cli.options import DEFAULT_ROWS, AsJson, Before, Who, Why
from towpath.cli.output import print_json

if TYPE_CHECKING:
    from towpath.boundary.state import UploadState

app = typer.Typer(help="Look at uploads, and end or help those that are stuck.", no_args_is_help=True)

MOST_UPLOADS = 999

Id = Annotated[str, typer.Argument(metavar="UPLOAD", show_default=False, help="The upload's id.")]


@app.command("list")
def list_(
    ctx: typer.Context,
    stream: Annotated[str | None, typer.Option(metavar="STREAM", help="Only those of this stream.")] = None,
    state: Annotated[str | None, typer.Option(metavar="STATE", help="Only those in this state.")] = None,
    owner: Annotated[str | None, typer.Option(metavar="USER", help="Only those that this user has opened.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_UPLOADS, metavar="N", help="How many to show.")] = DEFAULT_ROWS,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Uploads, the newest first."""
    from towpath.cli.upload_view import print_uploads, upload_item
    from towpath.clock import to_datetime

    wanted = None if state is None else named_state(state)
    with open_runtime(ctx) as runtime:
        found = runtime.gateway.list(owner=owner, stream=stream, state=wanted, before=before, limit=limit + 1)
        now = to_datetime(runtime.database.now())
    page = found[:limit]
    cursor = page[-1].seq if len(found) > limit else None
    if as_json:
        print_json({"items": [upload_item(each) for each in page], "next": cursor})
    else:
        print_uploads(page, now, cursor)


@app.command()
def show(ctx: typer.Context, upload: Id, as_json: AsJson = False) -> None:
    """One upload: how far each sender is, and how far its results are acknowledged."""
    from towpath.cli.upload_view import print_upload, status_item
    from towpath.clock import to_datetime

    with open_runtime(ctx) as runtime:
        status = runtime.gateway.status(upload, owner=None)
        results = runtime.outlet.queries(upload)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json(status_item(status, results))
    else:
        print_upload(status, results, now)


@app.command()
def abort(
    ctx: typer.Context,
    upload: Id,
    why: Why,
    who: Who = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """End an upload: its client is told, nothing more is taken, its results are removed.

    Records that were taken stay where they are and stay accounted for.
    """
    from towpath.access.audit_store import Asked
    from towpath.cli.upload_view import upload_item

    with open_runtime(ctx) as runtime:
        found = runtime.gateway.status(upload, owner=None).upload
        if not yes:
            confirm(f"abort upload {found.id} of {found.owner} to {found.stream}?", "the upload goes on")
        with runtime.access.changes.recorded(Asked(who, "terminal", "abort upload", upload)):
            ended = runtime.gateway.abort(upload, owner=None, who=who, why=why).upload
    if as_json:
        print_json(upload_item(ended))
    else:
        typer.echo(f"upload {ended.id} is {ended.state}")


@app.command()
def retry(ctx: typer.Context, upload: Id, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let the closing steps of an upload be tried again, after what made them fail is mended."""
    from towpath.access.audit_store import Asked
    from towpath.cli.upload_view import upload_item

    with (
        open_runtime(ctx) as runtime,
        runtime.access.changes.recorded(Asked(who, "terminal", "retry upload", upload)),
    ):
        found = runtime.outlet.retry(upload, who=who, why=why)
    if as_json:
        print_json(upload_item(found))
    else:
        typer.echo(f"upload {found.id} is {found.state}; its closing steps will be tried again")


def named_state(text: str) -> UploadState:
    """The option `--state`."""
    from towpath.boundary.state import UploadState
    from towpath.errors import BadValue

    try:
        return UploadState(text)
    except ValueError:
        raise BadValue(f"--state {text}: an upload is {', '.join(UploadState)}") from None
