"""What commands show: tables for people, JSON for programs.

A table is cut to the width of a terminal, and never when it goes into a pipe or a file. JSON holds payloads as they
are stored, so that no number changes on the way.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import typer

from towpath.core.exact_json import to_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


WITHOUT_LIMIT = 100_000
NARROWEST = 4
GAP = "  "

STYLES = {
    "NEW": "yellow",
    "ACK": "cyan",
    "OK": "green",
    "ERR": "bold red",
    "DEAD": "red",
    "alive": "green",
    "dead": "red",
    "gone": "red",
    "stopped": "dim",
    "applied": "green",
    "pending": "yellow",
    "ok": "green",
    "warning": "yellow",
    "missing": "bold red",
    "retry": "yellow",
    "held": "yellow",
    "paused": "cyan",
    "halted": "bold red",
    "ready": "yellow",
    "sleeping": "cyan",
    "waiting": "cyan",
    "ended": "green",
    "failed": "bold red",
}

Row = TypeVar("Row")

# Whatever could move the cursor or change colours when a terminal shows it.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def plain(text: str) -> str:
    """The text on one line, with control characters spelled out."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


# JSON
def pretty(value: Any) -> str:
    """JSON over several lines, safe to show."""
    return "\n".join(map(plain, to_json(value, indent="  ").split("\n")))


def print_json(value: Any) -> None:
    typer.echo(to_json(value))


def print_done(item: Any, text: str, as_json: bool) -> None:
    """What came of a change: a document for programs, a sentence for people."""
    typer.echo(to_json(item) if as_json else text)


# Tables
@dataclass(frozen=True)
class Column:
    """A column of a table. It is cut when there is too little room."""

    title: str
    whole: bool = False  # never cut
    right: bool = False  # aligned to the right
    from_width: int = 0  # left out on narrower terminals


def can_redraw(stream: TextIO) -> bool:
    """Whether lines can be redrawn: not in a pipe, and not on a dumb terminal."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def console() -> Console:
    from rich.console import Console

    # Rich would cut to the variable COLUMNS in a pipe too, and some programs leave that to all their children.
    width, height = get_terminal_size() if sys.stdout.isatty() else (WITHOUT_LIMIT, 25)
    return Console(width=width, height=height, highlight=False, markup=False, emoji=False)


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
    """A head and a line for each row, without frames, so that other programs can cut it up."""
    from rich.cells import cell_len

    out = console()
    shown = [i for i, column in enumerate(columns) if column.from_width <= out.width]
    columns = [columns[i] for i in shown]
    head = [column.title for column in columns]
    cells = [[plain("" if row[i] is None else str(row[i])) for i in shown] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(head, *cells, strict=True)]
    _narrow(widths, columns, out.width - len(GAP) * (len(columns) - 1))
    out.print(_line(head, columns, widths), style="bold")
    for row in cells:
        out.print(_line(row, columns, widths))


def styled(text: str) -> Text:
    """A cell, coloured when it is a state."""
    from rich.text import Text

    return Text(text, style=STYLES.get(text, ""))


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Names and values, one pair a line; pairs without a value are left out."""
    from rich.text import Text

    kept = [(name, plain(str(value))) for name, value in fields if value is not None]
    width = max(len(name) for name, _ in kept)
    for name, value in kept:
        console().print(Text.assemble((f"{name:<{width}}  ", "bold"), styled(value)), soft_wrap=True)


def print_part(title: str, text: str = "") -> None:
    """A heading, and what stands below it when that is text."""
    from rich.text import Text

    out = console()
    out.print(f"\n{title}", style="bold")
    if text:
        out.print(Text(text), soft_wrap=True)


def print_older(cursor: object | None) -> None:
    """How to see the next page of a list that goes back in time, if there is one."""
    if cursor is not None:
        console().print(f"older ones: the same command with --before {cursor}", style="dim")


def print_more(cursor: object | None) -> None:
    """How to see the next page of a list that goes forward, if there is one."""
    if cursor is not None:
        console().print(f"more: the same command with --after {cursor}", style="dim")


def cut(
    found: Sequence[Row], limit: int, cursor: Callable[[Row], Any] = attrgetter("seq")
) -> tuple[Sequence[Row], Any | None]:
    """The page, and its cursor if there are more rows: a command reads one row more than it shows."""
    page = found[:limit]
    return page, cursor(page[-1]) if len(found) > limit else None


# Numbers and sizes
def counted(count: int, noun: str) -> str:
    """`1 record`, `3,000 records`."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def size_text(count: float) -> str:
    unit = next(((size, name) for size, name in _SIZES if count >= size), None)
    return f"{count:.0f} B" if unit is None else f"{count / unit[0]:.1f} {unit[1]}"


# Times
def age(at: datetime, now: datetime) -> str:
    """How long ago, in its largest unit; a time to come has a plus sign."""
    passed = (now - at) / timedelta(seconds=1)
    size, unit = next((pair for pair in _UNITS if abs(passed) >= pair[0]), (1, "s"))
    return f"{'+' if passed <= -1 else ''}{int(abs(passed) // size)}{unit}"


def short_time(at: datetime, now: datetime) -> str:
    """The time of today, or the date and time of another day; UTC."""
    if at.date() == now.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%m-%d %H:%M}" if at.year == now.year else f"{at:%Y-%m-%d}"


def time_and_age(at: datetime | None, now: datetime) -> str | None:
    if at is None:
        return None
    distance = f"{age(at, now)} ago" if at <= now else f"in {age(at, now).removeprefix('+')}"
    return f"{at:%Y-%m-%d %H:%M:%S} UTC ({distance})"


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> Text:
    from rich.text import Text

    parts = []
    for text, column, width in zip(cells, columns, widths, strict=True):
        cell = styled(text)
        cell.truncate(width, overflow="ellipsis")
        cell.align("right" if column.right else "left", width)
        parts.append(cell)
    line = Text(GAP, no_wrap=True, overflow="ellipsis").join(parts)
    line.rstrip()
    return line


def _narrow(widths: list[int], columns: Sequence[Column], room: int) -> None:
    """Take from the widest column that may be cut, until all fit."""
    while sum(widths) > room:
        cuttable = [i for i, c in enumerate(columns) if not c.whole and widths[i] > max(NARROWEST, len(c.title))]
        if not cuttable:
            return
        widths[max(cuttable, key=lambda i: widths[i])] -= 1
