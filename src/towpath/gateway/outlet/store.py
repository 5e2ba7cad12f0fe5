"""Results of uploads: the table `upload_result`, the files that hold the rows, and which of these count.

    <gateway.directory>/<upload>/collected/<name>/<stage>/<file>
    <gateway.directory>/<upload>/results/<query>/<stage>/<file>      as the records come
    <gateway.directory>/<upload>/results/<query>/closing/<file>      at the end of the upload

A file holds JSON lines. Its name begins with generation and batch, so names sort in the order in which batches were
committed; what stands behind them is the same for every attempt at a unit. Names with a dot in front are not there
yet.

The files that count are those of batches that the ledger has as committed. Batches of a generation are committed one
after the other, so all up to the last one count. What lies beyond it is under way, or was given up by a reset and
will never count. The chart in docs/reference/upload-states.md is held equal to the states of a result. Needs no
Spark.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from towpath.core import crash
from towpath.core.clock import to_datetime
from towpath.core.crash import CrashPoint
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.stage.store import StageStore
from towpath.settings import Settings

COLLECTED = "collected"
RESULTS = "results"
CLOSING = "closing"
ENDING = ".jsonl"
COUNT_BYTES = 1 << 20
_NAME = re.compile(r"g(\d{6,})-b(\d{12,})-.*-([0-9a-f]{16})\.jsonl")
_READABLE = re.compile(r"[^A-Za-z0-9._=-]")
_READABLE_CHARACTERS = 80

Bound = tuple[int, int]  # the last generation and batch of a stage that count

NOTHING = -1


class ResultKind(StrEnum):
    """When the rows of a query come."""

    STREAMED = "streamed"  # with the records, batch by batch
    CLOSING = "closing"  # at the end of the upload, all at once


class ResultState(StrEnum):
    """Whether more can come."""

    OPEN = "open"  # more rows may come
    COMPLETE = "complete"  # these are all


MOVES: dict[ResultState, frozenset[ResultState]] = {
    ResultState.OPEN: frozenset({ResultState.COMPLETE}),
    ResultState.COMPLETE: frozenset(),
}


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A query as its row has it. `bounds`, by stage, `rows` and `bytes` are known once it is complete."""

    upload: str
    query: str
    kind: ResultKind
    state: ResultState
    stages: tuple[str, ...]
    columns: tuple[str, ...] | None
    bounds: tuple[Bound, ...]
    rows: int | None
    bytes: int | None
    cursor: str | None  # acknowledged
    acknowledged_at: datetime | None
    is_acknowledged: bool  # to its end

    @property
    def is_complete(self) -> bool:
        return self.state is ResultState.COMPLETE


@dataclass(frozen=True, slots=True)
class Declared:
    """A query as its flow declares it."""

    query: str
    kind: ResultKind
    stages: tuple[str, ...] = ()  # that load it, in the order of their rows
    columns: tuple[str, ...] | None = None


