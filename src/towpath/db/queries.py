"""Named queries from `.sql` files.

A query starts with `-- name: claim_messages`; the comment under it says its purpose. `name.sql` holds what both
databases share, `name.sqlite.sql` and `name.postgres.sql` what only one of them understands. Parameters are written
`:limit`. `:now` is the database's own time: it is never given by the caller. `$fragment` stands for another query's
text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

Dialect = Literal["sqlite", "postgres"]

# As a subquery it is worked out once a statement; the bare call would be once a row.
POSTGRES_NOW = "(select towpath_now())"

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_FRAGMENT = re.compile(r"\$([a-z_]\w*)")


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
        text = _PARAMETER.sub(lambda m: POSTGRES_NOW if m[1] == "now" else f"%({m[1]})s", text)
    return Query(name, text, uses_now)
