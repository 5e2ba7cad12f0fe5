"""Tables for the terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table


def table(title: str, headings: Sequence[str]) -> Table:
    """An empty table for a terminal."""
    made = Table(title=title, title_justify="left")
    for heading in headings:
        made.add_column(heading, overflow="fold")
    return made


def markdown(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a section with a table."""
    lines = [f"## {title}", "", _row(headings), _row(["---"] * len(headings))]
    return [*lines, *map(_row, rows), ""]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
