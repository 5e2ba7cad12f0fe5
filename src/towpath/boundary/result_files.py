"""Where the collected data and the results of uploads are, and in which order. Needs no Spark and no database.

    <gateway.directory>/<upload>/collected/<name>/<stage>/<file>
    <gateway.directory>/<upload>/results/<query>/<stage>/<file>      as the records come
    <gateway.directory>/<upload>/results/<query>/closing/<file>      at the end of the upload

A file holds JSON lines. Its name begins with generation and batch, so names sort in the order in which batches were
committed; what stands behind them is the same for every attempt at a unit. Names with a dot in front are not there yet.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from towpath.settings import Settings

COLLECTED = "collected"
RESULTS = "results"
CLOSING = "closing"
ENDING = ".jsonl"
COUNT_BYTES = 1 << 20

_NAME = re.compile(r"g(\d{6,})-b(\d{12,})-.*-([0-9a-f]{16})\.jsonl")
_READABLE = re.compile(r"[^A-Za-z0-9._=-]")
_READABLE_CHARACTERS = 80


class ResultFile(NamedTuple):
    """One file, in the order of its query. `lane` is the number of its stage among those of the query."""

    lane: int
    generation: int
    batch: int
    name: str
    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / self.name

    @property
    def key(self) -> str:
        """What tells it from the other files of its batch."""
        return self.name[-len(ENDING) - 16 : -len(ENDING)]

    @property
    def place(self) -> tuple[int, int, int]:
        return self.lane, self.generation, self.batch


def uploads_root(settings: Settings) -> Path:
    """The directory of all uploads."""
    return Path(settings.gateway.directory).absolute()


def with_absolute_root(settings: Settings) -> Settings:
    """For Spark's workers, which may stand in another directory."""
    gateway = settings.gateway.model_copy(update={"directory": str(uploads_root(settings))})
    return settings.model_copy(update={"gateway": gateway})


def stage_directory(stage: str) -> str:
    """The directory of a stage; the name of a stage may be longer than that of a directory can be."""
    readable = _READABLE.sub("_", stage)[:_READABLE_CHARACTERS]
    return f"s-{readable}-{_digest(stage)}"


def lines_name(generation: int, batch_id: int, output: str, unit: str) -> str:
    """The name of the file of one unit of one batch: the same for every attempt."""
    readable = _READABLE.sub("_", f"{output}-{unit}")[:_READABLE_CHARACTERS]
    return f"g{generation:06d}-b{batch_id:012d}-{readable}-{_digest(output, unit)}{ENDING}"


def files_in(directory: Path, lane: int = 0) -> list[ResultFile]:
    """Those that can be seen, in their order; none when the directory is not there."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    found = ((name, _NAME.fullmatch(name)) for name in names)
    return sorted(ResultFile(lane, int(fits[1]), int(fits[2]), name, directory) for name, fits in found if fits)


def stage_directories(directory: Path) -> Iterator[Path]:
    """The directories of stages below that of a name, in stable order."""
    if directory.is_dir():
        yield from (each for each in sorted(directory.iterdir()) if each.is_dir() and not each.name.startswith("."))


def count_lines(path: Path) -> int:
    count = 0
    with path.open("rb") as file:
        while chunk := file.read(COUNT_BYTES):
            count += chunk.count(b"\n")
    return count


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
