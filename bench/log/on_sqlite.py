"""The SQLite log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from bench.log.workload import PARTITIONS, TOPIC, batches, rate, reading_rate
from towpath.db import open_database
from towpath.log import Log, open_log
from towpath.settings import DatabaseSettings, LogSettings

Synchronous = Literal["full", "normal"]


class OnSqlite:
    """Appends to new files; reads one that is filled once."""

    def __init__(self, home: Path, records: int) -> None:
        self._home = home
        self._records = records
        self._made = 0

    def append(self, synchronous: Synchronous) -> float:
        self._made += 1
        path = self._home / f"append-{self._made}.db"
        with self.opened(path, synchronous) as log:
            log.create_topic(TOPIC, PARTITIONS)
            measured = rate(lambda batch: log.append(TOPIC, batch), self._records)
        for file in self._home.glob(f"{path.name}*"):
            file.unlink()
        return measured

    def read(self) -> float:
        with self.filled() as log:
            found = (record for number in range(PARTITIONS) for record in log.read(TOPIC, number, 0))
            return reading_rate(found, self._records)

    @contextmanager
    def filled(self) -> Iterator[Log]:
        """The log with all records in it."""
        path = self._home / "filled.db"
        is_new = not path.exists()
        with self.opened(path, "full") as log:
            if is_new:
                log.create_topic(TOPIC, PARTITIONS)
                for batch in batches(self._records):
                    log.append(TOPIC, batch)
            yield log

    @contextmanager
    def opened(self, path: Path, synchronous: Synchronous) -> Iterator[Log]:
        database = open_database(DatabaseSettings(url=f"sqlite:///{path}", synchronous=synchronous))
        try:
            yield open_log(LogSettings(), database)
        finally:
            database.close()
