"""The ledger of a flow in pages, over all its stages: the batch that began last first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from towpath.db import Database
from towpath.flow.ledger import Ledger
from towpath.flow.ledger_row import Batch
from towpath.flow.look import looks

Mark = tuple[int, int]  # generation and batch id: of a stage, those before it come next
NEWEST: Mark = (10**9 - 1, 10**18 - 1)  # before this one lie all of them


class BatchPage(NamedTuple):
    """Some batches, and where the next page begins in each stage, by name; None: there is none."""

    batches: list[Batch]
    next: tuple[Mark, ...] | None


def batch_page(
    database: Database, flow: str, *, stage: str | None = None, limit: int = 100, marks: Sequence[Mark] | None = None
) -> BatchPage | None:
    """Of all stages, or of one. Raises `UnknownFlow`; None when the marks are not those of its stages."""
    names = [look.stage.name for look in looks(database, flow, stage)]
    if marks is not None and len(marks) != len(names):
        return None
    begin = dict(zip(names, marks or [NEWEST] * len(names), strict=True))
    ledger = Ledger(database)
    with database.read() as tx:
        found = [each for name in names for each in ledger.batches(tx, flow, name, limit + 1, begin[name])]
    # Within a stage, batches begin in the order of their numbers.
    found.sort(key=lambda each: (each.started_at, each.stage, each.generation, each.batch_id), reverse=True)
    part = found[:limit]
    for each in part:
        begin[each.stage] = each.generation, each.batch_id
    return BatchPage(part, tuple(begin.values()) if len(found) > limit else None)
