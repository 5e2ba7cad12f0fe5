"""`towpath demo --queue`: see the queue work."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.demo_directory import demo_directory, own_name
from towpath.cli.failures import FAILED, say
from towpath.cli.output import Column, can_redraw, console, print_fields, print_json, print_table

if TYPE_CHECKING:
    from rich.progress import Progress

    from towpath.demo.ledger import Ledger

FEWEST = 100
MOST = 100_000
PLAIN_LINE_EVERY_S = 1.0
REQUESTS = Annotated[
    int, typer.Option(min=FEWEST, max=MOST, metavar="N", help="With --queue: how many requests to send.")
]


def play_queue(requests: int, keep: Path | None, as_json: bool) -> None:
    """Two workers answer requests, one is killed with SIGKILL at its work, and none is lost or answered twice."""
    from towpath.demo.scene import database_url
    from towpath.demo.stage import play

    with demo_directory(keep) as directory, _Show() as audience:
        ledger = play(directory, requests, audience)
    if as_json:
        print_json({**asdict(ledger), "is_as_promised": ledger.is_as_promised, "directory": str(directory)})
    else:
        _print(ledger)
        _print_next_steps(database_url(directory), directory)
    if not ledger.is_as_promised:
        raise typer.Exit(FAILED)


class _Show:
    """A progress bar on a terminal, a line now and then elsewhere; on standard error, beside the table."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._last_line_at = 0.0

    def __enter__(self) -> _Show:
        if can_redraw(sys.stderr):
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            terminal = Console(stderr=True, highlight=False)
            columns = (TextColumn("answered"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._progress = Progress(*columns, console=terminal, transient=True)
            self._task = self._progress.add_task("answered", total=None)
            self._progress.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def say(self, text: str) -> None:
        if self._progress is not None:
            self._progress.console.print(text)
        else:
            say(text)

    def count(self, answered: int, requests: int) -> None:
        if self._progress is not None:
            self._progress.update(self._task, completed=answered, total=requests)
        elif time.monotonic() - self._last_line_at >= PLAIN_LINE_EVERY_S:
            self._last_line_at = time.monotonic()
            say(f"{answered:,} of {requests:,} answered")


def _print(ledger: Ledger) -> None:
    typer.echo()
    columns = [
        Column("worker", whole=True),
        Column("answered", right=True),
        Column("worked on", right=True),
        Column("end"),
    ]
    print_table(
        columns,
        [
            [
                worker.name,
                f"{worker.answered:,}",
                f"{worker.worked_on:,}",
                "stopped in order"
                if worker.noticed_after_s is None
                else f"killed; noticed {worker.noticed_after_s:.1f} s after its last heartbeat",
            ]
            for worker in ledger.workers
        ],
    )
    typer.echo()
    twice = f"{ledger.worked_on_twice:,}: done by the dead worker, not finished in the queue"
    print_fields(
        [
            ("requests", ", ".join(f"{count:,} {state}" for state, count in ledger.states.items() if count)),
            ("answers per request", f"least {ledger.answers_min}, most {ledger.answers_max}"),
            ("right answers", f"{ledger.right_answers:,}"),
            ("claims freed", f"{ledger.claims_freed:,}"),
            ("worked on twice", twice),
        ]
    )
    promised = f"all {ledger.requests:,} requests were answered once"
    verdict, style = (f"✓ {promised}", "bold green") if ledger.is_as_promised else (f"✗ NOT {promised}", "bold red")
    typer.echo()
    console().print(verdict, style=style)


def _print_next_steps(url: str, directory: Path) -> None:
    typer.echo("\nLook into it:")
    for words in (
        "queue inboxes",
        "event list --kind process_died",
        "event list --kind claim_freed",
        "queue list --inbox numbers --limit 5",
    ):
        typer.echo(f"  {own_name()} --database {shlex.quote(url)} {words}")
    typer.echo(f"  rm -r {shlex.quote(str(directory))}")
