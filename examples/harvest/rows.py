"""What is in the table, in the shape that the oracle has."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from examples.harvest.oracle import Expected


def documents_in(file: Path) -> list[Expected]:
    """All documents that can be found, by address."""
    with closing(sqlite3.connect(file, timeout=30)) as connection:
        rows = connection.execute(
            "select url, site, title, text, language, links from documents where gone = 0 order by url"
        ).fetchall()
    return [
        Expected(url, site, title, text, language, tuple(json.loads(links)))
        for url, site, title, text, language, links in rows
    ]
