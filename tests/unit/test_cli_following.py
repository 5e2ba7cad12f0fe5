"""Following a table that grows: each row once, also those that are committed late, and through an outage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import pytest

from towpath.cli import interactive as following
from towpath.errors import DatabaseUnavailable
from towpath.runtime import Runtime


@dataclass(frozen=True)
class Row:
    seq: int


class Table:
    """Shows in each round what is committed by then; every read returns a short page."""

    def __init__(self, *rounds: list[int] | None) -> None:
        self._rounds = iter(rounds)
        self._rows: list[int] | None = []

    def next_round(self, _: float) -> None:
        self._rows = next(self._rounds)

    def after(self, seq: int) -> Iterator[Row]:
        if self._rows is None:
            raise DatabaseUnavailable("gone fishing")
        return map(Row, islice((n for n in sorted(self._rows) if n > seq), 2))


def follow(table: Table, dialect: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr("time.sleep", table.next_round)
    runtime: Any = SimpleNamespace(database=SimpleNamespace(dialect=dialect))
    seen: list[int] = []
    with suppress(RuntimeError):  # the table has no more rounds
        for row in following.follow(cast(Runtime, runtime), table.after, 0):
            seen.append(row.seq)
    return seen


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_each_row_once(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table([1], [1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7], [*range(1, 9)], [*range(1, 9)])
    assert follow(table, dialect, monkeypatch) == [*range(1, 9)]


def test_a_lower_number_that_is_committed_later_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow(Table([1, 4], [1, 2, 4], [1, 2, 3, 4, 5]), "postgres", monkeypatch) == [1, 4, 2, 3, 5]


def test_an_outage_is_told_once_and_nothing_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table([1], None, None, None, [1, 2], [1, 2, 3])
    assert follow(table, "sqlite", monkeypatch) == [1, 2, 3]
    waiting, _ = capsys.readouterr().err.splitlines()
    assert "gone fishing" in waiting
