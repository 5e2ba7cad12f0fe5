"""What the rest of Towpath asks of a database, and the named queries that it runs.

Two classes fit `Database`: `SqliteDatabase` and `PostgresDatabase`.

A query starts with `-- name: claim_messages`; the comment under it says its purpose. `name.sql` holds what both
databases share, `name.sqlite.sql` and `name.postgres.sql` what only one of them understands. Parameters are written
`:limit`. `:now` is the database's own time: it is never given by the caller. `$fragment` stands for another query's
text.

`storable` and `to_stored` make text and JSON that both databases accept: errors of users' code come with whatever
characters were in the record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, Protocol

from towpath.db.wakeups import Wakeups

Row = tuple[Any, ...]
Dialect = Literal["sqlite", "postgres"]

# As a subquery it is worked out once a statement; the bare call would be once a row.
_POSTGRES_NOW = "(select towpath_now())"

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_FRAGMENT = re.compile(r"\$([a-z_]\w*)")
_SUSPECT = ("\\u0000", "\\ud")  # NUL, and surrogates that may be unpaired


class Database(Protocol):
    """One database, used by any number of threads; each has its own connection."""

    dialect: Dialect
    url: str

    @property
    def wakeups(self) -> Wakeups:
        """Wake-ups between the processes that use this database."""

    @property
    def beats(self) -> Database:
        """Where process rows live: a file that never waits for a long write (SQLite), or this same database."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """A write transaction: commits at the end of the block, rolls back when it raises."""

    def single(self) -> AbstractContextManager[Transaction]:
        """For exactly one statement, which is its own transaction: saves the round trips of begin and commit."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A consistent view for reading only."""

    def glance(self) -> AbstractContextManager[Transaction]:
        """For exactly one reading statement: saves the round trips of begin and end."""

    def now(self) -> int:
        """The database's time in microseconds since 1970; the only time that leases, due times and ttl go by."""

    def shift_clock(self, seconds: float) -> None:
        """For tests: move the database's time, for every process that uses it."""

    def script(self, text: str) -> None:
        """Run several statements of a migration inside the transaction that is open."""

    def size_bytes(self) -> int:
        """How much room its tables take."""

    def vacuum(self) -> None:
        """Give back the room that deleted rows have left, and count anew what is there. On SQLite all others wait."""

    def close(self) -> None:
        """Close the connections of all threads."""


class Transaction(Protocol):
    """Work that commits as a whole. Stores are given a transaction and never open their own."""

    def rows(self, query: Query, params: dict[str, Any]) -> list[Row]:
        """Run a statement and return all its rows."""

    def run(self, query: Query, params: dict[str, Any]) -> int:
        """Run a statement and return how many rows it touched."""

    def insert_many(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert many rows the fastest way that the database has."""

    def part(self) -> AbstractContextManager[None]:
        """Work that is undone alone when it raises; the rest of the transaction can go on."""

    def writes_to(self, database: Database) -> bool:
        """Whether this is a write transaction of that very database."""

    def after_commit(self, action: Callable[[], None]) -> None:
        """Do this when, and only when, the transaction has committed."""


@dataclass(frozen=True, slots=True)
class Query:
    """One statement, in the way of writing of its database's driver."""

    name: str
    text: str
    uses_now: bool


class Queries:
    """The queries of one file, for one dialect."""

    def __init__(self, package: str, stem: str, dialect: Dialect, fragments: str | None = None) -> None:
        """`fragments` is another file of the package whose texts these may use."""
        self._queries = _read(package, stem, dialect, fragments)

    def __getitem__(self, name: str) -> Query:
        return self._queries[name]

    def names(self) -> list[str]:
        return sorted(self._queries)


def storable(text: str) -> str:
    """The text with NUL characters and unpaired surrogates spelled out: reasons hold whatever broke a handler."""
    return text.replace("\x00", "\\0").encode(errors="backslashreplace").decode()


def to_stored(value: Any) -> str:
    """The value as JSON text, with what PostgreSQL refuses in a text spelled out."""
    text = json.dumps(value, allow_nan=False)
    return json.dumps(_storable_json(value), allow_nan=False) if any(each in text for each in _SUSPECT) else text


@cache
def _read(package: str, stem: str, dialect: Dialect, fragments: str | None) -> Mapping[str, Query]:
    """Once a process: stores are made for a single question, too."""
    texts = _texts(package, stem, dialect)
    known = texts if fragments is None else _texts(package, fragments, dialect) | texts
    return {name: _compile(name, _filled(text, known), dialect) for name, text in texts.items()}


def _texts(package: str, stem: str, dialect: Dialect) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in (f"{stem}.sql", f"{stem}.{dialect}.sql"):
        source = resources.files(package) / file
        if source.is_file():
            found |= _split(source.read_text(encoding="utf-8"))
    return found


def _filled(text: str, known: dict[str, str]) -> str:
    """The text with its fragments, which may have fragments of their own."""
    return _FRAGMENT.sub(lambda found: _filled(known[found[1]], known), text)


def _split(source: str) -> dict[str, str]:
    parts = _NAME.split(source)
    return {
        name: _COMMENT.sub("", body).strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def _compile(name: str, text: str, dialect: Dialect) -> Query:
    uses_now = any(parameter[1] == "now" for parameter in _PARAMETER.finditer(text))
    if dialect == "postgres":
        text = _PARAMETER.sub(lambda m: _POSTGRES_NOW if m[1] == "now" else f"%({m[1]})s", text)
    return Query(name, text, uses_now)


def _storable_json(value: Any) -> Any:
    match value:
        case str():
            return storable(value)
        case Mapping():
            return {storable(str(name)): _storable_json(each) for name, each in value.items()}
        case list() | tuple():
            return [_storable_json(each) for each in value]
    return value
