"""Named places where a process may die, so that tests can make it die there.

`here(point)` does nothing unless `TOWPATH_CRASH=point:n` is set: then the n-th pass (1 without `:n`) through that
point ends the process with SIGKILL, as a power cut would. Recovery tests walk the whole enum.
"""

from __future__ import annotations

import os
import signal
from enum import StrEnum

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
    START_MOVED = "start_moved"  # records are gone for every reader, but still take room
    GENERATION_BEGUN = "generation_begun"  # a new checkpoint is in the stage's row, its directory is not made
    BATCH_FIXED = "batch_fixed"  # Spark knows what the batch reads, the ledger does not
    BATCH_SNAPSHOT = "batch_snapshot"  # its row is in the ledger, nothing has run
    BATCH_LOADED = "batch_loaded"  # sinks have what they took, what failed is in the reports only
    ERRORS_SENT = "errors_sent"  # what failed is in the error topic, the batch is not committed
    BATCH_COMMITTED = "batch_committed"  # the ledger says so, Spark does not know
    MIGRATE_BEFORE_COMMIT = "migrate_before_commit"
    MIGRATE_AFTER_COMMIT = "migrate_after_commit"


class _Armed:
    """The one point that this process was told to die at, and how many passes are left."""

    def __init__(self, setting: str) -> None:
        name, _, count = setting.partition(":")
        try:
            self.point = CrashPoint(name)
            self.left = int(count or 1)
            if self.left < 1:
                raise ValueError(f"there is no pass number {self.left}")
        except ValueError as error:
            known = ", ".join(CrashPoint)
            raise BadSettings(f"{VARIABLE}={setting!r} is not point:n with one of: {known}") from error

    def passed(self, point: CrashPoint) -> None:
        if point is self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


# Read once at start: an unarmed process pays one comparison for each point it passes.
_armed = _Armed(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def is_armed() -> bool:
    """Whether this process was told to die somewhere."""
    return _armed is not None


def here(point: CrashPoint) -> None:
    """Die here if this point is armed."""
    if _armed is not None:
        _armed.passed(point)
