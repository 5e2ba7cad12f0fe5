"""What the user's tables have in common on both databases, and two tables of ours beside them.

Names and columns of a table are the user's: every name is quoted, every value is a parameter.

Our two tables are written in the same transaction as the rows. `towpath_mark` has a row for each part of a unit that is
in: a retry of the batch finds it and writes nothing. What the database refused of the part is kept in it, so that a
crash after the commit loses no refusal.

`towpath_launch` has a row for each output: the start of the stage, the generation and the batch that came last. A
writer that comes with less was replaced, or is a late task of a batch that is over, and is refused. That also lets
marks of older batches be deleted: the ledger has committed a batch before the next one begins, so nobody looks for them
any more.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from towpath.db.database import Database, Dialect, Queries, Transaction
from towpath.errors import DatabaseError, WriterReplaced

Cells = Sequence[Any]  # of one row, in the order of the columns

MAX_NAME_BYTES = 63  # PostgreSQL cuts off what is beyond, without a word
DELIVERY_ID = "delivery_id"
VERSION = "version"
STAGE = "towpath_stage"  # tables for rows on their way have names that begin so
MARK = "towpath_mark"
LAUNCH = "towpath_launch"
KEPT_BATCHES = 3  # of marks; one would do, the others are for people who look
NOT_YET = -1  # rows of a mark whose transaction is still open


class Tables(ABC):
    """The user's tables in one database. Used by one thread."""

    marks: TableMarks

    @abstractmethod
    def create(self, table: str, shape: TableShape) -> None:
        """Make the table when it is absent; `DatabaseError` when it is there without the columns that are needed."""

    @abstractmethod
    def write(self, table: str, shape: TableShape, rows: Sequence[Cells]) -> list[RefusedRow]:
        """Write these in one transaction, without those that the database refuses."""

    @abstractmethod
    def names(self) -> list[str]:
        """The tables that could hold deliveries: those with the columns for their ids and versions."""

    @abstractmethod
    def scan(self, table: str) -> Iterator[tuple[bytes, int]]:
        """Delivery id and version of every row, in no order; nothing when there is no such table."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""

    @abstractmethod
    def count(self, table: str) -> int:
        """How many rows the table has; 0 when there is none of that name."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """Which columns a table has, and what a second row of the same key does."""

    columns: Mapping[str, str]  # name to type; all are written
    key: tuple[str, ...]  # unique
    is_upsert: bool  # the higher version stays; otherwise the first row does


class RefusedRow(NamedTuple):
    """A row that the database refuses, by its index among the rows that it was given."""

    at: int
    kind: str
    text: str


class TableMarks:
    """The tables `towpath_mark` and `towpath_launch` in the database of a sink."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = _queries(database.dialect)

    def create_statements(self) -> dict[str, str]:
        """The statements that make both tables, by name."""
        return {name: self._sql[f"make_{name}"].text for name in (MARK, LAUNCH)}

    def of_unit(self, unit: TableUnit, launch: int) -> dict[int, PartMark]:
        """The marks of the parts of the unit that are in, by number; `WriterReplaced` when a later writer has begun."""
        if launch:
            with self._database.glance() as tx:
                self._check_last(self._last(tx, "last_writer", unit), unit, launch)
        with self._database.glance() as tx:
            return self._of_unit(tx, unit)

    def is_last(self, unit: TableUnit, launch: int) -> bool:
        """Whether older writers are kept out already, and there are no marks to forget."""
        with self._database.glance() as tx:
            if launch and self._last(tx, "last_writer", unit) != _place(unit, launch):
                return False
        with self._database.glance() as tx:
            return not tx.rows(self._sql["has_older_marks"], _older(unit))

    def come_last(self, tx: Transaction, unit: TableUnit, launch: int) -> None:
        """Keep older writers out from now on, and delete the marks that nobody looks for."""
        if launch:
            self._keep_out_older(tx, unit, launch)
        self.forget(tx, unit)

    def forget(self, tx: Transaction, unit: TableUnit) -> None:
        """Delete the marks of batches that are over."""
        tx.run(self._sql["forget_older_marks"], _older(unit))

    def check(self, tx: Transaction, unit: TableUnit, launch: int) -> None:
        """`WriterReplaced` when a later writer has begun; if not, none begins before this transaction has ended."""
        if not launch:
            return
        last = self._last(tx, "last_writer_held", unit)
        if last is None or last < _place(unit, launch):
            self._keep_out_older(tx, unit, launch)
        else:
            self._check_last(last, unit, launch)

    def find(self, tx: Transaction, unit: TableUnit, part: int) -> PartMark | None:
        found = self._of_unit(tx, unit).get(part)
        return None if found is None or found.rows == NOT_YET else found

    def claim(self, tx: Transaction, unit: TableUnit, part: int, launch: int) -> PartMark | None:
        """The mark of a part. When there is none, another writer of the part waits here until this transaction ends."""
        tx.run(self._sql["claim_mark"], _values(unit, part, launch, PartMark(NOT_YET, "")))
        return self.find(tx, unit, part)

    def put(self, tx: Transaction, unit: TableUnit, part: int, launch: int, mark: PartMark) -> None:
        tx.run(self._sql["put_mark"], _values(unit, part, launch, mark))

    def _keep_out_older(self, tx: Transaction, unit: TableUnit, launch: int) -> None:
        tx.run(self._sql["come_last"], {**unit._asdict(), "launch": launch})
        self._check_last(self._last(tx, "last_writer", unit), unit, launch)

    def _check_last(self, last: tuple[int, int, int] | None, unit: TableUnit, launch: int) -> None:
        if last is not None and last > _place(unit, launch):
            raise WriterReplaced(_why_replaced(unit, launch, last))

    def _last(self, tx: Transaction, query: str, unit: TableUnit) -> tuple[int, int, int] | None:
        for launch, generation, batch_id in tx.rows(self._sql[query], unit._asdict()):
            return launch, generation, batch_id
        return None

    def _of_unit(self, tx: Transaction, unit: TableUnit) -> dict[int, PartMark]:
        rows = tx.rows(self._sql["marks_of_unit"], unit._asdict())
        return {part: PartMark(count, digest, _refused(text)) for part, count, digest, text in rows}


