"""`towpath send` and `receive` for clients of a gateway, `towpath upload` for operators.

The key is no option of theirs: it would stand in the list of processes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import UsageError, open_runtime, say
from towpath.cli.options import (
    DEFAULT_ROWS,
    NEVER,
    AsJson,
    Before,
    Who,
    Why,
    YesOrY,
    confirm,
    parse_age_s,
    parse_state,
    spread,
)
from towpath.cli.output import counted, cut, print_done, print_json, size_text
from towpath.core.clock import to_datetime

if TYPE_CHECKING:
    from towpath.client import Client
    from towpath.client.protocol import Waiting
    from towpath.client.sender import Sent
    from towpath.client.state import ReceivedQuery, StateFile
    from towpath.client.upload import FileInput, StandardInput, UploadPlan, UploadResult


SERVER_VARIABLE = "TOWPATH_SERVER"
SHOWN_LINES = 10
MOST_UPLOADS = 999

app = typer.Typer(help="Look at uploads, and end or help those that are stuck.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="UPLOAD", show_default=False, help="The upload's id.")]


@dataclass(frozen=True)
class GatewayOptions:
    """Where the gateway is, who asks, and for how long; see `spread`."""

    server: Annotated[
        str | None,
        typer.Option(metavar="URL", envvar=SERVER_VARIABLE, help="The gateway, such as https://towpath.example.org."),
    ] = None
    key_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the API key; otherwise the variable TOWPATH_KEY has it."),
    ] = None
    give_up_after: Annotated[
        str, typer.Option(metavar="AGE", help="End when nothing has worked for so long, such as 90s, 15m or 12h.")
    ] = NEVER
    ca_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificates (PEM) by which the gateway is recognised.")
    ] = None
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Send the key to another machine without encryption.")
    ] = False

    def client(self, server: str | None = None, on_wait: Waiting | None = None) -> Client:
        """A client of the gateway; `server` is its address in an earlier run."""
        from towpath.client import Client
        from towpath.client.connection import find_key
        from towpath.client.protocol import say_nothing

        url = self.server or server
        if not url:
            raise UsageError(f"which gateway? Say --server URL, or set the variable {SERVER_VARIABLE}")
        limit = parse_age_s(self.give_up_after, "--give-up-after")
        return Client(
            url,
            find_key(self.key_file),
            ca_file=self.ca_file,
            plain_http=self.plain_http,
            give_up_after_s=None if limit == NEVER else float(limit),
            on_wait=on_wait or say_nothing,
        )


@spread
def send(
    ctx: typer.Context,
    stream: Annotated[str, typer.Argument(metavar="STREAM", show_default=False, help="What kind of upload it is.")],
    gateway: GatewayOptions,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            show_default=False,
            help="Files for the input that is called like the stream; `-`: standard input.",
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=FILE", help="A file for this input; may stand several times."),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", metavar="csv|jsonl", help="What the files are; else by their names.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="The columns of CSV files that have no header.")
    ] = None,
    label: Annotated[str, typer.Option(metavar="TEXT", help="What people see of this upload.")] = "",
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where it is kept how to go on; else beside the first file, as *.upload.json."
        ),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Begin a new upload, also where the state file has another one.")
    ] = False,
    gzip: Annotated[bool, typer.Option("--gzip", help="Pack what is sent.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send files to a gateway, and go on by itself after whatever breaks.

    The same command again goes on where an earlier one was stopped or killed, also after a restart of the machine. What
    was read from standard input is gone with the client that read it.
    """
    from towpath.client.state import StateFile
    from towpath.client.upload import FORMS, UploadPlan

    if form is not None and form not in FORMS:
        raise UsageError(f"--format {form}: there are {' and '.join(FORMS)}")
    wanted = _wanted(stream, files, inputs)
    named = None if columns is None else [each.strip() for each in columns.split(",")]
    standard_input: StandardInput | None = getattr(sys.stdin, "buffer", None)
    with UploadPlan(wanted, form, named, standard_input) as plan:
        path = state or _beside(wanted)
        file = None if path is None else StateFile(path)
        with file or nullcontext():
            done = _send(gateway, stream, plan, file, label=label, zip=gzip, new=new)
    _tell_sent(done, plan, stream, path, as_json)


