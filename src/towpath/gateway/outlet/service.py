"""The outlet: results of uploads, read with a cursor and acknowledged.

Rows stand in one order for ever: by stage, generation, batch, unit and line. While a query is open, the rows of its
first stage are shown as its batches are committed; those of further stages come when it is complete, because nothing
could stand behind them before. Who asks must be allowed to: that is looked at by whoever calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.errors import BadCursor, ResultsGone, UnknownQuery, UnknownStream
from towpath.gateway.outlet.page import START, Cursor, FilePosition, columns_of, place_of, read_rows
from towpath.gateway.outlet.store import (
    CLOSING,
    RESULTS,
    CommittedFiles,
    ResultFile,
    ResultKind,
    ResultState,
    ResultStore,
    StoredResult,
    files_in,
    remove_upload,
)
from towpath.gateway.uploads.model import StoredUpload, UploadMove, UploadState
from towpath.gateway.uploads.store import UploadStore
from towpath.gateway.uploads.streams import Streams

MOST_ROWS = 10_000
MOST_BYTES = 4 << 20


class Outlet:
    """The results of all uploads."""

    def __init__(self, root: Path, streams: Streams, database: Database, event_log: EventLog) -> None:
        self._root = root
        self._streams = streams
        self._database = database
        self._record = event_log.record
        self._uploads = UploadStore(database)
        self._results = ResultStore(database)
        self._files = CommittedFiles(database)

    # Looking

    def queries(self, upload: str) -> list[QueryView]:
        """All queries of an upload, by name."""
        with self._database.read() as tx:
            row = self._uploads.read(tx, upload)
            found = [QueryView.of(each) for each in self._results.of_upload(tx, upload)]
        known = {each.query for each in found}
        promised = [QueryView(name, "", ResultState.OPEN) for name in self._promised(row) if name not in known]
        return sorted([*found, *promised], key=lambda view: view.query)

    def page(
        self,
        upload: str,
        query: str,
        cursor: str | None = None,
        *,
        most_rows: int = MOST_ROWS,
        most_bytes: int = MOST_BYTES,
    ) -> OutletPage:
        """The next rows behind the cursor, at least one if there is one; without a cursor, from the first row on."""
        at = START if cursor is None else Cursor.from_text(cursor, upload, query)
        with self._database.read() as tx:
            result = self._result(tx, upload, query)
            files = [] if result is None else self._shown(tx, upload, result)
        is_complete = result is not None and result.is_complete
        lines, rows, at, is_end = read_rows(files, at, cursor or "", max(most_rows, 1), max(most_bytes, 1), is_complete)
        return OutletPage(lines, rows, at.to_text(upload, query), is_end)

    def columns(self, upload: str, query: str) -> tuple[str, ...] | None:
        """The columns of a CSV: as declared, or the fields of the first row; None while there is neither."""
        with self._database.read() as tx:
            row, result = self._uploads.read(tx, upload), self._result(tx, upload, query)
        if result is not None and result.columns is not None:
            return result.columns
        first = self.page(upload, query, most_rows=1)
        return columns_of(first.lines, without=[self._upload_field(row)]) if first.rows else None

    # Acknowledging

    def acknowledge(self, upload: str, query: str, cursor: str) -> QueryView:
        """The client has all rows before the cursor, for good. Twice, or an older one again, changes nothing.

        With the last row of the last query the upload is finished, and what was kept for it is removed.
        """
        at = Cursor.from_text(cursor, upload, query)
        with self._database.transaction() as tx:
            row = self._uploads.locked(tx, upload)
            if row.state is UploadState.FINISHED:
                return self._as_it_is(tx, upload, query)
            result = self._result(tx, upload, query)
            if result is None:
                place_of([], at, cursor)
                return QueryView(query, "", ResultState.OPEN)  # there is nothing yet, and nothing was had of it
            files = self._shown(tx, upload, result)
            place, before = place_of(files, at, cursor), self._before(files, result)
            is_end = result.is_complete and place.is_end(files)
            if place < before or (place == before and (not is_end or result.is_acknowledged)):
                return QueryView.of(result)
            if not self._results.acknowledge(tx, result, cursor, is_end):
                raise BadCursor(cursor, "somebody else has acknowledged another one at this moment; do it again")
            self._uploads.touch(tx, upload)
            is_finished = row.state is UploadState.SENDING and self._finish(tx, row)
            view = self._as_it_is(tx, upload, query)
            crash.here(CrashPoint.RESULT_ACKNOWLEDGE_BEFORE_COMMIT)
        crash.here(CrashPoint.RESULT_ACKNOWLEDGE_AFTER_COMMIT)
        if is_finished:
            remove_upload(self._root, upload)
        return view

    def _before(self, files: list[ResultFile], result: StoredResult) -> FilePosition:
        if result.cursor is None:
            return FilePosition.BEGINNING
        return place_of(files, Cursor.from_text(result.cursor, result.upload, result.query), result.cursor)

    def _finish(self, tx: Transaction, upload: StoredUpload) -> bool:
        if not self._results.are_all_received(tx, upload.id):
            return False
        self._uploads.move(tx, upload.id, UploadMove.FINISH)
        self._record(tx, Event(EventKind.UPLOAD_FINISHED, upload.id, data={"stream": upload.stream}))
        return True

    def retry(self, upload: str, *, who: str, why: str) -> StoredUpload:
        """Have a closing that has failed tried again."""
        check_who(who)
        check_why(why)

        def act(tx: Transaction) -> StoredUpload:
            row = self._uploads.retry(tx, upload)
            self._record(tx, Event(EventKind.UPLOAD_CLOSING_RETRIED, upload, who, why, {"stream": row.stream}))
            return row

        return commit_by_hand(self._database, act)

    # What there is

    def _as_it_is(self, tx: Transaction, upload: str, query: str) -> QueryView:
        results = self._results.of_upload(tx, upload)
        for each in results:
            if each.query == query:
                return QueryView.of(each)
        raise UnknownQuery(upload, query, [each.query for each in results])

    def _result(self, tx: Transaction, upload: str, query: str) -> StoredResult | None:
        """The query as its row has it; None while the flow has not seen the upload."""
        row = self._uploads.read(tx, upload)
        results = {each.query: each for each in self._results.of_upload(tx, upload)}
        known = {*results, *self._promised(row)}
        if query not in known:
            raise UnknownQuery(upload, query, known)
        if row.is_ended:
            raise ResultsGone(upload, row.state)
        return results.get(query)

    def _shown(self, tx: Transaction, upload: str, result: StoredResult) -> list[ResultFile]:
        directory = self._root / upload / RESULTS / result.query
        if result.kind is ResultKind.CLOSING:
            return files_in(directory / CLOSING) if result.is_complete else []
        flow = self._streams.stream(self._uploads.read(tx, upload).stream).flow
        if result.is_complete:
            return self._files.of(tx, flow, directory, result.stages, result.bounds)
        return self._files.of(tx, flow, directory, result.stages[:1])

    def _promised(self, upload: StoredUpload) -> tuple[str, ...]:
        try:
            return self._streams.stream(upload.stream).results
        except UnknownStream:  # taken out of the settings
            return ()

    def _upload_field(self, upload: StoredUpload) -> str:
        try:
            return self._streams.stream(upload.stream).upload_field
        except UnknownStream:
            return ""


@dataclass(frozen=True, slots=True)
class OutletPage:
    """Some rows as JSON lines, and where to go on. `is_end`: the query is complete, and no row stands behind these."""

    lines: bytes
    rows: int
    cursor: str
    is_end: bool


@dataclass(frozen=True, slots=True)
class QueryView:
    """How far a query is, and how far its client. Its kind is empty while the flow has not seen the upload."""

    query: str
    kind: str
    state: ResultState
    rows: int | None = None
    bytes: int | None = None
    cursor: str | None = None
    acknowledged_at: datetime | None = None
    is_acknowledged: bool = False  # to its end

    @classmethod
    def of(cls, result: StoredResult) -> QueryView:
        known = (result.rows, result.bytes, result.cursor, result.acknowledged_at, result.is_acknowledged)
        return cls(result.query, result.kind, result.state, *known)
