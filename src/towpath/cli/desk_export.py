"""`towpath desk export`: cases with their bodies, as JSON lines or CSV."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.desk_options import Cases, Filter, Masked, found_cases, masks_of
from towpath.cli.failures import UsageError
from towpath.cli.given import open_runtime
from towpath.cli.option_groups import spread

app = typer.Typer()


@app.command()
@spread
def export(
    ctx: typer.Context,
    given: Filter,
    cases: Cases = None,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="`json` (a line each) or `csv`.")] = "json",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Into a file; else to standard output.")
    ] = None,
    masked: Masked = False,
) -> None:
    """Cases with what went into the flow, the newest first: those that are named, or all that match."""
    from towpath.desk.export import Export, Form
    from towpath.desk.selection import Selection

    if form not in list(Form):
        raise UsageError(f"--format {form!r} is not json or csv")
    if cases and given.is_given:
        raise UsageError("name cases, or say what they have in common; not both")
    with open_runtime(ctx) as runtime:
        desk = runtime.desk
        if cases:
            selection = Selection(ids=tuple(case.id for case in found_cases(desk, cases)))
        else:
            selection = given.selection(runtime.database.now() // 1000)
        lines = Export(desk.cases).lines(selection, Form(form), masks=masks_of(desk, masked))
        if output is None:
            for line in lines:
                sys.stdout.write(safe(line))
            return
        with output.open("w", encoding="utf-8", newline="") as file:
            file.writelines(lines)


def safe(line: str) -> str:
    """On a terminal nothing that could move its cursor; in a pipe as it is."""
    from towpath.cli.output import plain

    return f"{plain(line.rstrip(chr(10)))}\n" if sys.stdout.isatty() else line
