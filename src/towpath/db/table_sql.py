"""The SQL that tables of both databases share. Their names and columns are the user's: every name is quoted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from towpath.errors import DatabaseError

Cells = Sequence[Any]  # of one row, in the order of the columns

MAX_NAME_BYTES = 63  # PostgreSQL cuts off what is beyond, without a word
DELIVERY_ID = "delivery_id"
VERSION = "version"
STAGE = "towpath_stage"  # tables for rows on their way have names that begin so
MARK = "towpath_mark"
LAUNCH = "towpath_launch"


class RefusedRow(NamedTuple):
    """A row that the database will not take, by its place among those that it was given."""

    at: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class TableShape:
    """Which columns a table has, and what a second row of the same key does."""

    columns: Mapping[str, str]  # name to type; all are written
    key: tuple[str, ...]  # unique
    is_upsert: bool  # the higher version stays; otherwise the first row does


def quoted(name: str) -> str:
    """A name as both databases take it, whatever is in it."""
    if "\x00" in name or not name:
        raise ValueError("a name has at least one character and no NUL")
    return '"' + name.replace('"', '""') + '"'


def is_table_name(name: str) -> bool:
    """Whether both databases can have a table of that name."""
    plain = name.strip() and "\x00" not in name
    is_taken = name.lower().startswith(("sqlite_", STAGE)) or name.lower() in (MARK, LAUNCH)
    return bool(plain) and not is_taken and len(name.encode()) <= MAX_NAME_BYTES


def create_table(table: str, shape: TableShape, types: Callable[[str], str], ending: str) -> str:
    columns = ", ".join(f"{quoted(name)} {types(kind)}" for name, kind in shape.columns.items())
    key = ", ".join(map(quoted, shape.key))
    return f"create table if not exists {quoted(table)} ({columns}, unique ({key})){ending}"


def on_conflict(table: str, shape: TableShape) -> str:
    key = ", ".join(map(quoted, shape.key))
    if not shape.is_upsert:
        return f"on conflict ({key}) do nothing"
    changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in shape.columns)
    # As `external_gte` of an index: the same version again is a repeat, and does no harm.
    return f"on conflict ({key}) do update set {changes} where excluded.{VERSION} >= {quoted(table)}.{VERSION}"


def write_apart(
    rows: Sequence[Cells],
    first: int,
    write: Callable[[Sequence[Cells]], None],
    refusal: Callable[[Exception], str | None],
) -> list[RefusedRow]:
    """Write all rows but those that cannot be, found by halves. `refusal` names an error that is a row's."""
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


def select_deliveries(table: str) -> str:
    return f"select {DELIVERY_ID}, {VERSION} from {quoted(table)}"  # noqa: S608 - quoted name


def check_columns(where: str, table: str, shape: TableShape, found: set[str]) -> None:
    missing = sorted(set(shape.columns) - found)
    if missing:
        raise DatabaseError(
            f"{where}: table {table!r} lacks the columns {', '.join(missing)}; add them, or name another table"
        )
