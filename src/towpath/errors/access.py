"""Errors of users, keys, sessions, requests and block rules."""

from __future__ import annotations

from collections.abc import Iterable

from towpath.errors.base import Refused


class BadBlock(Refused):
    """A block rule that could match nothing or everything, or that has no end. The text says what to write."""


class UnknownBlock(Refused):
    """No block rule has that number. `towpath block list` shows those there are."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"there is no block rule {number}; `towpath block list` shows those there are")


class IllegalBlockMove(Refused):
    """The block rule does not count any more: its time is over, or somebody has withdrawn it."""

    def __init__(self, number: int, state: str, move: str, allowed: Iterable[str]) -> None:
        self.number = number
        self.state = state
        self.move = move
        self.allowed = tuple(allowed)
        super().__init__(f"block rule {number} is {state}: {move} is allowed only from {' or '.join(self.allowed)}")


class UnknownUser(Refused):
    """There is no user of that name. `towpath user list` shows those there are."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no user {name!r}; `towpath user list` shows those there are")


class UserExists(Refused):
    """There is a user of that name already, perhaps a disabled one. Choose another name, or enable that one."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is a user {name!r} already; choose another name, or enable that one")


class LastAdmin(Refused):
    """Nobody would be left who may change access. Make another user an admin first."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name!r} is the last admin who is enabled; make another one first")


class UnknownKey(Refused):
    """No API key has that id or begins so. `towpath key list` shows those there are."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"no key has the id or begins with {text!r}; `towpath key list` shows those there are")


class KeyEnded(Refused):
    """The API key was revoked before. There is nothing left to do."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        super().__init__(f"key {prefix} was revoked before")


class LinkUsed(Refused):
    """A link for choosing a password was used before, or its time is over. An admin makes another."""

    def __init__(self) -> None:
        super().__init__("this link was used before, or its time is over; `towpath user link NAME` makes another")


class UnknownView(Refused):
    """Nobody has saved a view of that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no saved view {name!r}")


class ForeignForm(Refused):
    """A change was asked for with a session, but not by a form of it. Load the page again, and send it from there."""

    def __init__(self) -> None:
        super().__init__("this form is not of your session, or from before you logged in; load the page again")


class NotLoggedIn(Refused):
    """No key or password came with the request, or one that does not count: unknown, revoked, at its end, disabled.

    It does not say which, so that nobody learns from it who is there.
    """


class TooManyFailures(NotLoggedIn):
    """Log-ins under this name or from this address have failed too often. Wait; `after_s` says how long."""

    def __init__(self, after_s: float) -> None:
        self.after_s = after_s
        super().__init__(f"log-ins have failed too often; try again in {after_s:.0f} s")


class NotAllowed(Refused):
    """Your role, or the key that you use, does not allow this. The text says what is needed."""


class RequestReused(Refused):
    """The idempotency key was used before for another request. Use a new one for each thing that is to be done."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the idempotency key {key!r} was used before for another request; use a new one")


class RequestRunning(Refused):
    """The same request is being worked on. Ask again a little later, with the same idempotency key."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the request with the idempotency key {key!r} is being worked on; ask again a little later")


class ShownOnce(Refused):
    """What was asked for was made, and its secret shown once. It is kept nowhere: make another."""
