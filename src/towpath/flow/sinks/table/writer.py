"""Writes the rows of a unit to tables: with marks into SQLite (`TablePartWriter`), and without any (`TableWriter`).

A `TableWriter` is for flows that ask for less than exactly once.

A `TablePartWriter` cuts the deliveries of a unit into parts, each of which becomes one transaction together with its
mark. A transaction holds up all other writers of the file, so a whole unit would be too much for one. A part ends where
its deliveries have come to so many rows or bytes, counted from the unit's beginning, however they are handed over.
Where a part has a mark already, it ends where it ended when the mark was written: what was refused then may not be
among the deliveries this time, because it is not offered twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.db.tables.model import PartMark, RowRefusal, TableUnit
from towpath.db.tables.sqlite import SqliteTables, Write
from towpath.flow.delivery.ids import Digest
from towpath.flow.sinks.sink import Deliveries, Refusal, WriterContext
from towpath.flow.sinks.table.rows import Row, TableRows, refusal, sink_errors

if TYPE_CHECKING:
    from towpath.db.tables.model import Tables
    from towpath.flow.sinks.table.sink import TableSink

# On SQLite a transaction holds up all other writers: this much takes some tens of milliseconds.
PART_ROWS = 5_000
PART_BYTES = 4 << 20
PORTION_ROWS = 5_000


class BaseTableWriter:
    """What all writers of tables have: the sink, its tables, and the names of those that are known to exist."""

    def __init__(self, sink: TableSink, tables: Tables) -> None:
        self._sink = sink
        self._tables = tables
        self._rows = TableRows(sink)
        self._made: set[str] = set()

    def close(self) -> None:
        self._tables.close()

    def _make(self, name: str) -> None:
        if name not in self._made:
            self._tables.create(name, self._sink.shape)
            self._made.add(name)


class TablePartWriter(BaseTableWriter):
    """Keeps what it is handed until a part is complete."""

    _tables: SqliteTables

    def __init__(self, sink: TableSink, tables: SqliteTables, place: WriterContext) -> None:
        super().__init__(sink, tables)
        self._launch = place.launch
        self._unit = unit_of(place)
        with sink_errors(sink.where):
            self._known = tables.begin_unit(self._unit, self._launch)
        self._parts = TablePartSplitter(self._known)

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        with sink_errors(self._sink.where):
            return [refused for part in self._parts.cut(deliveries) for refused in self._put(part)]

    def finish(self) -> list[Refusal]:
        with sink_errors(self._sink.where):
            return [refused for part in self._parts.rest() for refused in self._put(part)]

    def _put(self, part: TablePart) -> list[Refusal]:
        known = self._known.get(part.number)
        if known is not None and part.is_in(known):
            return list(refused_again(known.refused, part.pieces))
        refusals: list[Refusal] = []
        made = self._by_table(part, refusals)
        for name in made:
            self._make(name)
        with self._tables.transaction() as (tx, write):
            self._tables.marks.check(tx, self._unit, self._launch)
            found = self._tables.marks.find(tx, self._unit, part.number)
            if found is not None and part.is_in(found):  # another attempt was faster
                return list(refused_again(found.refused, part.pieces))
            refusals += self._write(write, made)
            mark = part.mark(refused_ids(refusals))
            self._tables.marks.put(tx, self._unit, part.number, self._launch, mark)
            if not part.number:
                self._tables.marks.forget(tx, self._unit)
            crash.here(CrashPoint.TABLE_BEFORE_COMMIT)
        crash.here(CrashPoint.TABLE_AFTER_COMMIT)
        return refusals

    def _by_table(self, part: TablePart, refusals: list[Refusal]) -> dict[str, TableShare]:
        made: dict[str, TableShare] = {}
        for deliveries, places in part.pieces:
            for name, some in self._rows.by_table(deliveries, places, refusals):
                rows, kept = self._rows.rows(deliveries, some, refusals)
                made.setdefault(name, TableShare()).add(rows, deliveries, kept)
        return made

    def _write(self, write: Write, made: dict[str, TableShare]) -> list[Refusal]:
        return [
            refusal(*share.origin(refused.at), refused.kind, refused.text)
            for name, share in made.items()
            for refused in write(name, self._sink.shape, share.rows)
        ]


class TableShare:
    """The rows of a part that go to one table, and where they come from."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._starts: list[int] = []
        self._origins: list[tuple[Deliveries, Sequence[int]]] = []

    def add(self, rows: list[Row], deliveries: Deliveries, places: Sequence[int]) -> None:
        self._starts.append(len(self.rows))
        self._origins.append((deliveries, places))
        self.rows += rows

    def origin(self, row: int) -> tuple[Deliveries, int]:
        number = bisect_right(self._starts, row) - 1
        deliveries, places = self._origins[number]
        return deliveries, places[row - self._starts[number]]


