"""`towpath status`: what has to run, and whether it does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import FAILED
from towpath.cli.given import open_runtime
from towpath.cli.options import AsJson
from towpath.cli.output import console, print_json
from towpath.cli.status_view import status_lines

if TYPE_CHECKING:
    from towpath.runtime import Runtime

WATCH_S = 0.5


def status(
    ctx: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit 1 unless all that is to run is ready.")] = False,
    as_json: AsJson = False,
) -> None:
    """What has to run, on which host, and the process that does it."""
    from towpath.supervision.duty_json import overview_item

    with open_runtime(ctx) as runtime:
        if watch:
            _watch(runtime)
        found = runtime.duties.overview()
        gone = runtime.duties.gone(found)
    if as_json:
        print_json(overview_item(found, gone))
    else:
        out = console()
        for line in status_lines(found, gone):
            out.print(line, soft_wrap=True)
    if check and not found.is_all_ready:
        raise typer.Exit(FAILED)


def _watch(runtime: Runtime) -> None:
    """On the terminal, in place; Ctrl-C ends it."""
    from rich.console import Group
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        while True:
            found = runtime.duties.overview()
            live.update(Group(*status_lines(found, runtime.duties.gone(found))), refresh=True)
            time.sleep(WATCH_S)
