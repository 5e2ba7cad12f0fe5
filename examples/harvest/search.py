"""The table that is searched: SQLite's full-text index beside the rows, changed with them in the same transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

# The words of a row are in the index exactly while the row is there and its page is not gone.
INDEX = """
create virtual table if not exists fulltext using fts5 (
    title, text, content = 'documents', content_rowid = 'rowid', tokenize = 'unicode61 remove_diacritics 2');
create trigger if not exists fulltext_added after insert on documents when new.gone = 0 begin
    insert into fulltext (rowid, title, text) values (new.rowid, new.title, new.text);
end;
create trigger if not exists fulltext_before_change before update on documents when old.gone = 0 begin
    insert into fulltext (fulltext, rowid, title, text) values ('delete', old.rowid, old.title, old.text);
end;
create trigger if not exists fulltext_after_change after update on documents when new.gone = 0 begin
    insert into fulltext (rowid, title, text) values (new.rowid, new.title, new.text);
end;
create trigger if not exists fulltext_removed after delete on documents when old.gone = 0 begin
    insert into fulltext (fulltext, rowid, title, text) values ('delete', old.rowid, old.title, old.text);
end;
"""


@dataclass(frozen=True)
class Hit:
    """A document that was found, with the words around what was looked for."""

    url: str
    title: str
    excerpt: str


def add_index(file: Path) -> None:
    """Beside the table, which is there already; what the table holds by then is taken in. Twice does no harm."""
    with _opened(file) as connection, connection:
        connection.execute("begin immediate")
        is_new = not connection.execute("select 1 from sqlite_schema where name = 'fulltext'").fetchone()
        for statement in INDEX.split(";\ncreate"):
            text = statement if statement.lstrip().startswith("create") else f"create{statement}"
            connection.execute(text)
        if is_new:
            connection.execute(
                "insert into fulltext (rowid, title, text) select rowid, title, text from documents where gone = 0"
            )


def search(file: Path, query: str, limit: int = 10) -> list[Hit]:
    """Documents that hold all the words, the best first. Whatever is typed is a list of words, never an error."""
    words = " ".join('"' + word.replace('"', '""') + '"' for word in query.replace("\x00", " ").split())
    if not words:
        return []
    with _opened(file) as connection:
        rows = connection.execute(
            "select documents.url, documents.title, snippet(fulltext, 1, '[', ']', ' … ', 12) from fulltext"
            " join documents on documents.rowid = fulltext.rowid where fulltext match ? order by rank limit ?",
            (words, limit),
        )
        return [Hit(*row) for row in rows]


def check_index(file: Path) -> None:
    """Raises `sqlite3.DatabaseError` unless the index holds the words of the rows and nothing else."""
    with _opened(file) as connection, connection:
        connection.execute("insert into fulltext (fulltext, rank) values ('integrity-check', 0)")
        count = connection.execute("select count(*) from fulltext_docsize").fetchone()[0]
        rows = connection.execute("select count(*) from documents where gone = 0").fetchone()[0]
        if count != rows:
            raise sqlite3.DatabaseError(f"the index holds {count} documents, the table {rows}")


def counts_by_site(file: Path) -> list[tuple[str, int, int]]:
    """Site, documents and words, by site."""
    with _opened(file) as connection:
        found: list[tuple[str, int, int]] = connection.execute(
            "select site, count(*), sum(words) from documents where gone = 0 group by site order by site"
        ).fetchall()
        return found


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as connection:
        yield connection
