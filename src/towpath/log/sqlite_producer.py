"""Transactions of the SQLite log: collected in memory, written in one short write transaction at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db import Transaction
from towpath.errors import LogError
from towpath.log.groups import check_user_group, sequence_group
from towpath.log.log import Positions
from towpath.log.portions import Portion, check_transaction
from towpath.log.position_store import check_positions
from towpath.log.record import NewRecord
from towpath.log.sqlite_failures import log_failures

if TYPE_CHECKING:
    from towpath.log.sqlite_log import SqliteLog


class SqliteLogTransaction:
    """What will be written when the block ends."""

    def __init__(self, max_record_bytes: int) -> None:
        self.appends: list[tuple[str, Sequence[NewRecord]]] = []
        self.positions: list[tuple[str, Positions]] = []
        self._portion = Portion()
        self._max_record_bytes = max_record_bytes

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        check_transaction(self._portion, records, self._max_record_bytes)
        self.appends.append((topic, list(records)))

    def commit_positions(self, group: str, positions: Positions) -> None:
        check_user_group(group)
        check_positions(positions)
        self.positions.append((group, dict(positions)))

    def flush(self) -> None:
        """Nothing is on its way: all of it is written at the end."""


class SqliteProducer:
    """One epoch of a producer. The write lock is taken only at the end of a transaction's block."""

    def __init__(self, log: SqliteLog, name: str, epoch: int) -> None:
        self.name = name
        self._log = log
        self._epoch = epoch
        self._is_closed = False

    @contextmanager
    def transaction(self, tx: Transaction | None = None) -> Iterator[SqliteLogTransaction]:
        """With `tx` it is written at the end of the block in the caller's transaction, and commits with that."""
        if self._is_closed:
            raise LogError(f"producer {self.name!r} was closed; open it again")
        if tx is not None:
            self._log.check_joined(tx)
        collected = SqliteLogTransaction(self._log.settings.max_record_bytes)
        yield collected
        if self._is_closed:
            raise LogError(f"producer {self.name!r} was closed during its transaction; nothing was written")
        if tx is not None:
            with tx.part():
                self._write(tx, collected)
            return
        with log_failures(), self._log.database.transaction() as own:
            self._write(own, collected)
            crash.here(CrashPoint.LOG_TRANSACTION_BEFORE_COMMIT)
        crash.here(CrashPoint.LOG_TRANSACTION_AFTER_COMMIT)

    def close(self) -> None:
        self._is_closed = True

    def _write(self, tx: Transaction, collected: SqliteLogTransaction) -> None:
        store = self._log.position_store
        store.check_producer(tx, self.name, self._epoch)
        group = sequence_group(self.name)
        sequences = {topic: count for (topic, _), count in store.read(tx, group).items()}
        for topic, records in collected.appends:
            first = sequences.get(topic, 0)
            self._log.write(tx, topic, records, first)
            unkeyed = sum(record.key is None and record.partition is None for record in records)
            if unkeyed:
                sequences[topic] = first + unkeyed
                store.commit(tx, group, {(topic, 0): first + unkeyed})
        crash.here(CrashPoint.LOG_TRANSACTION_FILLED)
        for name, positions in collected.positions:
            store.commit(tx, name, positions)