class TablePartSplitter:
    """Cuts what comes into parts."""

    def __init__(self, known: Mapping[int, PartMark]) -> None:
        self._known = known
        self._part = TablePart(0)

    def cut(self, deliveries: Deliveries) -> Iterator[TablePart]:
        """The parts that are complete with these."""
        ends = list(accumulate(map(len, deliveries.payloads), initial=0))
        start = 0
        while start < len(deliveries):
            mark = self._known.get(self._part.number)
            stop = self._end(ends, start) if mark is None else self._marked_end(mark, deliveries, start)
            self._part.add(deliveries, range(start, stop), ends[stop] - ends[start])
            start = stop
            if start < len(deliveries) or (mark is None and self._part.count >= PART_ROWS):
                yield self._next()

    def rest(self) -> Iterator[TablePart]:
        """The last part. A unit without deliveries has one too."""
        if self._part.count or not self._part.number:
            yield self._next()

    def _next(self) -> TablePart:
        done, self._part = self._part, TablePart(self._part.number + 1)
        return done

    def _end(self, ends: Sequence[int], start: int) -> int:
        """Up to where deliveries belong to the present part; at least one does."""
        by_bytes = bisect_right(ends, ends[start] + PART_BYTES - self._part.size) - 1
        stop = min(by_bytes, start + PART_ROWS - self._part.count)
        return max(stop, start if self._part.count else start + 1)

    def _marked_end(self, mark: PartMark, deliveries: Deliveries, start: int) -> int:
        taken = sum(id not in mark.refused for id in self._part.ids())
        for at in range(start, len(deliveries)):
            if deliveries.delivery_ids[at] not in mark.refused:
                if taken == mark.rows:
                    return at
                taken += 1
        return len(deliveries)


@dataclass(slots=True)
class TablePart:
    """Some deliveries one after the other: whole chunks and ends of chunks."""

    number: int
    pieces: list[tuple[Deliveries, range]] = field(default_factory=list)
    count: int = 0
    size: int = 0

    def add(self, deliveries: Deliveries, places: range, size: int) -> None:
        if places:
            self.pieces.append((deliveries, places))
            self.count += len(places)
            self.size += size

    def ids(self) -> list[bytes]:
        found: list[bytes] = []
        for deliveries, places in self.pieces:
            found += deliveries.delivery_ids[places.start : places.stop]
        return found

    def is_in(self, mark: PartMark) -> bool:
        """Whether the mark is of these very deliveries, with or without those that it refused."""
        taken = [id for id in self.ids() if id not in mark.refused]
        return len(taken) == mark.rows and digest_of(taken) == mark.digest

    def mark(self, refused: Mapping[bytes, RowRefusal]) -> PartMark:
        taken = [id for id in self.ids() if id not in refused] if refused else self.ids()
        return PartMark(len(taken), digest_of(taken), refused)


class TableWriter(BaseTableWriter):
    """Writes portions as they come: each is a transaction of its own, and what is written twice is there once."""

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        refusals: list[Refusal] = []
        for name, places in self._rows.by_table(deliveries, range(len(deliveries)), refusals):
            with sink_errors(self._sink.where):
                self._write(name, deliveries, places, refusals)
        return refusals

    def finish(self) -> list[Refusal]:
        return []

    def _write(self, name: str, deliveries: Deliveries, places: Sequence[int], refusals: list[Refusal]) -> None:
        self._make(name)
        for some in _portions(deliveries.payloads, places):
            rows, kept = self._rows.rows(deliveries, some, refusals)
            found = self._tables.write(name, self._sink.shape, rows)
            crash.here(CrashPoint.TABLE_AFTER_COMMIT)
            for refused in found:
                refusals.append(refusal(deliveries, kept[refused.at], refused.kind, refused.text))


def _portions(payloads: Sequence[bytes], places: Sequence[int]) -> Iterator[Sequence[int]]:
    start = size = 0
    for number, at in enumerate(places):
        size += len(payloads[at])
        if number - start >= PORTION_ROWS or (size > PART_BYTES and number > start):
            yield places[start:number]
            start, size = number, len(payloads[at])
    if start < len(places):
        yield places[start:]


def unit_of(place: WriterContext) -> TableUnit:
    """The names of its marks. What was refused in an outage is offered again, so those marks do not count any more."""
    unit = f"{place.unit}#{place.outages}" if place.outages else place.unit
    return TableUnit(place.flow, place.stage, place.output, place.generation, place.batch_id, unit)


def digest_of(ids: Iterable[bytes]) -> str:
    digest = Digest()
    digest.add_many(ids)
    return digest.hex


def refused_ids(refusals: Iterable[Refusal]) -> dict[bytes, RowRefusal]:
    """As a mark keeps them."""
    return {each.deliveries.delivery_ids[each.at]: RowRefusal(each.exception, each.message) for each in refusals}


def refused_again(
    refused: Mapping[bytes, RowRefusal], pieces: Iterable[tuple[Deliveries, Sequence[int]]]
) -> Iterator[Refusal]:
    """What a mark says was refused, of deliveries that are offered again."""
    if refused:
        for deliveries, places in pieces:
            for at in places:
                if (why := refused.get(deliveries.delivery_ids[at])) is not None:
                    yield refusal(deliveries, at, *why)
