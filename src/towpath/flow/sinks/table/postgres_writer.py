"""Exactly once into PostgreSQL: rows wait beside their tables, and the whole unit is moved in one transaction.

That transaction also looks whether a later writer has come, and writes the unit's mark. When the connection breaks
during its commit nobody knows whether it was done; the next attempt finds the mark, or does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.db.tables.model import PartMark, RowRefusal
from towpath.db.tables.postgres import PostgresTables
from towpath.errors import SinkError
from towpath.flow.delivery.ids import Digest
from towpath.flow.failures import ErrorCode, bounded
from towpath.flow.sinks.sink import Deliveries, Refusal, WriterContext
from towpath.flow.sinks.table.rows import chosen, refusal, sink_errors
from towpath.flow.sinks.table.writer import BaseTableWriter, refused_again, refused_ids, unit_of

if TYPE_CHECKING:
    from towpath.flow.sinks.table.sink import TableSink


WHOLE = 0  # the one part of a unit
# A row that is refused only when it is moved has to be found again. Of more than this the batch is tried once more
# instead, with the refusals that the mark has: the memory of a task does not grow with its unit.
KEPT_BYTES = 16 << 20


class TableStagedWriter(BaseTableWriter):
    """Copies what it is handed, and moves it at the end."""

    _tables: PostgresTables

    def __init__(self, sink: TableSink, tables: PostgresTables, place: WriterContext) -> None:
        super().__init__(sink, tables)
        self._launch = place.launch
        self._unit = unit_of(place)
        with sink_errors(sink.where):
            known = tables.begin_unit(self._unit, self._launch).get(WHOLE)
            self._stage = tables.stage(sink.shape)
        self._refused_before: Mapping[bytes, RowRefusal] = {} if known is None else known.refused
        self._count = 0
        self._digest = Digest()  # of what was handed over and not refused before
        self._refused: dict[bytes, RowRefusal] = {}  # in this attempt
        self._kept: deque[tuple[Deliveries, int]] = deque()
        self._kept_bytes = 0

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        places, refusals = self._offered(deliveries)
        self._count += len(places)
        self._digest.add_many(chosen(deliveries.delivery_ids, places))
        new: list[Refusal] = []
        with sink_errors(self._sink.where):
            for name, some in self._rows.by_table(deliveries, places, new):
                self._make(name)
                rows, kept = self._rows.rows(deliveries, some, new)
                new += [refusal(deliveries, kept[at], kind, text) for at, kind, text in self._stage.add(name, rows)]
        self._refused |= refused_ids(new)
        self._keep(deliveries)
        return [*refusals, *new]

    def finish(self) -> list[Refusal]:
        crash.here(CrashPoint.TABLE_STAGED)
        with sink_errors(self._sink.where):
            late = self._move()
        crash.here(CrashPoint.TABLE_AFTER_COMMIT)
        found = list(refused_again(late, ((deliveries, range(len(deliveries))) for deliveries, _ in self._kept)))
        if len(found) < len(late):
            text = f"refused {len(late)} rows of a large unit at its end; the batch is tried again to say which"
            raise SinkError(ErrorCode.SINK_FAILED, self._sink.where, text)
        return found

    def _move(self) -> dict[bytes, RowRefusal]:
        """All of it, or nothing where it is in already. Says what was refused and has not been told."""
        marks = self._tables.marks
        with self._stage.transaction() as tx:
            marks.check(tx, self._unit, self._launch)
            mark = marks.claim(tx, self._unit, WHOLE, self._launch)
            if mark is not None and self._is_in(mark):
                told = self._refused.keys() | self._refused_before.keys()
                return {id: why for id, why in mark.refused.items() if id not in told}
            late = {id: RowRefusal(kind, bounded(text)) for id, (kind, text) in self._stage.move(tx).items()}
            marks.put(tx, self._unit, WHOLE, self._launch, self._mark(late))
            crash.here(CrashPoint.TABLE_BEFORE_COMMIT)
        return late

    def _mark(self, late: Mapping[bytes, RowRefusal]) -> PartMark:
        refused = {**self._refused, **late}
        return PartMark(*self._taken(refused), {**self._refused_before, **refused})

    def _is_in(self, mark: PartMark) -> bool:
        """Whether the mark is of these very deliveries, with or without those that it refused."""
        new = mark.refused.keys() - self._refused_before.keys()
        return (mark.rows, mark.digest) in (self._taken(()), self._taken(new))

    def _taken(self, refused: Collection[bytes]) -> tuple[int, str]:
        """How many rows there are without these, and what their ids add up to."""
        digest = Digest()
        digest.merge(self._digest)
        for id in refused:
            digest.remove(id)
        return self._count - len(refused), digest.hex

    def _offered(self, deliveries: Deliveries) -> tuple[range | list[int], list[Refusal]]:
        """The places of those that are new to the table, and what it has refused before."""
        everything = range(len(deliveries))
        before = self._refused_before
        if not before:
            return everything, []
        refusals = list(refused_again(before, [(deliveries, everything)]))
        return [at for at in everything if deliveries.delivery_ids[at] not in before], refusals

    def _keep(self, deliveries: Deliveries) -> None:
        size = sum(map(len, deliveries.payloads))
        self._kept.append((deliveries, size))
        self._kept_bytes += size
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= self._kept.popleft()[1]
