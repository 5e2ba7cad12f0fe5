"""Named places where a process may die, so that tests can make it die there.

`here(point)` does nothing unless `TOWPATH_CRASH=point:n` is set: then the n-th pass (1 without `:n`) through that
point ends the process with SIGKILL, as a power cut would. Points that a Python worker of Spark passes end the driver
and the worker. It fires once. Recovery tests walk the whole enum.
"""

from __future__ import annotations

import os
import signal
import tempfile
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from towpath.errors import BadSettings

VARIABLE = "TOWPATH_CRASH"


class CrashPoint(StrEnum):
    """Between every two acts that a crash could separate."""

    SEND_BEFORE_COMMIT = "send_before_commit"
    SEND_AFTER_COMMIT = "send_after_commit"  # written, but nobody has been woken
    CLAIM_BEFORE_COMMIT = "claim_before_commit"
    CLAIM_AFTER_COMMIT = "claim_after_commit"  # claimed, but the handler has not seen it
    HANDLER_DONE = "handler_done"  # handled, but the queue does not know
    FINISH_BEFORE_COMMIT = "finish_before_commit"  # state moved and answer written, both uncommitted
    FINISH_AFTER_COMMIT = "finish_after_commit"  # finished, but the asker has not been woken
    EXCHANGE_BEFORE_COMMIT = "exchange_before_commit"  # one finished and the next claimed, both uncommitted
    EXCHANGE_AFTER_COMMIT = "exchange_after_commit"  # the next is claimed, but its handler has not seen it
    RELEASE_BEFORE_COMMIT = "release_before_commit"
    RELEASE_AFTER_COMMIT = "release_after_commit"
    DEATH_MARKED = "death_marked"  # an owner is marked dead, but its claims are still its own
    FREE_BEFORE_COMMIT = "free_before_commit"
    FREE_AFTER_COMMIT = "free_after_commit"
    REAP_BEFORE_COMMIT = "reap_before_commit"
    REAP_AFTER_COMMIT = "reap_after_commit"
    CLEAN_BEFORE_COMMIT = "clean_before_commit"
    CLEAN_AFTER_COMMIT = "clean_after_commit"
    OPERATE_BEFORE_COMMIT = "operate_before_commit"  # a person's change and its event, both uncommitted
    OPERATE_AFTER_COMMIT = "operate_after_commit"
    TOPIC_BEFORE_COMMIT = "topic_before_commit"  # a topic is made or deleted, uncommitted
    TOPIC_AFTER_COMMIT = "topic_after_commit"  # of a deleted topic: gone for everybody, its records still take room
    APPEND_BEFORE_COMMIT = "append_before_commit"  # records handed over outside a transaction, nothing promised yet
    APPEND_AFTER_COMMIT = "append_after_commit"  # written, but the caller does not know
    PRODUCER_OPENED = "producer_opened"  # the older one of the name is fenced, nothing has been written
    LOG_TRANSACTION_FILLED = "log_transaction_filled"  # records handed over, positions not, uncommitted
    LOG_TRANSACTION_BEFORE_COMMIT = "log_transaction_before_commit"  # records and positions, uncommitted
    LOG_TRANSACTION_AFTER_COMMIT = "log_transaction_after_commit"  # committed, but the caller does not know
    MARKS_READ = "marks_read"  # a unit's producer is open, and it is known which parts are there; nothing is written
    START_MOVED = "start_moved"  # records are gone for every reader, but still take room
    GENERATION_FENCED = "generation_fenced"  # who opens a producer for the old generation gives up; open ones still can
    GENERATION_BEGUN = "generation_begun"  # a new checkpoint is in the stage's row, its directory is not made
    BATCH_FIXED = "batch_fixed"  # Spark knows what the batch reads, the ledger does not
    BATCH_SNAPSHOT = "batch_snapshot"  # its row is in the ledger, nothing has run
    DECISION_MADE = "decision_made"  # what becomes of each record is written, but it does not count yet
    DECISION_STORED = "decision_stored"  # it counts, the ledger does not know
    BATCH_DECIDED = "batch_decided"  # the ledger knows, no output has anything
    WENT_AHEAD = "went_ahead"  # at most once: it will not be tried again, no output has anything
    REFUSING_SINKS_DONE = "refusing_sinks_done"  # in a worker: those that may refuse have their part, others nothing
    BATCH_LOADED = "batch_loaded"  # sinks have what they took, what failed is in the reports only
    OUTCOME_STORED = "outcome_stored"  # the reports count, nobody has been told
    ERRORS_SENT = "errors_sent"  # what failed is in the error topic, the batch is not committed
    BATCH_COMMITTED = "batch_committed"  # the ledger says so, Spark does not know
    TABLE_STAGED = "table_staged"  # in a worker: a unit's rows are beside their tables (PostgreSQL), not in them
    TABLE_BEFORE_COMMIT = "table_before_commit"  # in a worker: rows and their mark, uncommitted
    TABLE_AFTER_COMMIT = "table_after_commit"  # in a worker: rows and their mark are in, nobody has been told
    FILES_COMPLETE = "files_complete"  # in a worker: a unit's files are on the disk, under hidden names
    FILE_PUBLISHED = "file_published"  # in a worker: one more file has its name; a power cut may undo that
    FILES_SYNCED = "files_synced"  # in a worker: files are there for good, nobody has been told
    BULK_SENT = "bulk_sent"  # in a worker: a request to an index was answered, nobody has looked at the answer
    INDEX_DONE = "index_done"  # in a worker: every request of a unit was answered, nobody has been told
    MIGRATE_BEFORE_COMMIT = "migrate_before_commit"
    MIGRATE_AFTER_COMMIT = "migrate_after_commit"


