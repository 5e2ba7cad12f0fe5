"""Showing the logs of servers, and following them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import typer

from towpath.cli.output import plain
from towpath.stack.log_file import Follower, tail

ROUND_S = 0.3


def show(files: Sequence[tuple[str, Path]], lines: int, follow: bool) -> None:
    """The last lines of each file; with `follow` also those that come."""
    followers = [(_label(name, path, files), Follower(path)) for name, path in files]
    for name, path in files:
        for line in tail(path, lines):
            _print(_label(name, path, files), line)
    while follow:
        for label, follower in followers:
            for line in follower.new_lines():
                _print(label, line)
        time.sleep(ROUND_S)


def _label(name: str, path: Path, files: Sequence[tuple[str, Path]]) -> str:
    """Where a line comes from, when there is more than one place."""
    if len(files) == 1:
        return ""
    process = "" if path.stem == "server" else f" {path.stem}"
    return f"{name}{process} | "


def _print(label: str, line: str) -> None:
    typer.echo(f"{label}{plain(line.expandtabs())}")
