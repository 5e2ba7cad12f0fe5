"""Logging in with a browser: sessions, links that let somebody choose a password, and saved views."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from towpath.access.log_in import LogIn
from towpath.access.password import stored
from towpath.access.principal import Principal
from towpath.access.role import SCOPES, Role
from towpath.access.session import LONGEST_TOKEN, Session, form_token, new_secret
from towpath.access.session_store import SessionStore
from towpath.access.user_store import UserStore
from towpath.clock import MICROS
from towpath.db import Database, Transaction
from towpath.db.by_hand import check_who, check_why, commit_by_hand
from towpath.db.event_log import EventLog
from towpath.db.text import storable
from towpath.errors import BadValue, CommitUnknown, DatabaseUnavailable, NotLoggedIn
from towpath.events import Event, EventKind
from towpath.settings import AccessSettings

SEEN_NOTED_EVERY_S = 60
MOST_SHOWN = 100
LONGEST_VIEW_NAME = 80
LONGEST_VIEW_ADDRESS = 2000
FIRST_ADMIN = "admin"


class LoggedIn(NamedTuple):
    """A new session, and what its browser holds: this is the only time that it can be seen."""

    session: Session
    secret: str


class Visitor(NamedTuple):
    """Who uses a browser, and the token of that session's forms."""

    principal: Principal
    form_token: str


class Sessions:
    """What `runtime.access.sessions` is."""

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
            return self._begun(tx, user.name, address, browser)

    def by_secret(self, secret: str) -> Visitor:
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
        return Visitor(principal, form_token(secret))

    def end(self, principal: Principal) -> None:
        """Log out."""
        with self._database.transaction() as tx:
            self._store.end(tx, principal.by.removeprefix("session:"))

    def end_all(self, tx: Transaction, user: str, but: str | None = None) -> None:
        """In the transaction that changes what a user may do."""
        self._store.end_all(tx, user, but)

    def of_user(self, user: str) -> list[Session]:
        with self._database.glance() as tx:
            return self._store.of_user(tx, user, MOST_SHOWN)

    # Links

    def needs_an_admin(self) -> bool:
        """Nobody could log in who may say who else may."""
        with self._database.glance() as tx:
            users = self._users.all(tx)
        return not any(user.role is Role.ADMIN and user.is_enabled and user.has_password for user in users)

    def first_link(self) -> str | None:
        """For the first start: a link for an admin, who is made if there is none; none: somebody can log in."""
        if not self.needs_an_admin():
            return None
        with self._database.transaction() as tx:
            if self._users.find(tx, FIRST_ADMIN) is None:
                self._users.add(tx, FIRST_ADMIN, Role.ADMIN, None)
        return self.make_link(FIRST_ADMIN, who="first start", why="nobody can log in yet")

    def make_link(self, user: str, *, who: str, why: str) -> str:
        """What stands at the end of a link with which that user chooses a password, once. Earlier ones are void."""
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
        kept = stored(password)
        with self._database.transaction() as tx:
            user = self._store.use_link(tx, secret[:LONGEST_TOKEN])
            self._users.set_password(tx, user, kept)
            self._store.end_all(tx, user)
            event = Event(EventKind.USER_CHANGED_BY_HAND, user, user, "by a link", {"what": "password"})
            self._event_log.record(tx, event)
            return self._begun(tx, user, address, browser)

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

    def _begun(self, tx: Transaction, user: str, address: str, browser: str) -> LoggedIn:
        secret = new_secret()
        expires_us = self._after(self._settings.session_s)
        session = self._store.add(tx, secret, user=user, address=address, browser=browser, expires_us=expires_us)
        return LoggedIn(session, secret)

    def _note_seen(self, session: Session, now_us: int) -> None:
        # Worth knowing, and not worth refusing a request for.
        with suppress(DatabaseUnavailable, CommitUnknown), self._database.single() as tx:
            not_since_us = now_us - SEEN_NOTED_EVERY_S * MICROS
            self._store.note_seen(tx, session, not_since_us, self._after(self._settings.session_s))

    def _after(self, seconds: float) -> int:
        return self._database.now() + int(seconds * MICROS)


def _not_logged_in() -> NotLoggedIn:
    return NotLoggedIn("log in first: there is no session, or its time is over")
