"""Real servers for a test, gone when it ends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from towpath.stack.postgres import PostgresServer


@contextmanager
def postgres_server(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """A running PostgreSQL with an empty database on a free port; its data are deleted after use."""
    home = Path(tempfile.mkdtemp(prefix="towpath-"))
    # As root the server runs as another user, who must be able to enter the directory.
    home.chmod(0o711)
    server = PostgresServer(home / "postgres", settings=settings)
    try:
        with server:
            yield server
    finally:
        shutil.rmtree(home, ignore_errors=True)