class ResultStore:
    """Reads and moves results inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.gateway.outlet", "results", database.dialect)

    def declare(self, tx: Transaction, upload: str, declared: Declared) -> None:
        """A query of an upload; one that is known stays as it is."""
        columns = None if declared.columns is None else json.dumps(declared.columns)
        said = {"query": declared.query, "kind": declared.kind, "stages": json.dumps(declared.stages)}
        tx.run(self._sql["declare_result"], {"upload": upload, **said, "columns": columns})

    def undeclared(self, tx: Transaction, streams: Collection[str], limit: int) -> list[tuple[str, str]]:
        """Uploads of these streams whose queries nobody has declared yet, and their streams."""
        which = {"streams": json.dumps(sorted(streams)), "limit": limit}
        return [(id, stream) for id, stream in tx.rows(self._sql["undeclared"], which)]

    def of_upload(self, tx: Transaction, upload: str) -> list[StoredResult]:
        """By name."""
        return [_result(row) for row in tx.rows(self._sql["results_of_upload"], {"upload": upload})]

    def complete(
        self, tx: Transaction, upload: str, query: str, bounds: Sequence[Bound], rows: int, bytes: int
    ) -> bool:
        """Mark a query as complete with these bounds; false when it was complete before and stays as it is."""
        said = {"ends_at": json.dumps([list(each) for each in bounds]), "rows": rows, "bytes": bytes}
        return bool(tx.rows(self._sql["complete_result"], {"upload": upload, "query": query, **said}))

    def acknowledge(self, tx: Transaction, before: StoredResult, cursor: str, is_end: bool) -> bool:
        """The client has all up to there; False when somebody has acknowledged something else meanwhile."""
        which = {"upload": before.upload, "query": before.query, "before": before.cursor or ""}
        return bool(tx.rows(self._sql["acknowledge_result"], {**which, "cursor": cursor, "is_end": int(is_end)}))

    def are_all_received(self, tx: Transaction, upload: str) -> bool:
        """Whether every query is complete and acknowledged to its end; also of an upload without queries."""
        return not tx.rows(self._sql["not_received"], {"upload": upload})


def _result(row: Row) -> StoredResult:
    upload, query, kind, state, stages, columns, ends_at, rows, bytes, cursor, at, is_end = row
    return StoredResult(
        upload,
        query,
        ResultKind(kind),
        ResultState(state),
        tuple(json.loads(stages)),
        None if columns is None else tuple(json.loads(columns)),
        tuple((generation, batch) for generation, batch in json.loads(ends_at or "[]")),
        rows,
        bytes,
        cursor,
        None if at is None else to_datetime(at),
        bool(is_end),
    )


class CommittedFiles:
    """Finds the files that count, by what the ledger has as committed."""

    def __init__(self, database: Database) -> None:
        self._ledger = Ledger(database)
        self._stages = StageStore(database)

    def of(
        self, tx: Transaction, flow: str, directory: Path, stages: Sequence[str], bounds: Sequence[Bound] | None = None
    ) -> list[ResultFile]:
        """The files of these stages in their order, up to the bound of each if there are bounds."""
        found: list[ResultFile] = []
        for lane, stage in enumerate(stages):
            files = files_in(directory / stage_directory(stage), lane)
            last = {generation: self._last(tx, flow, stage, generation) for generation in {f.generation for f in files}}
            bound = None if bounds is None else bounds[lane]
            found += [
                file
                for file in files
                if file.batch <= last[file.generation] and (bound is None or (file.generation, file.batch) <= bound)
            ]
        return found

    def bound(self, tx: Transaction, flow: str, stage: str) -> Bound:
        """The last batch of a stage that is committed now."""
        generation = self._stages.read(tx, flow, stage).generation
        return generation, self._last(tx, flow, stage, generation)

    def remove_given_up(self, root: Path, database: Database, flow: str) -> int:
        """Delete the files of batches that a reset has given up; returns how many.

        Who reads collected files without asking the ledger must not meet them.
        """
        with database.read() as tx:
            stages = {stage_directory(each.name): each for each in self._stages.list(tx, flow)}
            doomed = [
                file.path
                for directory in root.glob("*/*/*/*")
                if directory.name in stages
                for file in files_in(directory)
                if (stage := stages[directory.name]).generation > file.generation
                and file.batch > self._last(tx, flow, stage.name, file.generation)
            ]
        for path in doomed:
            path.unlink(missing_ok=True)
        return len(doomed)

    def _last(self, tx: Transaction, flow: str, stage: str, generation: int) -> int:
        last = self._ledger.last_committed(tx, flow, stage, generation)
        return NOTHING if last is None else last.batch_id


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


def files_in(directory: Path, lane: int = 0) -> list[ResultFile]:
    """The visible files, in their order; none when the directory is not there."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    found = ((name, _NAME.fullmatch(name)) for name in names)
    return sorted(ResultFile(lane, int(fits[1]), int(fits[2]), name, directory) for name, fits in found if fits)


def stage_directory(stage: str) -> str:
    """The directory of a stage; the name of a stage may be longer than that of a directory can be."""
    readable = _READABLE.sub("_", stage)[:_READABLE_CHARACTERS]
    return f"s-{readable}-{_digest(stage)}"


def stage_directories(directory: Path) -> Iterator[Path]:
    """The directories of stages below that of a name, in stable order."""
    if directory.is_dir():
        yield from (each for each in sorted(directory.iterdir()) if each.is_dir() and not each.name.startswith("."))


def lines_name(generation: int, batch_id: int, output: str, unit: str) -> str:
    """The name of the file of one unit of one batch: the same for every attempt."""
    readable = _READABLE.sub("_", f"{output}-{unit}")[:_READABLE_CHARACTERS]
    return f"g{generation:06d}-b{batch_id:012d}-{readable}-{_digest(output, unit)}{ENDING}"


def count_lines(path: Path) -> int:
    count = 0
    with path.open("rb") as file:
        while chunk := file.read(COUNT_BYTES):
            count += chunk.count(b"\n")
    return count


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def uploads_root(settings: Settings) -> Path:
    """The directory of all uploads."""
    return Path(settings.gateway.directory).absolute()


def with_absolute_root(settings: Settings) -> Settings:
    """For Spark's workers, which may stand in another directory."""
    gateway = settings.gateway.model_copy(update={"directory": str(uploads_root(settings))})
    return settings.model_copy(update={"gateway": gateway})


def remove_upload(root: Path, upload: str) -> bool:
    """Whether there was something. What cannot be removed now is left for the next time."""
    directory = root / upload
    if not directory.is_dir():
        return False
    shutil.rmtree(directory, ignore_errors=True)
    crash.here(CrashPoint.UPLOAD_FILES_REMOVED)
    return True
