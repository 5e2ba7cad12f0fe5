"""Users, keys and the audit trail of one database, and the janitor that deletes what is past its time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from towpath.access.changes import AuditRow, AuditStore, ChangeService, RequestStore
from towpath.access.keys import ApiKey, KeyStore, KeyToken, new_token
from towpath.access.login import LogIn, Throttle
from towpath.access.roles import Role, check_role, check_scopes
from towpath.access.sessions import Sessions, SessionStore
from towpath.access.users import User, UserStore, check_user_name, hash_password
from towpath.blocks.service import BlockStore
from towpath.core.clock import MICROS, to_micros
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog, check_who, check_why, commit_by_hand
from towpath.errors import BadValue, LastAdmin
from towpath.settings import AccessSettings

T = TypeVar("T")
MOST_PER_COMMIT = 2_000
LONGEST_LABEL = 100


class AccessService:
    """What `runtime.access` is. Each change is one transaction with its event, in a person's name and with a reason."""

    def __init__(
        self,
        database: Database,
        settings: AccessSettings,
        events: Events,
        event_log: EventLog,
        process_id: Callable[[], str],
    ) -> None:
        self.settings = settings
        self.changes = ChangeService(database, process_id)
        self.log_in = LogIn(database, event_log, settings)
        self.sessions = Sessions(database, event_log, settings, self.log_in)
        self._database = database
        self._events = events
        self._event_log = event_log
        self._users = UserStore(database)
        self._keys = KeyStore(database)
        self._sessions = SessionStore(database)
        self._audit = AuditStore(database)

    # Users

    def users(self) -> list[User]:
        """All of them, by name."""
        with self._database.glance() as tx:
            return self._users.all(tx)

    def user(self, name: str) -> User:
        """The user of that name; raises `UnknownUser`."""
        with self._database.glance() as tx:
            return self._users.read(tx, name)

    def add_user(self, name: str, role: Role | str, *, who: str, why: str, password: str | None = None) -> User:
        """A new user; without a password they can use keys only."""
        name, role = check_user_name(name), check_role(role)
        kept = None if password is None else hash_password(password)
        return self._change_user(name, "added", who, why, lambda tx: self._users.add(tx, name, role, kept), role=role)

    def set_role(self, name: str, role: Role | str, *, who: str, why: str) -> User:
        """Give a user another role. It applies at once, also to existing keys."""
        role = check_role(role)

        def act(tx: Transaction) -> User:
            if role is not Role.ADMIN:
                self._keep_an_admin(tx, name)
            return self._users.set_role(tx, name, role)

        return self._change_user(name, "role", who, why, act, role=role)

    def set_password(self, name: str, password: str, *, who: str, why: str) -> User:
        """Set a new password. Browser sessions of the user end."""
        kept = hash_password(password)

        def act(tx: Transaction) -> User:
            self._sessions.end_all(tx, name)
            return self._users.set_password(tx, name, kept)

        return self._change_user(name, "password", who, why, act)

    def disable_user(self, name: str, *, who: str, why: str) -> User:
        """Disable a user and all their keys. Their rows stay, because the trail names them."""

        def act(tx: Transaction) -> User:
            self._keep_an_admin(tx, name)
            return self._users.disable(tx, name)

        return self._change_user(name, "disabled", who, why, act)

    def enable_user(self, name: str, *, who: str, why: str) -> User:
        """Enable a user again, with the password and the keys that they had."""
        return self._change_user(name, "enabled", who, why, lambda tx: self._users.enable(tx, name))

    def _keep_an_admin(self, tx: Transaction, name: str) -> None:
        if self._users.admins(tx) == [name]:
            raise LastAdmin(name)

    def _change_user(
        self, name: str, what: str, who: str, why: str, act: Callable[[Transaction], User], **data: Any
    ) -> User:
        return self._change(Event(EventKind.USER_CHANGED_BY_HAND, name, who, why, {"what": what, **data}), act)

    # Keys

    def keys(self, *, user: str | None = None, limit: int = 100, before: int | None = None) -> list[ApiKey]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        with self._database.glance() as tx:
            return self._keys.page(tx, limit=limit, before=before, user=user)

    def key(self, text: str) -> ApiKey:
        """The key of that id, or the one that begins so; raises `UnknownKey`."""
        with self._database.glance() as tx:
            return self._keys.find(tx, text)

    def make_key(
        self,
        user: str,
        scopes: Sequence[str],
        *,
        who: str,
        why: str,
        label: str = "key",
        expires: datetime | timedelta | None = None,
        is_endless: bool = False,
    ) -> tuple[ApiKey, KeyToken]:
        """A new key, and what it is: this is the only time that it can be seen."""
        if not label.strip() or len(label) > LONGEST_LABEL:
            raise BadValue(f"a label has 1 to {LONGEST_LABEL} characters")
        token = new_token()

        def act(tx: Transaction) -> ApiKey:
            wanted = check_scopes(scopes, self._users.read(tx, user).role)
            ends = None if is_endless else self._end_us(expires)
            return self._keys.add(tx, token, user=user, label=label, scopes=wanted, made_by=who, expires_us=ends)

        data = {"what": "made", "user": user, "scopes": sorted(scopes), "label": label}
        return self._change(Event(EventKind.KEY_CHANGED_BY_HAND, token.prefix, who, why, data), act), token

    def revoke_key(self, text: str, *, who: str, why: str) -> ApiKey:
        """Revoke a key; raises `KeyEnded` when it was revoked already."""
        key = self.key(text)
        event = Event(EventKind.KEY_CHANGED_BY_HAND, key.prefix, who, why, {"what": "revoked", "user": key.user})
        return self._change(event, lambda tx: self._keys.revoke(tx, key, who))

    def _end_us(self, expires: datetime | timedelta | None) -> int | None:
        """When a key ends, by the database's time."""
        now_us = self._database.now()
        if isinstance(expires, datetime):
            if expires.tzinfo is None:
                raise BadValue(f"{expires} has no time zone")
            ends_us = to_micros(expires)
        elif expires is not None or self.settings.key_age_s is not None:
            age_s = expires.total_seconds() if expires is not None else self.settings.key_age_s or 0.0
            ends_us = now_us + int(age_s * MICROS)
        else:
            return None
        if not now_us < ends_us < 2**62:
            raise BadValue("a key ends in the future")
        return ends_us

    # The trail

    def trail(
        self, *, limit: int = 100, before: int | None = None, who: str | None = None, subject: str | None = None
    ) -> list[AuditRow]:
        """What was asked for, newest first."""
        with self._database.glance() as tx:
            return self._audit.page(tx, limit=limit, before=before, who=who, subject=subject)

    def janitor(self) -> AccessJanitor:
        """Deletes what is past its time; `towpath api run` runs one."""
        return AccessJanitor(self._database, self.settings, self._events)

    def _change(self, event: Event, act: Callable[[Transaction], T]) -> T:
        check_who(event.who)
        check_why(event.why)

        def both(tx: Transaction) -> T:
            made = act(tx)
            self._event_log.record(tx, event)
            return made

        return commit_by_hand(self._database, both)


