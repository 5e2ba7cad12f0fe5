"""`towpath receive`: the results of an upload, to files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError, say
from towpath.cli.gateway_options import GatewayOptions
from towpath.cli.option_groups import spread
from towpath.cli.options import AsJson
from towpath.cli.output import print_json

if TYPE_CHECKING:
    from towpath.client.receive_state import Received


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
    from towpath.client.planning import FORMS

    if form not in FORMS:
        raise UsageError(f"--format {form}: there are {' and '.join(FORMS)}")
    found, server = _which(upload, state)
    received = _receive(gateway, found, server, to, form, query or (), wait)
    _tell(found, to, form, received, as_json)


def _which(upload: str | None, state: Path | None) -> tuple[str, str | None]:
    """The upload, and the gateway that it was sent to if that is known."""
    from towpath.client.send_state import SendState
    from towpath.client.state_file import read_state

    if (upload is None) == (state is None):
        raise UsageError("which upload? Name its id, or say --state FILE with the state file of `towpath send`")
    if upload is not None:
        return upload, None
    assert state is not None  # noqa: S101 - for the type checker
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
) -> list[Received]:
    from towpath.cli.receive_progress import ReceiveProgress
    from towpath.client.receiving import STATE_FILE, Receiving
    from towpath.client.state_file import StateFile

    with ReceiveProgress() as progress:
        client = gateway.client(server, on_wait=progress.on_wait)
        directory.mkdir(parents=True, exist_ok=True)
        with StateFile(directory / STATE_FILE) as file:
            try:
                work = Receiving(client, upload, directory, form, file, progress.on_received)
                return work.run(queries, wait)
            except KeyboardInterrupt:
                say("stopped; the same command goes on")
                raise


def _tell(upload: str, directory: Path, form: str, received: Sequence[Received], as_json: bool) -> None:
    from towpath.cli.receive_progress import rows_text

    if as_json:
        print_json({"upload": upload, "results": [_item(each, directory, form) for each in received]})
        return
    for each in received:
        open_yet = "" if each.is_complete else "; more may come: the same command goes on, --wait waits for it"
        typer.echo(f"{directory / f'{each.query}.{form}'}: {rows_text(each.rows)}{open_yet}")


def _item(received: Received, directory: Path, form: str) -> dict[str, object]:
    return {
        "query": received.query,
        "file": str(directory / f"{received.query}.{form}"),
        "rows": received.rows,
        "bytes": received.bytes,
        "is_complete": received.is_complete,
    }