class TableUnit(NamedTuple):
    """One task's share of a batch, for one output."""

    flow: str
    stage: str
    output: str
    generation: int
    batch_id: int
    unit: str


@dataclass(frozen=True, slots=True)
class PartMark:
    """A part that is in: how many rows, the digest of their delivery ids, and what was refused."""

    rows: int
    digest: str
    refused: Mapping[bytes, RowRefusal] = field(default_factory=dict)


class RowRefusal(NamedTuple):
    """Why a row was refused."""

    kind: str
    text: str


def is_table_name(name: str) -> bool:
    """Whether both databases can have a table of that name."""
    plain = name.strip() and "\x00" not in name
    is_taken = name.lower().startswith(("sqlite_", STAGE)) or name.lower() in (MARK, LAUNCH)
    return bool(plain) and not is_taken and len(name.encode()) <= MAX_NAME_BYTES


def quoted(name: str) -> str:
    """A name as both databases take it, whatever is in it."""
    if "\x00" in name or not name:
        raise ValueError("a name has at least one character and no NUL")
    return '"' + name.replace('"', '""') + '"'


def create_table(table: str, shape: TableShape, types: Callable[[str], str], ending: str) -> str:
    columns = ", ".join(f"{quoted(name)} {types(kind)}" for name, kind in shape.columns.items())
    key = ", ".join(map(quoted, shape.key))
    return f"create table if not exists {quoted(table)} ({columns}, unique ({key})){ending}"


def check_columns(where: str, table: str, shape: TableShape, found: set[str]) -> None:
    missing = sorted(set(shape.columns) - found)
    if missing:
        raise DatabaseError(
            f"{where}: table {table!r} lacks the columns {', '.join(missing)}; add them, or name another table"
        )


def on_conflict(table: str, shape: TableShape) -> str:
    key = ", ".join(map(quoted, shape.key))
    if not shape.is_upsert:
        return f"on conflict ({key}) do nothing"
    changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in shape.columns)
    # As `external_gte` of an index: the same version again is a repeat, and does no harm.
    return f"on conflict ({key}) do update set {changes} where excluded.{VERSION} >= {quoted(table)}.{VERSION}"


def select_deliveries(table: str) -> str:
    return f"select {DELIVERY_ID}, {VERSION} from {quoted(table)}"  # noqa: S608 - quoted name


def write_apart(
    rows: Sequence[Cells],
    first: int,
    write: Callable[[Sequence[Cells]], None],
    refusal: Callable[[Exception], str | None],
) -> list[RefusedRow]:
    """Write all rows but those that are refused, found by halves. `refusal` names an error that lies in a row."""
    if not rows:
        return []
    try:
        write(rows)
    except Exception as error:
        kind = refusal(error)
        if kind is None:
            raise
        if len(rows) == 1:
            return [RefusedRow(first, kind, str(error).strip())]
    else:
        return []
    half = len(rows) // 2
    return [*write_apart(rows[:half], first, write, refusal), *write_apart(rows[half:], first + half, write, refusal)]


@cache
def _queries(dialect: Dialect) -> Queries:
    """Read once: every task opens a writer."""
    return Queries("towpath.db.tables", "marks", dialect)


def _older(unit: TableUnit) -> dict[str, Any]:
    return {**unit._asdict(), "oldest": unit.batch_id - KEPT_BATCHES}


def _values(unit: TableUnit, part: int, launch: int, mark: PartMark) -> dict[str, Any]:
    refused = json.dumps([(id.hex(), *why) for id, why in mark.refused.items()])
    named = {"part": part, "launch": launch, "rows": mark.rows, "digest": mark.digest, "refused": refused}
    return {**unit._asdict(), **named}


def _refused(text: str) -> dict[bytes, RowRefusal]:
    return {bytes.fromhex(id): RowRefusal(kind, why) for id, kind, why in json.loads(text)}


def _place(unit: TableUnit, launch: int) -> tuple[int, int, int]:
    return launch, unit.generation, unit.batch_id


def _why_replaced(unit: TableUnit, launch: int, last: tuple[int, int, int]) -> str:
    who = f"{unit.flow}/{unit.stage}, output {unit.output}"
    if last[0] > launch:
        return (
            f"{who}: start {launch} of this stage was replaced by start {last[0]}, which has written here; this one "
            f"must not write any more. (If Towpath's own database was made anew, delete the row of {LAUNCH}.)"
        )
    return (
        f"{who}: batch {unit.batch_id} of generation {unit.generation} is over, batch {last[2]} of generation "
        f"{last[1]} has begun to write here; a late writer must not write any more"
    )
