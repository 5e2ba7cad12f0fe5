"""Actors that walk from Begin over Middle to their end, one for each resume policy, and say so in a journal."""

from __future__ import annotations

from typing import ClassVar

from towpath.actors import Actor, End, Failed, Resume, Turn, state
from towpath.testing.queue_ledger import Journal

WORK = "work"


class Walker(Actor):
    """Walks."""

    journal: ClassVar[Journal]

    def say(self, name: str, turn: Turn) -> None:
        self.journal.write(did=name, run=turn.run_id)


@state(resume=Resume.RETRY)
class RetryBegin:
    pass


@state(resume=Resume.RETRY)
class RetryMiddle:
    pass


class RetryWalker(Walker):
    """Walks, and runs again what was interrupted."""

    name = "retry"

    def transition(self, state: RetryBegin | RetryMiddle | End | Failed, turn: Turn) -> RetryMiddle | End | None:
        self.say(type(state).__name__, turn)
        match state:
            case RetryBegin():
                return RetryMiddle()
            case RetryMiddle():
                turn.notice(WORK, "DONE")
                return End("walked")
        return None


@state(resume=Resume.RESTART)
class RestartBegin:
    pass


@state(resume=Resume.RESTART)
class RestartMiddle:
    pass


class RestartWalker(Walker):
    """Walks, and begins anew when it was interrupted."""

    name = "restart"

    def transition(self, state: RestartBegin | RestartMiddle | End | Failed, turn: Turn) -> RestartMiddle | End | None:
        self.say(type(state).__name__, turn)
        match state:
            case RestartBegin():
                return RestartMiddle()
            case RestartMiddle():
                turn.notice(WORK, "DONE")
                return End("walked")
        return None


@state
class FailBegin:
    pass


@state
class FailMiddle:
    pass


class FailWalker(Walker):
    """Walks, and fails when it was interrupted."""

    name = "fail"

    def transition(self, state: FailBegin | FailMiddle | End | Failed, turn: Turn) -> FailMiddle | End | None:
        self.say(type(state).__name__, turn)
        match state:
            case FailBegin():
                return FailMiddle()
            case FailMiddle():
                turn.notice(WORK, "DONE")
                return End("walked")
        return None


WALKERS: dict[Resume, type[Walker]] = {
    Resume.RETRY: RetryWalker,
    Resume.RESTART: RestartWalker,
    Resume.FAIL: FailWalker,
}
