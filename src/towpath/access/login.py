"""Recognising a caller: by the key that comes with a request, or by name and password.

After too many failed log-ins a name has to wait, and so has an address, which is given more tries since many people may
share one. A try is counted as failed before the password is looked at, so that a hundred at once count as a hundred;
one that succeeds is taken back. Names are counted whether there is such a user or not.
"""

from __future__ import annotations

import hmac
from contextlib import suppress

from towpath.access.keys import KeyStore, hash_secret, prefix_of
from towpath.access.roles import SCOPES, Principal
from towpath.access.users import User, UserStore, verify_password
from towpath.core.clock import MICROS
from towpath.core.events import Event, EventKind
from towpath.db import Database, Queries, Transaction
from towpath.db.database import storable
from towpath.db.event_log import EventLog
from towpath.errors import CommitUnknown, DatabaseUnavailable, NotLoggedIn, TooManyFailures
from towpath.settings import AccessSettings

USE_NOTED_EVERY_S = 60
LONGEST_WAIT_S = 900.0
FORGOTTEN_S = 3600.0  # after the last failure
ADDRESS_PATIENCE = 10  # times as many failures as of one name
LONGEST_SUBJECT = 120


class LogIn:
    """Finds out who a caller is. Every refusal says the same."""

    def __init__(self, database: Database, event_log: EventLog, settings: AccessSettings) -> None:
        self._database = database
        self._event_log = event_log
        self._keys = KeyStore(database)
        self._users = UserStore(database)
        self._throttle = Throttle(database, settings)

    def by_key(self, text: str) -> Principal:
        """The principal of a key, with the scopes that it has now; raises `NotLoggedIn`."""
        prefix = prefix_of(text)
        if prefix is None:
            raise _unknown_key()
        with self._database.glance() as tx:
            found = self._keys.with_user(tx, prefix)
        now_us = self._database.now()
        is_right = found is not None and hmac.compare_digest(hash_secret(text), found.key.hash)
        if found is None or not is_right or not found.is_enabled or not found.key.counts_at(now_us):
            raise _unknown_key()
        if (found.key.used_us or 0) < now_us - USE_NOTED_EVERY_S * MICROS:
            self._note_use(found.key.id, now_us)
        scopes = SCOPES[found.role] & frozenset(found.key.scopes)
        return Principal(found.key.user, found.role, scopes, f"key:{found.key.id}")

    def by_password(self, name: str, password: str, address: str) -> User:
        """The user, if that is the password; raises `NotLoggedIn`, or `TooManyFailures` before it looks."""
        try:
            with self._database.transaction() as tx:
                self._throttle.begin(tx, name, address)
        except TooManyFailures as waiting:
            with self._database.transaction() as tx:
                refusal = Event(EventKind.LOG_IN_REFUSED, f"from {address}"[:200], why=str(waiting))
                self._event_log.record(tx, refusal)
            raise
        with self._database.read() as tx:
            user = self._users.find(tx, name)
        is_right = verify_password(password, user.password if user else None)
        if user is None or not is_right or not user.is_enabled:
            raise NotLoggedIn("name and password do not fit, or the user is disabled")
        with self._database.transaction() as tx:
            self._throttle.succeeded(tx, name, address)
        return user

    def _note_use(self, key_id: str, now_us: int) -> None:
        # Worth knowing, and not worth refusing a request for.
        with suppress(DatabaseUnavailable, CommitUnknown), self._database.single() as tx:
            self._keys.note_use(tx, key_id, now_us - USE_NOTED_EVERY_S * MICROS)


class Throttle:
    """Makes names and addresses wait that have failed to log in too often: the table `access_failure`."""

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


def wait_s(failures: int, allowed: int, first_s: float) -> float:
    """How long to wait after that many failures."""
    if failures < allowed:
        return 0.0
    longest: float = min(first_s * 2.0 ** min(failures - allowed, 60), LONGEST_WAIT_S)
    return longest


def _unknown_key() -> NotLoggedIn:
    return NotLoggedIn("the key is not known, was revoked, is at its end, or its user is disabled")
