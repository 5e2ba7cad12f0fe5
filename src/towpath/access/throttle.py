"""Who fails to log in too often waits: by name, and more patiently by address, since many may share one.

A try is counted as failed before the password is looked at, so that a hundred at once count as a hundred; one that
succeeds is taken back. Names are counted whether there is such a user or not.
"""

from __future__ import annotations

from towpath.clock import MICROS
from towpath.db import Database, Queries, Transaction
from towpath.db.text import storable
from towpath.errors import TooManyFailures
from towpath.settings import AccessSettings

LONGEST_WAIT_S = 900.0
FORGOTTEN_S = 3600.0
ADDRESS_PATIENCE = 10  # times as many failures as of one name
LONGEST_SUBJECT = 120


def wait_s(failures: int, allowed: int, first_s: float) -> float:
    """How long one waits after that many failures."""
    if failures < allowed:
        return 0.0
    longest: float = min(first_s * 2.0 ** min(failures - allowed, 60), LONGEST_WAIT_S)
    return longest


class Throttle:
    """The table `access_failure`."""

    def __init__(self, database: Database, settings: AccessSettings) -> None:
        self._database = database
        self._settings = settings
        self._sql = Queries("towpath.access", "failures", database.dialect)

    def begin(self, tx: Transaction, name: str, address: str) -> None:
        """Count one more try; raises `TooManyFailures` when it comes too early."""
        now_us = self._database.now()
        forgotten_us = now_us - int(FORGOTTEN_S * MICROS)
        for subject, allowed in self._subjects(name, address):
            failures, last_us = tx.rows(self._sql["lock_failures"], {"subject": subject})[0]
            left_s = last_us / MICROS + wait_s(failures, allowed, self._settings.failure_wait_s) - now_us / MICROS
            if failures >= allowed and last_us >= forgotten_us and left_s > 0:
                raise TooManyFailures(left_s)
        for subject, _ in self._subjects(name, address):
            tx.run(self._sql["note_failure"], {"subject": subject, "forgotten_before": forgotten_us})

    def succeeded(self, tx: Transaction, name: str, address: str) -> None:
        (by_name, _), (by_address, _) = self._subjects(name, address)
        tx.run(self._sql["forget_failure"], {"subject": by_name})
        tx.run(self._sql["take_back_failure"], {"subject": by_address})

    def forget(self, tx: Transaction, limit: int) -> int:
        older_us = self._database.now() - int(FORGOTTEN_S * MICROS)
        return tx.run(self._sql["forget_failures"], {"older_than": older_us, "limit": limit})

    def _subjects(self, name: str, address: str) -> tuple[tuple[str, int], tuple[str, int]]:
        allowed = self._settings.failures
        return (
            (f"name:{storable(name)}"[:LONGEST_SUBJECT], allowed),
            (f"from:{storable(address)}"[:LONGEST_SUBJECT], allowed * ADDRESS_PATIENCE),
        )
