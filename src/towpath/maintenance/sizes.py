"""How large things are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from towpath.db import Database, Queries
from towpath.maintenance.cleaning import Size

MOST_COUNTED = 200_000


class Rows:
    """Counts the rows of tables, as far as that is quick."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.maintenance", "sizes", database.dialect)

    def of(self, *queries: str) -> Callable[[], Size]:
        return lambda: self._count(queries)

    def _count(self, queries: Iterable[str]) -> Size:
        with self._database.read() as tx:
            counts = [int(tx.rows(self._sql[name], {"most": MOST_COUNTED})[0][0]) for name in queries]
        return Size(sum(counts), "rows", is_more=MOST_COUNTED in counts)


def bytes_of(paths: Iterable[Path]) -> Size:
    """What lies in directories; what is deleted meanwhile counts nothing."""
    return Size(sum(map(_bytes, paths)), "bytes")


def _bytes(root: Path) -> int:
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue
    return total
