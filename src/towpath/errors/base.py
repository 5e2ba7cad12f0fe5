"""Errors of no single part: the base of the tree, settings, names, values, notifications and the life of a process."""

from __future__ import annotations

from collections.abc import Iterable


class TowpathError(Exception):
    """Base of every error that Towpath raises on purpose. Catch this to catch them all."""


class BadSettings(TowpathError):
    """A settings file, variable or flag holds something that cannot be used. The text names the place and the key."""


class NotInstalled(TowpathError):
    """A program or package is missing on this machine. The text names it and the command that installs it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} is not installed: {remedy}")
        self.what = what
        self.remedy = remedy


class Refused(TowpathError):
    """The request is not allowed as it stands. Nothing was written; mend the call."""


class BadPayload(Refused):
    """The payload or headers cannot be stored: not JSON, too large, or holding NUL or unpaired surrogates."""


class BadName(Refused):
    """An inbox, function or header name is empty, too long or has characters that are not allowed."""


class BadValue(Refused):
    """A number or an option lies outside what is allowed. The text says what is."""


class UnknownState(Refused):
    """That is not one of the message states. The text lists them."""

    def __init__(self, state: str, allowed: Iterable[str]) -> None:
        self.state = state
        self.allowed = tuple(allowed)
        super().__init__(f"{state!r} is not a message state; allowed: {', '.join(self.allowed)}")


class UnknownCleaning(Refused):
    """There is nothing of that name to clean. `towpath maintenance list` shows what there is."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"there is nothing called {name!r} to clean; there are: {', '.join(self.known)}")


class NotWhileInUse(Refused):
    """This cannot be done while other processes are at work. Stop them, or do it all the same if you know better."""


class UnknownTarget(Refused):
    """Notifications have no target of that name. `towpath notify list` shows those in the settings."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = sorted(known)
        super().__init__(f"no target is named {name!r}; in the settings: {', '.join(self.known) or 'none'}")


class TooFast(TowpathError):
    """More was asked or sent with a key than it may. Nothing was taken; try again after `after_s`."""

    def __init__(self, why: str, after_s: float) -> None:
        self.after_s = after_s
        super().__init__(f"{why}; try again in {after_s:.1f} s")


class NotDelivered(TowpathError):
    """A webhook or a mail server did not take a notification. It is tried again for a while, then the message is ERR.

    `is_final`: to try again would not help.
    """

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        self.is_final = is_final
        super().__init__(message)


class ProcessDead(TowpathError):
    """This process was declared dead by another, or could not renew its lease in time. It must not go on working."""