@spread
def receive(
    ctx: typer.Context,
    gateway: GatewayOptions,
    upload: Annotated[
        str | None, typer.Argument(metavar="[UPLOAD]", show_default=False, help="The upload's id, as `send` told it.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The state file of `towpath send`, in place of the id.")
    ] = None,
    to: Annotated[Path, typer.Option(metavar="DIR", help="Where the files go, one for each query.")] = Path(),
    query: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this query; may stand several times. All of them if not given."),
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="jsonl|csv", help="What the files shall be.")] = "jsonl",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the results are complete.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the results of an upload to files, and tell the gateway that they are safe.

    The same command again goes on where an earlier one ended, was stopped or was killed: no row is lost, and none comes
    twice. The gateway keeps results until they are acknowledged, and forgets an upload when all of them are.
    """
    from towpath.client.upload import FORMS

    if form not in FORMS:
        raise UsageError(f"--format {form}: there are {' and '.join(FORMS)}")
    found, server = _which(upload, state)
    received = _receive(gateway, found, server, to, form, query or (), wait)
    _tell_received(found, to, form, received, as_json)


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
    from towpath.cli.gateway.views import print_uploads, upload_item
    from towpath.gateway.uploads.model import UploadState

    wanted = parse_state(UploadState, state, "an upload")
    with open_runtime(ctx) as runtime:
        found = runtime.gateway.list(owner=owner, stream=stream, state=wanted, before=before, limit=limit + 1)
        now = to_datetime(runtime.database.now())
    page, cursor = cut(found, limit)
    if as_json:
        print_json({"items": [upload_item(each) for each in page], "next": cursor})
    else:
        print_uploads(page, now, cursor)


@app.command()
def show(ctx: typer.Context, upload: Id, as_json: AsJson = False) -> None:
    """One upload: how far each sender is, and how far its results are acknowledged."""
    from towpath.cli.gateway.views import print_upload, status_item

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
    yes: YesOrY = False,
    as_json: AsJson = False,
) -> None:
    """End an upload: its client is told, nothing more is taken, its results are removed.

    Records that were taken stay where they are and stay accounted for.
    """
    from towpath.access.changes import AuditRequest
    from towpath.cli.gateway.views import upload_item

    with open_runtime(ctx) as runtime:
        found = runtime.gateway.status(upload, owner=None).upload
        if not yes:
            confirm(f"abort upload {found.id} of {found.owner} to {found.stream}?", "the upload goes on")
        with runtime.access.changes.recorded(AuditRequest(who, "terminal", "abort upload", upload)):
            ended = runtime.gateway.abort(upload, owner=None, who=who, why=why).upload
    print_done(upload_item(ended), f"upload {ended.id} is {ended.state}", as_json)


@app.command()
def retry(ctx: typer.Context, upload: Id, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let the closing steps of an upload be tried again, after what made them fail is mended."""
    from towpath.access.changes import AuditRequest
    from towpath.cli.gateway.views import upload_item

    with (
        open_runtime(ctx) as runtime,
        runtime.access.changes.recorded(AuditRequest(who, "terminal", "retry upload", upload)),
    ):
        found = runtime.outlet.retry(upload, who=who, why=why)
    text = f"upload {found.id} is {found.state}; its closing steps will be tried again"
    print_done(upload_item(found), text, as_json)


def _send(
    gateway: GatewayOptions, stream: str, plan: UploadPlan, file: StateFile | None, *, label: str, zip: bool, new: bool
) -> UploadResult:
    from towpath.cli.gateway.views import SendProgress
    from towpath.client.upload import UploadRun, Watcher

    with SendProgress() as progress:
        client = gateway.client(on_wait=progress.on_wait(stream))
        work = UploadRun(client, stream, plan.senders, plan.sources, state=file, label=label, zip=zip)
        try:
            return work.run(work.begin(is_new=new), Watcher(progress.on_sent, progress.on_wait))
        except KeyboardInterrupt:
            client.stop.set()
            lost = "; what was read from standard input is gone" if plan.has_standard_input else ""
            say(f"stopped{lost or '; the same command goes on'}")
            raise


def _wanted(stream: str, files: Sequence[str] | None, inputs: Sequence[str] | None) -> list[FileInput]:
    from towpath.client.upload import FileInput

    wanted = [FileInput(stream, file) for file in files or ()]
    for pair in inputs or ():
        name, sign, file = pair.partition("=")
        if not sign or not name or not file:
            raise UsageError(f"--input {pair!r} is not NAME=FILE")
        wanted.append(FileInput(name, file))
    if not wanted:
        raise UsageError("nothing to send: name a file, `-` for standard input, or --input NAME=FILE")
    return wanted


