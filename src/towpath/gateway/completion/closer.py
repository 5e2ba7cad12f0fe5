"""Closes uploads that all stages have passed: their closing steps run, their results are complete, they are sent.

1. Each closing step runs over what was collected of the upload, and its rows are made visible by one rename.
2. In one transaction all results are complete, with their ends, and the upload is sending; one without results is
   finished.

A crash between the two has the closer come again: a step whose rows are there does not run a second time.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.core import crash
from towpath.core.clock import MICROS, Clock, SystemClock
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.errors import BadFlow, DatabaseError, IllegalUploadMove
from towpath.flow.graph.nodes import ClosingStep
from towpath.gateway.completion.plan import ClosingPlan, PassStore
from towpath.gateway.outlet.store import (
    CLOSING,
    COLLECTED,
    RESULTS,
    Bound,
    CommittedFiles,
    ResultFile,
    ResultKind,
    ResultStore,
    StoredResult,
    count_lines,
    files_in,
)
from towpath.gateway.uploads.model import StoredUpload, UploadMove
from towpath.gateway.uploads.store import UploadStore

if TYPE_CHECKING:
    from towpath.gateway.completion.job import ClosingJob


logger = logging.getLogger(__name__)

REST_S = 0.25
MOST_TRIES = 5
FIRST_PAUSE_S = 1.0
WHY_CHARACTERS = 1_000


class Closer(Service):
    """Closes uploads one after the other. Runs beside the flow; for streams without a flow, beside the gateway."""

    name = "upload closer"

    def __init__(
        self,
        plan: ClosingPlan,
        root: Path,
        database: Database,
        events: Events,
        event_log: EventLog,
        job: ClosingJob | None = None,
        are_replayed: Callable[[str, str], bool] = lambda flow, upload: False,
        *,
        clock: Clock | None = None,
    ) -> None:
        """`are_replayed` tells whether records of an upload are on their way back into the flow."""
        super().__init__(events)
        self._plan = plan
        self._root = root
        self._database = database
        self._record = event_log.record
        self._job = job
        self._are_replayed = are_replayed
        self._uploads = UploadStore(database)
        self._passes = PassStore(database)
        self._results = ResultStore(database)
        self._files = CommittedFiles(database)
        self._again_at: dict[str, float] = {}  # by upload: when one that has failed is tried again
        self._clock = clock or SystemClock()
        self._is_at_work = False

    def run_once(self) -> RoundResult:
        with self._database.read() as tx:
            ready = [(self._uploads.read(tx, id), at) for id, at in self._passes.ready(tx, self._plan.streams.keys())]
        due = [upload for upload, passed_us in ready if self._is_due(upload) and not self._waits(upload, passed_us)]
        done = sum(self._close(upload) for upload in due if not self._is_cut_off)
        return RoundResult(done, 0 if done else REST_S)

    def wake(self) -> None:
        """A step may take longer than whoever stops us waits: it is cut off, and done again another time."""
        if self._is_at_work and self._job is not None:
            with contextlib.suppress(Exception):  # a Spark that is gone does nothing any more
                self._job.cancel()

    @property
    def _is_cut_off(self) -> bool:
        """Whether our own thread has been asked to end; without one, whoever calls us wants it done."""
        return self.is_running and self.is_stopping

    def _is_due(self, upload: StoredUpload) -> bool:
        return upload.tries < MOST_TRIES and self._clock.monotonic() >= self._again_at.get(upload.id, 0.0)

    def _waits(self, upload: StoredUpload, passed_us: int) -> bool:
        """Whether records of it may still come back from the desk, and there is time to wait for them."""
        wait_s = self._plan.streams[upload.stream].wait_for_replays_s
        if wait_s is None or self._database.now() >= passed_us + int(wait_s * MICROS):
            return False
        return self._are_replayed(self._plan.flow, upload.id)

    def _close(self, upload: StoredUpload) -> int:
        """Whether that is done now."""
        try:
            for step in self._plan.streams[upload.stream].closings:
                self._run(upload, step)
            self._complete(upload)
        except DatabaseError:
            raise
        except IllegalUploadMove as error:
            logger.info("upload %s was not closed: %s", upload.id, error)  # somebody has given it up meanwhile
            return 0
        except Exception as error:
            return 0 if self._is_cut_off else self._note_failure(upload, error)
        self._again_at.pop(upload.id, None)
        return 1

    def _run(self, upload: StoredUpload, step: ClosingStep) -> None:
        """Act 1."""
        from towpath.gateway.completion.job import CollectedRows  # loads Spark's surroundings

        if self._job is None:
            raise BadFlow(f"step {step.name!r} needs Spark; run its flow: towpath run")
        home, known = self._root / upload.id, self._plan.collections
        with self._database.read() as tx:
            files = {name: self._collected(tx, home, name) for name in step.collected}
        collected = [
            CollectedRows([each.path for each in files[name]], known[name].schema or "") for name in step.collected
        ]
        self._is_at_work = True
        try:
            self._job.run(step, collected, home / RESULTS / step.result)
        finally:
            self._is_at_work = False

    def _collected(self, tx: Transaction, home: Path, name: str) -> list[ResultFile]:
        stages = self._plan.collections[name].stages
        return self._files.of(tx, self._plan.flow, home / COLLECTED / name, stages)

    def _complete(self, upload: StoredUpload) -> None:
        """Act 2."""
        with self._database.read() as tx:
            known = self._results.of_upload(tx, upload.id)
            ends = {each.query: self._end(tx, upload, each) for each in known if not each.is_complete}
        with self._database.transaction() as tx:
            for query, (bounds, rows, size) in ends.items():
                self._results.complete(tx, upload.id, query, bounds, rows, size)
            self._uploads.move(tx, upload.id, UploadMove.SEND)
            counts = {query: rows for query, (_, rows, _) in ends.items()}
            self._record(tx, Event(EventKind.UPLOAD_CLOSED, upload.id, data={"stream": upload.stream, "rows": counts}))
            if self._results.are_all_received(tx, upload.id):
                self._uploads.move(tx, upload.id, UploadMove.FINISH)
                self._record(tx, Event(EventKind.UPLOAD_FINISHED, upload.id, data={"stream": upload.stream}))
            crash.here(CrashPoint.UPLOAD_CLOSE_BEFORE_COMMIT)
        crash.here(CrashPoint.UPLOAD_CLOSE_AFTER_COMMIT)

    def _end(self, tx: Transaction, upload: StoredUpload, result: StoredResult) -> tuple[list[Bound], int, int]:
        directory = self._root / upload.id / RESULTS / result.query
        if result.kind is ResultKind.CLOSING:
            bounds: list[Bound] = []
            files = files_in(directory / CLOSING)
        else:
            bounds = [self._files.bound(tx, self._plan.flow, stage) for stage in result.stages]
            files = self._files.of(tx, self._plan.flow, directory, result.stages, bounds)
        return bounds, sum(count_lines(each.path) for each in files), sum(each.path.stat().st_size for each in files)

    def _note_failure(self, upload: StoredUpload, error: Exception) -> int:
        """Say why, and try again after a growing pause; after some tries a person has to ask for it."""
        if self._job is not None and not self._job.is_possible:
            raise error  # Spark is gone, and this process will be: it is not the step's fault
        why = f"{type(error).__name__}: {error}".partition("\n")[0][:WHY_CHARACTERS]
        try:
            with self._database.transaction() as tx:
                noted = self._uploads.note_failure(tx, upload.id, why)
                data = {"stream": upload.stream, "tries": noted.tries, "is_last": noted.tries >= MOST_TRIES}
                self._record(tx, Event(EventKind.UPLOAD_CLOSING_FAILED, upload.id, why=why, data=data))
        except IllegalUploadMove:
            return 0  # somebody else has closed it, or given it up
        logger.warning("the closing of upload %s failed (%d of %d): %s", upload.id, noted.tries, MOST_TRIES, why)
        self._again_at[upload.id] = self._clock.monotonic() + FIRST_PAUSE_S * 2 ** (noted.tries - 1)
        return 0
