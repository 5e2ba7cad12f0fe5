"""Errors of flows and sinks, of Spark, and of local servers."""

from __future__ import annotations

from collections.abc import Iterable

from towpath.errors.base import Refused, TowpathError


class BadFlow(Refused):
    """A flow is declared in a way that cannot work: an unknown input, a name used twice. The text says which."""


class UnknownFlow(Refused):
    """No flow of that name has run against this database. `towpath flow list` shows those that have."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = sorted(known)
        super().__init__(f"no flow is named {name!r}; those that have run here: {', '.join(self.known) or 'none'}")


class IllegalWish(Refused):
    """The stage is not in a state in which this can be asked of it. The text names the state and what is possible."""


class FlowError(TowpathError):
    """A flow cannot go on as it is."""


class SinkError(FlowError):
    """A sink took nothing of a request: it is away, broken or refuses everything. `code` is the error code.

    The batch is tried again after a while, without end.
    """

    def __init__(self, code: int, target: str, message: str) -> None:
        self.code = int(code)
        self.target = target
        self.message = message
        super().__init__(self.code, target, message)  # what it is made of again in another process

    def __str__(self) -> str:
        return f"{self.target}: {self.message}"


class NeedsPerson(SinkError):
    """A sink refuses every single record, or cannot hold any: to wait would not help. The stage halts."""


class IllegalFlowMove(FlowError):
    """A stage or a batch cannot go from its state to that one. A fault in the program, or someone was faster."""

    def __init__(self, what: str, state: str, target: str, allowed: Iterable[str]) -> None:
        self.what = what
        self.state = state
        self.target = target
        self.allowed = tuple(sorted(allowed))
        super().__init__(f"{what} is {state} and cannot become {target}: only {', '.join(self.allowed) or 'nothing'}")


class FlowHalted(FlowError):
    """A stage cannot go on without a person. The text says what happened and what to do."""


class NotTheOnlyOne(FlowError):
    """Another process that is alive runs this stage. Stop it first, or wait until its lease is over."""


class SparkFailed(TowpathError):
    """Spark did not start, or runs in this process in another way than it is needed. The text says what to do."""


class FetchFailed(TowpathError):
    """A file could not be fetched from its registry, or is not the one that was expected. Nothing of it is kept."""


class ServerFailed(TowpathError):
    """A local server could not be set up, started or stopped. The text ends with the last lines of its log."""