class AccessJanitor(Service):
    """Deletes rows of the trail, answers to requests, failed log-ins, sessions, links and catches of block rules.

    Runs in every process that answers requests; two at once only share the work.
    """

    name = "access janitor"

    def __init__(self, database: Database, settings: AccessSettings, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._settings = settings
        self._audit = AuditStore(database)
        self._requests = RequestStore(database)
        self._throttle = Throttle(database, settings)
        self._sessions = SessionStore(database)
        self._blocks = BlockStore(database)

    def run_once(self) -> RoundResult:
        return RoundResult(sum(self.clean().values()), self._settings.janitor_s)

    def clean(self) -> dict[str, int]:
        """Delete all that is past its time; returns how much of what."""
        settings = self._settings
        ages_s = (settings.audit_retention_s, settings.request_retention_s, settings.block_retention_s)
        audit_us, request_us, block_us = (
            None if age_s is None else self._database.now() - int(age_s * MICROS) for age_s in ages_s
        )
        return {
            "audit": 0 if audit_us is None else self._all(lambda tx, most: self._audit.forget(tx, audit_us, most)),
            "requests": self._all(lambda tx, most: self._requests.forget(tx, request_us or 0, most)),
            "failures": self._all(self._throttle.forget),
            "sessions": self._all(self._sessions.forget),
            "links": self._all(self._sessions.forget_links),
            "blocks": 0 if block_us is None else self._all(lambda tx, most: self._blocks.forget(tx, block_us, most)),
        }

    def _all(self, forget: Callable[[Transaction, int], int]) -> int:
        total = 0
        while True:
            with self._database.single() as tx:
                deleted = forget(tx, MOST_PER_COMMIT)
            total += deleted
            if deleted < MOST_PER_COMMIT or self.is_stopping:
                return total
