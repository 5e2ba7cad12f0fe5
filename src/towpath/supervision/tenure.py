"""The term as a peer may use it: what to ask the database and when, and until when its answer counts, as pure code.

The lease goes by the database's time. The local clock only makes a peer stop sooner: it counts the lease from before
it asked, and takes a tenth off for clocks that do not run alike.
"""

from __future__ import annotations

from enum import Enum, auto

from towpath.supervision.role import Role
from towpath.supervision.timing import Timing

CLOCKS_DIFFER = 0.1  # part of the lease


class Ask(Enum):
    """What a peer has to ask the database about the term."""

    TAKE = auto()
    RENEW = auto()
    RELEASE = auto()  # it has surrendered to another, which need not wait for the end of the lease
    READ = auto()  # it is a member, and wants to know whether it could act


class Tenure:
    """Which term this peer holds, by what the database has answered."""

    def __init__(self, timing: Timing, now: float) -> None:
        self._timing = timing
        self._role = Role.ELECTING
        self._term = 0
        self._until = now
        self._next = now
        self._reached_at = now

    def term(self, now: float) -> int:
        """The term under which this peer may act; 0: none."""
        return self._term if now < self._until else 0

    def is_fit(self, now: float) -> bool:
        """Whether it reaches the database: it has had an answer within the last lease."""
        return now - self._reached_at < self._timing.lease_s

    def due(self, role: Role, now: float) -> Ask | None:
        """What to ask now; a new role is a reason not to wait."""
        if role is not self._role:
            self._role, self._next = role, now
        if now < self._next:
            return None
        if role is Role.COORDINATOR:
            return Ask.RENEW if self.term(now) else Ask.TAKE
        return Ask.RELEASE if self.term(now) else Ask.READ

    def granted(self, term: int, asked_at: float) -> None:
        """Taken or renewed, by a statement that was begun at `asked_at`."""
        self._term = term
        self._until = asked_at + self._timing.lease_s * (1 - CLOCKS_DIFFER)
        self._answered(asked_at, self._timing.renew_s)

    def refused(self, asked_at: float) -> None:
        """Another holds it, or the lease was over, or it is released now."""
        self._term = 0
        self._answered(asked_at, self._timing.renew_s / 2)

    def read(self, asked_at: float) -> None:
        """The database has answered a member."""
        self._answered(asked_at, self._timing.lease_s / 2)

    def not_reached(self, now: float) -> None:
        """No answer came; the term is kept as long as its lease lasts."""
        self._next = now + self._timing.renew_s / 2

    def _answered(self, asked_at: float, rest_s: float) -> None:
        self._reached_at = max(self._reached_at, asked_at)
        self._next = asked_at + rest_s
