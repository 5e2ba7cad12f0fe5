"""Two texts side by side, line by line, with long stretches that are the same left out. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MOST_LINES = 2_000
AROUND = 3  # lines that are the same, shown before and after what differs
SAME, CHANGED, LEFT_OUT = "same", "changed", "left out"


class Row(NamedTuple):
    """A line on each side; none: there is none. Of lines that were left out, `left` says how many."""

    kind: str
    left_number: int | None
    left: str | None
    right_number: int | None
    right: str | None


def side_by_side(before: str, after: str) -> list[Row]:
    """The rows of a table with two columns; nothing differs: none."""
    old, new = before.splitlines()[:MOST_LINES], after.splitlines()[:MOST_LINES]
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    if all(kind == "equal" for kind, *_ in blocks):
        return []
    return [row for number, block in enumerate(blocks) for row in _rows(block, old, new, number, len(blocks))]


def _rows(
    block: tuple[str, int, int, int, int], old: Sequence[str], new: Sequence[str], number: int, blocks: int
) -> Iterator[Row]:
    kind, start, stop, new_start, new_stop = block
    if kind == "equal":
        yield from _same(old, start, stop, new_start, is_first=number == 0, is_last=number == blocks - 1)
        return
    for at in range(max(stop - start, new_stop - new_start)):
        left = start + at if start + at < stop else None
        right = new_start + at if new_start + at < new_stop else None
        yield Row(CHANGED, *_line(old, left), *_line(new, right))


def _same(old: Sequence[str], start: int, stop: int, new_start: int, *, is_first: bool, is_last: bool) -> Iterator[Row]:
    shown_first = 0 if is_first else AROUND
    shown_last = 0 if is_last else AROUND
    gap_start, gap_stop = start + shown_first, stop - shown_last
    if gap_stop - gap_start <= 1:  # a line that says that one is left out is no shorter
        gap_start = gap_stop = stop
    for at in range(start, stop):
        if at == gap_start and gap_start < gap_stop:
            yield Row(LEFT_OUT, None, str(gap_stop - gap_start), None, None)
        if not gap_start <= at < gap_stop:
            other = new_start + at - start
            yield Row(SAME, at + 1, old[at], other + 1, old[at])


def _line(lines: Sequence[str], at: int | None) -> tuple[int | None, str | None]:
    return (None, None) if at is None else (at + 1, lines[at])
