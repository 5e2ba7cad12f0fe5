"""Following a table as it grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from towpath.cli.failures import say
from towpath.errors import DatabaseUnavailable
from towpath.runtime import Runtime

ROUND_S = 0.3
# On PostgreSQL numbers are given before the commit, so that a lower one can appear after a higher one.
LATE_COMMIT_S = 2.0


class Numbered(Protocol):
    """A row with a number that grows."""

    @property
    def seq(self) -> int:
        """Its number."""


Row = TypeVar("Row", bound=Numbered)


def follow(
    runtime: Runtime, read: Callable[[int], Iterable[Row]], start: int, bell: str | None = None
) -> Iterator[Row]:
    """Each row after `start` once, without end; waits while the database is away. A ring of `bell` ends a pause."""
    pause = _pause(runtime, bell)
    late_s = LATE_COMMIT_S if runtime.database.dialect == "postgres" else 0.0
    low = mark = start  # all up to `low` is settled; `mark` will be when enough time has passed
    marked_at = time.monotonic()
    seen: set[int] = set()
    patient = _Patience()
    while True:
        for row in patient.read(read, low):
            if row.seq not in seen:
                seen.add(row.seq)
                yield row
        if time.monotonic() - marked_at >= late_s:
            low, mark, marked_at = mark, max(seen, default=mark), time.monotonic()
            seen = {seq for seq in seen if seq > low}
        pause(ROUND_S)


class _Patience:
    """Says once that the database is away, and once that it is back."""

    def __init__(self) -> None:
        self._is_away = False

    def read(self, read: Callable[[int], Iterable[Row]], low: int) -> list[Row]:
        """All that comes after `low`, however many pages that takes."""
        rows: list[Row] = []
        try:
            while page := list(read(rows[-1].seq if rows else low)):
                rows += page
        except DatabaseUnavailable as error:
            if not self._is_away:
                say(f"waiting: {error}")
            self._is_away = True
            return []
        if self._is_away:
            say("the database is back")
            self._is_away = False
        return rows


def _pause(runtime: Runtime, name: str | None) -> Callable[[float], object]:
    if name is None:
        return time.sleep
    bell = runtime.database.bells.hang(name)

    def until_rung(seconds: float) -> None:
        bell.wait(seconds)
        bell.clear()

    return until_rung
