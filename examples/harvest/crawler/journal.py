"""The visits of one site, written down one after the other in a file that survives being cut off at any byte.

A visit counts when its line is whole and on the disk. What a killed writer has left of a line is cut away by the next
one. The rules for robots are written down as well, so that a crawl keeps to the ones that it began with.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from examples.harvest.crawler.visit import Visit

VISITS = "visits.jsonl"
ROBOTS = "robots.json"


class Journal:
    """The one writer of a directory: a second one waits until the first is gone, which a killed one is at once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = (directory / VISITS).open("a+b")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self.visits: dict[str, Visit] = {}
        whole = 0
        for visit, end in _whole_lines(directory / VISITS):
            self.visits[visit.url] = visit
            whole = end
        self._file.truncate(whole)

    def write(self, visit: Visit) -> None:
        """It is on the disk when this returns."""
        self._file.write(visit.line())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.visits[visit.url] = visit

    @property
    def size(self) -> int:
        """In bytes."""
        return os.fstat(self._file.fileno()).st_size

    def robots(self) -> tuple[int | None, str] | None:
        """Status and text of the rules that the crawl began with, if it has come that far."""
        try:
            status, text = json.loads((self._directory / ROBOTS).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return status, text

    def keep_robots(self, status: int | None, text: str) -> None:
        written = self._directory / f"{ROBOTS}.new"
        with written.open("w", encoding="utf-8") as file:
            json.dump([status, text], file)
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._directory / ROBOTS)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_visits(directory: Path) -> Iterator[Visit]:
    """The visits of a data set that is ready."""
    for visit, _ in _whole_lines(directory / VISITS):
        yield visit


def _whole_lines(path: Path) -> Iterator[tuple[Visit, int]]:
    """Each visit, and where its line ends; up to the first line that was cut off."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            end += len(line)
            if not line.endswith(b"\n"):
                return
            try:
                yield Visit.read(line), end
            except ValueError:
                return  # a disk that lost its power may have kept the length and not the bytes
