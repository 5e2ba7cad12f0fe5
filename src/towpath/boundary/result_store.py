"""The `upload_result` table: the queries of each upload, how far they are and how far their client is."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from towpath.boundary.result_state import ResultKind, ResultState
from towpath.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row

Bound = tuple[int, int]  # the last generation and batch of a stage that count


@dataclass(frozen=True, slots=True)
class Declared:
    """A query as its flow declares it."""

    query: str
    kind: ResultKind
    stages: tuple[str, ...] = ()  # that load it, in the order of their rows
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StoredResult:
    """One row. `bounds`, by stage, `rows` and `bytes` are known once it is complete."""

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


class ResultStore:
    """Reads and moves results inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.boundary", "results", database.dialect)

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
        """These are all of its rows; False when that was said before, which stays as it is."""
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
