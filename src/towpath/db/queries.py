"""Named queries from `.sql` files.

A query starts with `-- name: claim_messages`; the comment under it says its purpose. `name.sql` holds what both
databases share, `name.sqlite.sql` and `name.postgres.sql` what only one of them understands. Parameters are written
`:limit`. `:now` is the database's own time: it is never given by the caller. `$fragment` stands for another query's
text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
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

    def __init__(self, package: str, stem: str, dialect: Dialect) -> None:
        texts: dict[str, str] = {}
        for file in (f"{stem}.sql", f"{stem}.{dialect}.sql"):
            source = resources.files(package) / file
            if source.is_file():
                texts |= _split(source.read_text(encoding="utf-8"))
        self._queries = {
            name: _compile(name, _FRAGMENT.sub(lambda m: texts[m[1]], text), dialect) for name, text in texts.items()
        }

    def __getitem__(self, name: str) -> Query:
        return self._queries[name]

    def names(self) -> list[str]:
        return sorted(self._queries)


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