def _beside(wanted: Sequence[FileInput]) -> Path | None:
    """The state file beside the first file; None for standard input alone, which cannot be sent again."""
    from towpath.client.upload import STANDARD_INPUT

    first = next((each.file for each in wanted if each.file != STANDARD_INPUT), None)
    return None if first is None else Path(f"{first}.upload.json")


def _tell_sent(done: UploadResult, plan: UploadPlan, stream: str, path: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(_sent_item(done, plan, stream, path))
        return
    if done.was_sent_before:
        typer.echo(f"upload {done.upload} has all of it already; to send it once more: --new")
        return

    sent = sum(each.place.position for each in done.senders)
    lines = sum(_lines(each, plan) for each in done.senders)
    typer.echo(f"upload {done.upload}: {lines:,} lines, {size_text(sent)} sent to {stream}")
    for each in done.senders:
        if each.place.refused:
            count = f"{each.place.refused:,} lines are" if each.place.refused > 1 else "1 line is"
            say(f"{each.sender}: {count} not as the stream takes them, and wait on the desk: towpath desk list")
        if each.skipped:
            shown = ", ".join(f"{line:,}" for line in each.skipped[:SHOWN_LINES])
            more = f" and {len(each.skipped) - SHOWN_LINES:,} more" if len(each.skipped) > SHOWN_LINES else ""
            say(f"{each.sender}: longer than the gateway takes, and among those: line {shown}{more}")


def _lines(sent: Sent, plan: UploadPlan) -> int:
    """How many lines were sent. They are numbered as in the file, which may have a header."""
    first_line = next(each.new.first_line for each in plan.senders if each.new.sender == sent.sender)
    return max(0, sent.place.line - first_line + 1)


def _sent_item(done: UploadResult, plan: UploadPlan, stream: str, path: Path | None) -> dict[str, object]:
    senders = [
        {
            "sender": each.sender,
            "bytes": each.place.position,
            "lines": _lines(each, plan),
            "refused": each.place.refused,
            "skipped": list(each.skipped),
        }
        for each in done.senders
    ]
    return {
        "upload": done.upload,
        "stream": stream,
        "state": None if path is None else str(path),
        "was_sent_before": done.was_sent_before,
        "senders": senders,
    }


def _which(upload: str | None, state: Path | None) -> tuple[str, str | None]:
    """The upload's id, and the gateway that it was sent to if that is known."""
    from towpath.client.state import SendState, read_state

    if upload is not None and state is None:
        return upload, None
    if upload is not None or state is None:
        raise UsageError("which upload? Name its id, or say --state FILE with the state file of `towpath send`")
    found = read_state(state)
    if found is None:
        raise UsageError(f"{state} does not exist")
    sent = SendState.read(found)
    return sent.upload, sent.server


def _receive(
    gateway: GatewayOptions,
    upload: str,
    server: str | None,
    directory: Path,
    form: str,
    queries: Sequence[str],
    wait: bool,
) -> list[ReceivedQuery]:
    from towpath.cli.gateway.views import ReceiveProgress
    from towpath.client.receiver import STATE_FILE, ReceiveRun
    from towpath.client.state import StateFile

    with ReceiveProgress() as progress:
        client = gateway.client(server, on_wait=progress.on_wait)
        directory.mkdir(parents=True, exist_ok=True)
        with StateFile(directory / STATE_FILE) as file:
            try:
                work = ReceiveRun(client, upload, directory, form, file, progress.on_received)
                return work.run(queries, wait)
            except KeyboardInterrupt:
                say("stopped; the same command goes on")
                raise


def _tell_received(upload: str, directory: Path, form: str, received: Sequence[ReceivedQuery], as_json: bool) -> None:
    if as_json:
        print_json({"upload": upload, "results": [_received_item(each, directory, form) for each in received]})
        return
    for each in received:
        open_yet = "" if each.is_complete else "; more may come: the same command goes on, --wait waits for it"
        typer.echo(f"{directory / f'{each.query}.{form}'}: {counted(each.rows, 'row')}{open_yet}")


def _received_item(received: ReceivedQuery, directory: Path, form: str) -> dict[str, object]:
    return {
        "query": received.query,
        "file": str(directory / f"{received.query}.{form}"),
        "rows": received.rows,
        "bytes": received.bytes,
        "is_complete": received.is_complete,
    }
