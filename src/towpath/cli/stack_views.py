"""How servers of the stack look: a start while it goes on, their logs, and the settings that lead to them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from towpath.cli.context import say
from towpath.cli.output import can_redraw, plain
from towpath.errors import BadSettings
from towpath.stack.model import ServerState
from towpath.stack.server import LogFollower, tail

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status as MovingLine

    from towpath.spark.artifacts import FetchProgress
    from towpath.stack.stack import Status


ROUND_S = 0.3
PLAIN_LINE_EVERY_S = 5.0
MEGABYTE = 1_000_000
FILE_NAME = "towpath.stack.toml"
NOTE = "# Written by `towpath stack up --write`, which writes it anew each time."


class StartDisplay:
    """Shows on standard error what is fetched and started; its line is gone at the end."""

    def __init__(self) -> None:
        self._console: Console | None = None
        self._line: MovingLine | None = None
        self._last_phase = ""
        self._last_line_at = 0.0

    def __enter__(self) -> StartDisplay:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._line is not None:
            self._line.stop()

    def fetching(self, progress: FetchProgress) -> None:
        if progress.is_waiting:
            self._tell(f"waiting for another process that is fetching {progress.name}", " …")
            return
        done, total = progress.bytes / MEGABYTE, progress.bytes_total / MEGABYTE
        files = f"{progress.files} of {progress.files_total} files, " if progress.files_total > 1 else ""
        self._tell(f"fetching {progress.name}", f": {files}{done:.0f} of {total:.0f} MB")

    def starting(self, names: Sequence[str], seconds: float) -> None:
        self._tell(f"starting {', '.join(names)}", f" … {seconds:.0f} s")

    def say(self, text: str) -> None:
        if self._line is not None and self._console is not None:
            self._console.print(text)
        else:
            say(text)

    def _tell(self, phase: str, detail: str) -> None:
        if can_redraw(sys.stderr):
            self._move(phase + detail)
        elif phase != self._last_phase or time.monotonic() - self._last_line_at >= PLAIN_LINE_EVERY_S:
            self._last_phase, self._last_line_at = phase, time.monotonic()
            say(phase + detail)

    def _move(self, text: str) -> None:
        if self._line is None and self._console is not None:
            self._line = self._console.status(text)
            self._line.start()
        elif self._line is not None:
            self._line.update(text)


def show_logs(files: Sequence[tuple[str, Path]], lines: int, follow: bool) -> None:
    """Print the last lines of each file; with `follow` also new ones."""
    followers = [(_label(name, path, files), LogFollower(path)) for name, path in files]
    for name, path in files:
        for line in tail(path, lines):
            _print(_label(name, path, files), line)
    while follow:
        for label, follower in followers:
            for line in follower.new_lines():
                _print(label, line)
        time.sleep(ROUND_S)


def check_settings_file(directory: Path) -> None:
    """Refuse to overwrite a file of someone else, before anything is started."""
    path = directory / FILE_NAME
    if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(NOTE):
        raise BadSettings(f"{path} was not written by this command; rename it, or leave --write away")


def write_settings_file(directory: Path, found: Sequence[Status]) -> None:
    """Write the settings of all servers that run."""
    check_settings_file(directory)
    running = [it for it in found if it.state is ServerState.RUNNING]
    (directory / FILE_NAME).write_text("\n".join([NOTE, "", *_lines(running), ""]), encoding="utf-8")


def print_settings(found: Sequence[Status], written_to: Path | None) -> None:
    """Print the settings, or how to use the file that has them."""
    if written_to is not None:
        typer.echo(f"\nThe settings are in {FILE_NAME}. To use them: towpath --config {FILE_NAME} …")
        typer.echo(f"or: export TOWPATH_CONFIG={FILE_NAME}")
        return
    typer.echo("\nTo use them, put this into towpath.toml:\n")
    typer.echo("\n".join(_lines(found)))


def _label(name: str, path: Path, files: Sequence[tuple[str, Path]]) -> str:
    """The file that a line comes from, when there are several."""
    if len(files) == 1:
        return ""
    process = "" if path.stem == "server" else f" {path.stem}"
    return f"{name}{process} | "


def _print(label: str, line: str) -> None:
    typer.echo(f"{label}{plain(line.expandtabs())}")


def _lines(found: Sequence[Status]) -> Iterator[str]:
    for it in found:
        if not it.settings:
            yield f"# {it.name}: {it.url}"
        for section, values in (it.settings or {}).items():
            yield f"[{section}]"
            # A JSON string is a TOML string too.
            yield from (f"{key} = {json.dumps(value)}" for key, value in values.items())
