"""Actors for tests: small ones, each for one thing that actors can do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from towpath.actors import Actor, End, Failed, Resume, Sleep, Turn, Wait, state
from towpath.actors.engine.host import Host
from towpath.actors.instance import Instance, Phase
from towpath.queue import Message
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until


@state(resume=Resume.RETRY)
class Count:
    """Counts up to `upto`."""

    upto: int
    n: int = 0


class Counter(Actor):
    """Counts."""

    def transition(self, state: Count | End | Failed, turn: Turn) -> Count | End | None:
        match state:
            case Count(upto, n) if n < upto:
                return Count(upto, n + 1)
            case Count(n=n):
                return End(n)
        return None


@state
class Ask:
    inbox: str
    timeout_s: float | None = None


@state(resume=Resume.RETRY)
class Heard:
    question: str


@state
class Nothing:
    """Nobody has answered."""


class Asker(Actor):
    """Asks somebody and tells what it heard."""

    def transition(self, state: Ask | Heard | Nothing | End | Failed, turn: Turn) -> Wait | End | Failed | None:
        match state:
            case Ask(inbox, timeout_s):
                question = turn.send(inbox, "ASK", {"from": turn.instance})
                otherwise = None if timeout_s is None else Nothing()
                return Wait(question, Heard(question), timeout_s, otherwise)
            case Heard(question):
                answer = turn.answer(question)
                assert answer is not None
                return End(answer.payload) if answer.is_ok else Failed(answer.payload["error"])
            case Nothing():
                return End("nothing")
        return None


@state
class Nap:
    seconds: float


@state(resume=Resume.RETRY)
class Awake:
    pass


class Sleeper(Actor):
    """Sleeps."""

    def transition(self, state: Nap | Awake | End | Failed, turn: Turn) -> Sleep | End | None:
        match state:
            case Nap(seconds):
                return Sleep(Awake(), seconds=seconds)
            case Awake():
                return End("awake")
        return None


@state
class Gather:
    upto: list[int]
    is_tied: bool = False


@state(resume=Resume.RETRY)
class Gathered:
    calls: list[str]


class Parent(Actor):
    """Lets several count, and adds up."""

    def transition(self, state: Gather | Gathered | End | Failed, turn: Turn) -> Wait | End | Failed | None:
        match state:
            case Gather(upto, is_tied):
                calls = [turn.call(Counter, Count(each), is_tied=is_tied) for each in upto]
                return Wait(calls, Gathered(calls))
            case Gathered(calls):
                answers = [turn.answer(each) for each in calls]
                bad = [each.payload["error"] for each in answers if each is not None and not each.is_ok]
                return Failed(bad[0]) if bad else End(sum(each.payload for each in answers if each is not None))
        return None


@state
class Do:
    what: str


class Doer(Actor):
    """Does what the test says, and remembers what it cleaned up after."""

    actions: dict[str, Callable[[Turn], Any]] = {}  # noqa: RUF012 - the test fills it
    cleaned: list[str] = []  # noqa: RUF012

    def transition(self, state: Do | End | Failed, turn: Turn) -> Any:
        match state:
            case Do(what):
                return self.actions[what](turn)
            case End():
                self.cleaned.append("End")
            case Failed(reason):
                self.cleaned.append(reason)
        return None


def payload_of(turn: Turn, question: str) -> Any:
    """What was answered."""
    answer = turn.answer(question)
    assert answer is not None
    return answer.payload


class Gate:
    """Code that holds until it is told."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.was_aborted: bool | None = None

    def __call__(self, turn: Turn) -> End:
        self.begun.set()
        assert self.go_on.wait(60)
        self.was_aborted = turn.is_aborted
        return End("late")


class Theatre:
    """A runtime with a host that runs all of these."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.actors = runtime.actors
        self.actors.register(Counter, Asker, Sleeper, Parent, Doer)
        self.host: Host = self.actors.host()

    def rest_of(self, actor: str, instance: str = "main", timeout_s: float = 30) -> Instance:
        """How it came to rest."""

        def rested() -> Instance | None:
            found = self.actors.instance(actor, instance)
            return found if found.phase in (Phase.ENDED, Phase.FAILED) else None

        found = wait_until(rested, timeout_s)
        assert found is not None
        return found

    def history(self, actor: str, instance: str = "main") -> list[tuple[str, str]]:
        """Function and state of all its messages, oldest first."""
        return [(each.function, each.state) for each in self.messages(actor, instance)]

    def messages(self, actor: str, instance: str = "main") -> list[Message]:
        return self.actors.history(actor, instance)[::-1]


@pytest.fixture
def theatre(runtime: Runtime) -> Iterator[Theatre]:
    Doer.actions.clear()
    Doer.cleaned.clear()
    made = Theatre(runtime)
    made.host.start()
    yield made
    made.host.stop()