class Crashed(BaseException):
    """Stands for the death of the process, where a test wants its Spark session to live on."""


class Armed:
    """One point to die at, and how many passes are left. It goes to workers too, and ends the driver from there."""

    def __init__(self, setting: str, *, once: Path, victim: int) -> None:
        name, _, count = setting.partition(":")
        try:
            self.point = CrashPoint(name)
            self.left = int(count or 1)
            if self.left < 1:
                raise ValueError(f"there is no pass number {self.left}")
        except ValueError as error:
            known = ", ".join(CrashPoint)
            raise BadSettings(f"{VARIABLE}={setting!r} is not point:n with one of: {known}") from error
        self.once = once  # is made when it fires: it fires in one process, once
        self.victim = victim  # the driver's process; 0: it lives on, and is told by `Crashed`
        self._driver = os.getpid()

    def passed(self, point: CrashPoint) -> None:
        if point is self.point:
            self.left -= 1
            if self.left == 0 and (self.victim == os.getpid() or self._is_first()):
                self._fire()

    @property
    def has_fired(self) -> bool:
        return self.once.exists()

    def _is_first(self) -> bool:
        try:
            self.once.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _fire(self) -> None:
        if self.victim:
            with suppress(ProcessLookupError):
                os.kill(self.victim, signal.SIGKILL)
        elif os.getpid() == self._driver:
            raise Crashed(self.point)
        os.kill(os.getpid(), signal.SIGKILL)


def _from_environment() -> Armed | None:
    setting = os.environ.get(VARIABLE)
    if not setting:
        return None
    return Armed(setting, once=Path(tempfile.gettempdir(), f"towpath-crash-{uuid4().hex}"), victim=os.getpid())


# Read once at start: an unarmed process pays one comparison for each point it passes.
_armed = _from_environment()


def is_armed() -> bool:
    """Whether this process was told to die somewhere."""
    return _armed is not None


def armed() -> Armed | None:
    """What this process was told, to be passed on to its workers."""
    return _armed


def arm(told: Armed | None) -> None:
    """Be told so by a test, or forget it."""
    global _armed
    _armed = told


def arm_worker(told: Armed | None) -> None:
    """Be told so by the driver, in a worker that may have been told before."""
    global _armed
    if _armed is None or told is None or _armed.once != told.once:
        _armed = told


def check() -> None:
    """On the driver, where something has failed: raise `Crashed` when that was the death of a worker as told."""
    if _armed is not None and not _armed.victim and _armed.has_fired:
        raise Crashed(_armed.point)


def here(point: CrashPoint) -> None:
    """Die here if this point is armed."""
    if _armed is not None:
        _armed.passed(point)
