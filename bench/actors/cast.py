"""The actors that are measured."""

from __future__ import annotations

import time

from bench.actors.contenders.contract import tell
from towpath.actors import Actor, End, Failed, Resume, Sleep, Turn, state

HERD_PER_TURN = 500
PASS_ON_S = 0.02


@state(resume=Resume.RETRY)
class One:
    number: int


@state(resume=Resume.RETRY)
class Two:
    number: int


@state(resume=Resume.RETRY)
class Three:
    number: int


@state(resume=Resume.RETRY)
class Four:
    number: int


@state(resume=Resume.RETRY)
class Five:
    number: int


class Stepper(Actor):
    """Does nothing in five states."""

    def transition(
        self, state: One | Two | Three | Four | Five | End | Failed, turn: Turn
    ) -> Two | Three | Four | Five | End | None:
        match state:
            case One(number):
                return Two(number)
            case Two(number):
                return Three(number)
            case Three(number):
                return Four(number)
            case Four(number):
                return Five(number)
            case Five(number):
                return End(number)
        return None


@state(resume=Resume.RETRY)
class Linger:
    """In the process of that name it never ends; in another one, that process being dead, it tells when it began."""

    victim: str


class Lingerer(Actor):
    """Lets itself be killed in the middle of a state."""

    process = ""  # the name of the one that it is in

    def transition(self, state: Linger | End | Failed, turn: Turn) -> Sleep | End | None:
        match state:
            case Linger(victim) if self.process == victim:
                tell(time.monotonic())
                while True:
                    time.sleep(60)
            case Linger(victim) if turn.attempt == 1:
                return Sleep(Linger(victim), seconds=PASS_ON_S)  # the survivor has it: pass it on
            case Linger(victim):
                tell(time.monotonic())
                return End()
        return None


@state(resume=Resume.RETRY)
class Nap:
    seconds: float
    naps: int = 0


class Sleeper(Actor):
    """Wakes up, does nothing, and sleeps again."""

    def transition(self, state: Nap | End | Failed, turn: Turn) -> Sleep | None:
        match state:
            case Nap(seconds, naps):
                return Sleep(Nap(seconds, naps + 1), seconds=seconds)
        return None


@state(resume=Resume.RETRY)
class Herd:
    upto: int
    seconds: float
    begun: int = 0


class Herder(Actor):
    """Puts very many to sleep."""

    def transition(self, state: Herd | End | Failed, turn: Turn) -> Herd | End | None:
        match state:
            case Herd(upto, seconds, begun) if begun < upto:
                several = range(begun, min(begun + HERD_PER_TURN, upto))
                for number in several:
                    turn.start(Sleeper, Nap(seconds), instance=f"sleeper-{number}")
                return Herd(upto, seconds, several.stop)
            case Herd():
                return End()
        return None


CAST = (Stepper, Lingerer, Sleeper, Herder)
