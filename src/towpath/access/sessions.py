"""Logging in with a browser: sessions, links that let a user choose a password, and saved views.

The browser holds 256 random bits; what they hash to is kept. The token that forms carry is made from the same bits, so
that a page of somebody else cannot know it and nothing more has to be kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import uuid4

from towpath.access.keys import hash_secret
from towpath.access.login import LogIn
from towpath.access.roles import SCOPES, Principal, Role
from towpath.access.users import UserStore, hash_password
from towpath.core.clock import MICROS, to_datetime
from towpath.core.events import Event, EventKind
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.errors import BadValue, CommitUnknown, DatabaseUnavailable, LinkUsed, NotLoggedIn, UnknownView
from towpath.settings import AccessSettings

LONGEST_TOKEN = 100
LONGEST_SHOWN = 200  # of an address or the name of a browser
MOST_VIEWS = 50  # saved, of a user
MOST_SHOWN = 100  # sessions of a user in a list
SEEN_NOTED_EVERY_S = 60
LONGEST_VIEW_NAME = 80
LONGEST_VIEW_ADDRESS = 2000
FIRST_ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """One log-in of one browser."""

    id: str
    user: str
    address: str
    browser: str
    made_us: int
    seen_us: int
    expires_us: int

    @property
    def made_at(self) -> datetime:
        return to_datetime(self.made_us)

    @property
    def seen_at(self) -> datetime:
        return to_datetime(self.seen_us)

    @classmethod
    def from_row(cls, row: Row) -> BrowserSession:
        id, *rest = row
        return cls(str(id), *rest)


class LoggedIn(NamedTuple):
    """A new session, and what its browser holds: this is the only time that it can be seen."""

    session: BrowserSession
    secret: str


class SessionUser(NamedTuple):
    """The user of a browser session, and the token of its forms."""

    principal: Principal
    form_token: str


class Sessions:
    """Sessions, links and saved views of browsers: what `runtime.access.sessions` is."""

    def __init__(self, database: Database, event_log: EventLog, settings: AccessSettings, log_in: LogIn) -> None:
        self._database = database
        self._event_log = event_log
        self._settings = settings
        self._log_in = log_in
        self._store = SessionStore(database)
        self._users = UserStore(database)

    def begin(self, name: str, password: str, *, address: str, browser: str) -> LoggedIn:
        """Log in; raises `NotLoggedIn`, or `TooManyFailures` before it looks."""
        user = self._log_in.by_password(name, password, address)
        with self._database.transaction() as tx:
            return self._open_session(tx, user.name, address, browser)

    def by_secret(self, secret: str) -> SessionUser:
        """Whose browser holds it; raises `NotLoggedIn`."""
        if not secret or len(secret) > LONGEST_TOKEN or not secret.isascii():
            raise _not_logged_in()
        with self._database.glance() as tx:
            found = self._store.with_user(tx, secret)
        now_us = self._database.now()
        if found is None or not found.is_enabled or found.session.expires_us <= now_us:
            raise _not_logged_in()
        if found.session.seen_us < now_us - SEEN_NOTED_EVERY_S * MICROS:
            self._note_seen(found.session, now_us)
        session = found.session
        principal = Principal(session.user, found.role, SCOPES[found.role], f"session:{session.id}")
        return SessionUser(principal, form_token(secret))

    def end(self, principal: Principal) -> None:
        """Log out."""
        with self._database.transaction() as tx:
            self._store.end(tx, principal.by.removeprefix("session:"))

    def of_user(self, user: str) -> list[BrowserSession]:
        with self._database.glance() as tx:
            return self._store.of_user(tx, user, MOST_SHOWN)

    # Links

    def first_link(self) -> str | None:
        """For the first start: a link for an admin, who is made if missing; None when an admin can log in already."""
        with self._database.glance() as tx:
            users = self._users.all(tx)
        if any(user.role is Role.ADMIN and user.is_enabled and user.has_password for user in users):
            return None
        with self._database.transaction() as tx:
            if self._users.find(tx, FIRST_ADMIN) is None:
                self._users.add(tx, FIRST_ADMIN, Role.ADMIN, None)
        return self.make_link(FIRST_ADMIN, who="first start", why="nobody can log in yet")

    def make_link(self, user: str, *, who: str, why: str) -> str:
        """The secret of a link with which that user chooses a password, once. Earlier links are void."""
        check_who(who)
        check_why(why)
        secret = new_secret()

        def act(tx: Transaction) -> None:
            self._users.read(tx, user)
            self._store.add_link(tx, secret, user=user, made_by=who, expires_us=self._after(self._settings.link_s))
            self._event_log.record(tx, Event(EventKind.USER_CHANGED_BY_HAND, user, who, why, {"what": "link"}))

        commit_by_hand(self._database, act)
        return secret

    def link_user(self, secret: str) -> str:
        """Whom a link lets in; raises `LinkUsed`."""
        with self._database.glance() as tx:
            return self._store.link_user(tx, secret[:LONGEST_TOKEN])

    def use_link(self, secret: str, password: str, *, address: str, browser: str) -> LoggedIn:
        """Choose a password by a link, and be logged in. Sessions that there were end."""
        kept = hash_password(password)
        with self._database.transaction() as tx:
            user = self._store.use_link(tx, secret[:LONGEST_TOKEN])
            self._users.set_password(tx, user, kept)
            self._store.end_all(tx, user)
            event = Event(EventKind.USER_CHANGED_BY_HAND, user, user, "by a link", {"what": "password"})
            self._event_log.record(tx, event)
            return self._open_session(tx, user, address, browser)

    # Saved views

    def views(self, user: str) -> list[tuple[str, str]]:
        """Name and address of pages that a user wants to see again."""
        with self._database.glance() as tx:
            return self._store.views(tx, user)

    def save_view(self, user: str, name: str, address: str) -> None:
        name = storable(name).strip()
        if not 0 < len(name) <= LONGEST_VIEW_NAME:
            raise BadValue(f"the name of a view has 1 to {LONGEST_VIEW_NAME} characters")
        if not address.startswith("/") or address.startswith("//") or len(address) > LONGEST_VIEW_ADDRESS:
            raise BadValue("a view is a page of this console")
        with self._database.transaction() as tx:
            self._store.save_view(tx, user, name, storable(address))

    def delete_view(self, user: str, name: str) -> None:
        with self._database.transaction() as tx:
            self._store.delete_view(tx, user, storable(name))

    def _open_session(self, tx: Transaction, user: str, address: str, browser: str) -> LoggedIn:
        secret = new_secret()
        expires_us = self._after(self._settings.session_s)
        session = self._store.add(tx, secret, user=user, address=address, browser=browser, expires_us=expires_us)
        return LoggedIn(session, secret)

    def _note_seen(self, session: BrowserSession, now_us: int) -> None:
        # Worth knowing, and not worth refusing a request for.
        with suppress(DatabaseUnavailable, CommitUnknown), self._database.single() as tx:
            not_since_us = now_us - SEEN_NOTED_EVERY_S * MICROS
            self._store.note_seen(tx, session, not_since_us, self._after(self._settings.session_s))

    def _after(self, seconds: float) -> int:
        return self._database.now() + int(seconds * MICROS)


class SessionStore:
    """`access_session`, `access_link` and `access_view`, inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.access", "sessions", database.dialect)

    def add(
        self, tx: Transaction, secret: str, *, user: str, address: str, browser: str, expires_us: int
    ) -> BrowserSession:
        params = {
            "hash": hash_secret(secret),
            "id": str(uuid4()),
            "user_name": user,
            "address": storable(address)[:LONGEST_SHOWN],
            "browser": storable(browser)[:LONGEST_SHOWN],
            "expires_at": expires_us,
        }
        return BrowserSession.from_row(tx.rows(self._sql["add_session"], params)[0])

    def with_user(self, tx: Transaction, secret: str) -> SessionAndUser | None:
        rows = tx.rows(self._sql["session_with_user"], {"hash": hash_secret(secret)})
        if not rows:
            return None
        *columns, role, disabled_us = rows[0]
        return SessionAndUser(BrowserSession.from_row(tuple(columns)), Role(role), disabled_us is None)

    def note_seen(self, tx: Transaction, session: BrowserSession, not_since_us: int, expires_us: int) -> None:
        tx.run(self._sql["note_seen"], {"id": session.id, "not_since": not_since_us, "expires_at": expires_us})

    def of_user(self, tx: Transaction, user: str, limit: int) -> list[BrowserSession]:
        """Sessions that are still valid, the newest first."""
        rows = tx.rows(self._sql["list_sessions"], {"user_name": user, "limit": limit})
        return [BrowserSession.from_row(row) for row in rows]

    def end(self, tx: Transaction, session_id: str) -> None:
        tx.run(self._sql["end_session"], {"id": session_id})

    def end_all(self, tx: Transaction, user: str) -> None:
        """End all sessions of a user, in the transaction that changes what that user may do."""
        tx.run(self._sql["end_sessions_of_user"], {"user_name": user})

    def forget(self, tx: Transaction, limit: int) -> int:
        return tx.run(self._sql["forget_sessions"], {"limit": limit})

    # Links

    def add_link(self, tx: Transaction, secret: str, *, user: str, made_by: str, expires_us: int) -> None:
        tx.run(self._sql["void_links"], {"user_name": user})
        params = {
            "hash": hash_secret(secret),
            "user_name": user,
            "made_by": storable(made_by),
            "expires_at": expires_us,
        }
        tx.run(self._sql["add_link"], params)

    def link_user(self, tx: Transaction, secret: str) -> str:
        """Whom a link lets in; raises `LinkUsed`."""
        return self._user_of_link(tx, "link_user", secret)

    def use_link(self, tx: Transaction, secret: str) -> str:
        """Use up a link, and return whom it lets in; raises `LinkUsed`."""
        return self._user_of_link(tx, "use_link", secret)

    def _user_of_link(self, tx: Transaction, query: str, secret: str) -> str:
        rows = tx.rows(self._sql[query], {"hash": hash_secret(secret)})
        if not rows:
            raise LinkUsed()
        return str(rows[0][0])

    def forget_links(self, tx: Transaction, limit: int) -> int:
        return tx.run(self._sql["forget_links"], {"limit": limit})

    # Saved views

    def save_view(self, tx: Transaction, user: str, name: str, address: str) -> None:
        if tx.rows(self._sql["count_views"], {"user_name": user, "name": name})[0][0] >= MOST_VIEWS:
            raise BadValue(f"there are {MOST_VIEWS} saved views, which is the most; delete one")
        tx.run(self._sql["save_view"], {"user_name": user, "name": name, "address": address})

    def views(self, tx: Transaction, user: str) -> list[tuple[str, str]]:
        """Name and address of each."""
        rows = tx.rows(self._sql["list_views"], {"user_name": user, "limit": MOST_VIEWS})
        return [(str(name), str(address)) for name, address in rows]

    def delete_view(self, tx: Transaction, user: str, name: str) -> None:
        if not tx.rows(self._sql["delete_view"], {"user_name": user, "name": name}):
            raise UnknownView(name)


@dataclass(frozen=True, slots=True)
class SessionAndUser:
    """A session, and what is needed to decide whether it is accepted."""

    session: BrowserSession
    role: Role
    is_enabled: bool


def new_secret() -> str:
    """A new secret of a browser session or a link."""
    return secrets.token_urlsafe(32)


def form_token(secret: str) -> str:
    """The token that forms of this session carry."""
    return hmac.new(secret.encode(), b"form", hashlib.sha256).hexdigest()


def _not_logged_in() -> NotLoggedIn:
    return NotLoggedIn("log in first: there is no session, or its time is over")
