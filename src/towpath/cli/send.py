"""`towpath send`: files or standard input to a gateway."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError, say
from towpath.cli.gateway_options import GatewayOptions
from towpath.cli.option_groups import spread
from towpath.cli.options import AsJson
from towpath.cli.output import print_json

if TYPE_CHECKING:
    from towpath.client.planning import Plan, StandardInput, Wanted
    from towpath.client.sending import Sent
    from towpath.client.state_file import StateFile
    from towpath.client.uploading import Uploaded

SHOWN_LINES = 10


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
    from towpath.client.planning import FORMS, Plan
    from towpath.client.state_file import StateFile

    if form is not None and form not in FORMS:
        raise UsageError(f"--format {form}: there are {' and '.join(FORMS)}")
    wanted = _wanted(stream, files, inputs)
    named = None if columns is None else [each.strip() for each in columns.split(",")]
    with Plan(wanted, form, named, _standard_input()) as plan:
        path = state or _beside(wanted)
        file = None if path is None else StateFile(path)
        with file or nullcontext():
            done = _send(gateway, stream, plan, file, label=label, zip=gzip, new=new)
    _tell(done, plan, stream, path, as_json)


def _send(
    gateway: GatewayOptions, stream: str, plan: Plan, file: StateFile | None, *, label: str, zip: bool, new: bool
) -> Uploaded:
    from towpath.cli.send_progress import SendProgress
    from towpath.client.uploading import Uploading, Watcher

    with SendProgress() as progress:
        client = gateway.client(on_wait=progress.on_wait(stream))
        work = Uploading(client, stream, plan.senders, plan.sources, state=file, label=label, zip=zip)
        try:
            return work.run(work.begin(is_new=new), Watcher(progress.on_sent, progress.on_wait))
        except KeyboardInterrupt:
            client.stop.set()
            lost = "; what was read from standard input is gone" if plan.has_standard_input else ""
            say(f"stopped{lost or '; the same command goes on'}")
            raise


def _wanted(stream: str, files: Sequence[str] | None, inputs: Sequence[str] | None) -> list[Wanted]:
    from towpath.client.planning import Wanted

    wanted = [Wanted(stream, file) for file in files or ()]
    for pair in inputs or ():
        name, sign, file = pair.partition("=")
        if not sign or not name or not file:
            raise UsageError(f"--input {pair!r} is not NAME=FILE")
        wanted.append(Wanted(name, file))
    if not wanted:
        raise UsageError("nothing to send: name a file, `-` for standard input, or --input NAME=FILE")
    return wanted


def _standard_input() -> StandardInput | None:
    return getattr(sys.stdin, "buffer", None)


def _beside(wanted: Sequence[Wanted]) -> Path | None:
    """None for standard input alone: there is nothing to go on with."""
    from towpath.client.planning import STANDARD_INPUT

    first = next((each.file for each in wanted if each.file != STANDARD_INPUT), None)
    return None if first is None else Path(f"{first}.upload.json")


def _tell(done: Uploaded, plan: Plan, stream: str, path: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(_item(done, plan, stream, path))
        return
    if done.was_sent_before:
        typer.echo(f"upload {done.upload} has all of it already; to send it once more: --new")
        return
    from towpath.cli.output import size_text

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


def _lines(sent: Sent, plan: Plan) -> int:
    """How many; they are numbered as in the file, which may have a header."""
    first_line = next(each.new.first_line for each in plan.senders if each.new.sender == sent.sender)
    return max(0, sent.place.line - first_line + 1)


def _item(done: Uploaded, plan: Plan, stream: str, path: Path | None) -> dict[str, object]:
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
