"""The settings that lead to the servers: shown for pasting, or written to a file of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from towpath.errors import BadSettings
from towpath.stack.server_name import ServerState

if TYPE_CHECKING:
    from towpath.stack.stack import Status

FILE_NAME = "towpath.stack.toml"
NOTE = "# Written by `towpath stack up --write`, which writes it anew each time."


def check(directory: Path) -> None:
    """Refuse to write over a file that somebody else has made, before anything is started for it."""
    path = directory / FILE_NAME
    if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(NOTE):
        raise BadSettings(f"{path} was not written by this command; rename it, or leave --write away")


def write(directory: Path, found: Sequence[Status]) -> None:
    """Write the settings of all servers that run."""
    check(directory)
    running = [it for it in found if it.state is ServerState.RUNNING]
    (directory / FILE_NAME).write_text("\n".join([NOTE, "", *_lines(running), ""]), encoding="utf-8")


def tell(found: Sequence[Status], written_to: Path | None) -> None:
    """Show what to do next."""
    if written_to is not None:
        typer.echo(f"\nThe settings are in {FILE_NAME}. To use them: towpath --config {FILE_NAME} …")
        typer.echo(f"or: export TOWPATH_CONFIG={FILE_NAME}")
        return
    typer.echo("\nTo use them, put this into towpath.toml:\n")
    typer.echo("\n".join(_lines(found)))


def _lines(found: Sequence[Status]) -> Iterator[str]:
    for it in found:
        if not it.settings:
            yield f"# {it.name}: {it.url}"
        for section, values in (it.settings or {}).items():
            yield f"[{section}]"
            # A JSON string is a TOML string too.
            yield from (f"{key} = {json.dumps(value)}" for key, value in values.items())
