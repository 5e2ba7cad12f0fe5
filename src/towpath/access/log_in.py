"""Recognising somebody: by the key that comes with a request, or by name and password."""

from __future__ import annotations

import hmac
from contextlib import suppress

from towpath.access.key import hashed, prefix_of
from towpath.access.key_store import KeyStore
from towpath.access.password import fits
from towpath.access.principal import Principal
from towpath.access.role import SCOPES
from towpath.access.throttle import Throttle
from towpath.access.user import User
from towpath.access.user_store import UserStore
from towpath.clock import MICROS
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.errors import CommitUnknown, DatabaseUnavailable, NotLoggedIn, TooManyFailures
from towpath.events import Event, EventKind
from towpath.settings import AccessSettings

USE_NOTED_EVERY_S = 60


class LogIn:
    """Asks the tables who somebody is. Every refusal says the same."""

    def __init__(self, database: Database, event_log: EventLog, settings: AccessSettings) -> None:
        self._database = database
        self._event_log = event_log
        self._keys = KeyStore(database)
        self._users = UserStore(database)
        self._throttle = Throttle(database, settings)

    def by_key(self, text: str) -> Principal:
        """Who a key belongs to, with what may be done with it; raises `NotLoggedIn`."""
        prefix = prefix_of(text)
        if prefix is None:
            raise _unknown_key()
        with self._database.glance() as tx:
            found = self._keys.with_user(tx, prefix)
        now_us = self._database.now()
        is_right = found is not None and hmac.compare_digest(hashed(text), found.key.hash)
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
            self._event(Event(EventKind.LOG_IN_REFUSED, f"from {address}"[:200], why=str(waiting)))
            raise
        with self._database.read() as tx:
            user = self._users.find(tx, name)
        is_right = fits(password, user.password if user else None)
        if user is None or not is_right or not user.is_enabled:
            raise NotLoggedIn("name and password do not fit, or the user is disabled")
        with self._database.transaction() as tx:
            self._throttle.succeeded(tx, name, address)
        return user

    def _note_use(self, key_id: str, now_us: int) -> None:
        # Worth knowing, and not worth refusing a request for.
        with suppress(DatabaseUnavailable, CommitUnknown), self._database.single() as tx:
            self._keys.note_use(tx, key_id, now_us - USE_NOTED_EVERY_S * MICROS)

    def _event(self, event: Event) -> None:
        with self._database.transaction() as tx:
            self._event_log.record(tx, event)


def _unknown_key() -> NotLoggedIn:
    return NotLoggedIn("the key is not known, was revoked, is at its end, or its user is disabled")
