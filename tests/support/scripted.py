"""An actor that follows a script, and a host whose every round a test makes itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.quiet import Quiet

from towpath.actors import Actor, End, Failed, Resume, Sleep, Turn, Wait, state
from towpath.actors.engine.host import Host
from towpath.actors.engine.run import ClaimedTurn

OUT, WORK = "out", "work"
SLEEP_S = 100.0
TIMEOUT_S = 50.0


@state(resume=Resume.RETRY)
class Step:
    """One word of the script."""

    script: list[str]
    at: int = 0
    tag: str = ""


@state(resume=Resume.RETRY)
class Late:
    """No answer came in time."""

    script: list[str]
    at: int
    tag: str = ""


class Scripted(Actor):
    """Does what its script says, and says so in the inbox `out`."""

    def transition(self, state: Step | Late | End | Failed, turn: Turn) -> Any:
        match state:
            case Late(script, at, tag):
                turn.notice(OUT, "LATE", [tag or turn.run_id, -at])
                return Step(script, at, tag)
            case Step(script, at, tag) if at < len(script):
                next_step = Step(script, at + 1, tag)
                turn.notice(OUT, "DID", [tag or turn.run_id, at])
                return self._do(script[at], next_step, turn)
            case Step(script):
                return End(len(script))
        return None

    def _do(self, word: str, next_step: Step, turn: Turn) -> Any:
        match word:
            case "go":
                return next_step
            case "sleep":
                return Sleep(next_step, seconds=SLEEP_S)
            case "ask":
                return Wait(turn.send(WORK, "Q"), next_step)
            case "ask a while":
                late = Late(next_step.script, next_step.at, next_step.tag)
                return Wait(turn.send(WORK, "Q"), next_step, TIMEOUT_S, otherwise=late)
            case "call":
                child = turn.call(Scripted, Step(["go", "go"], tag=f"{turn.run_id}/{next_step.at}"))
                return Wait(child, next_step)
        raise RuntimeError(word)


class InThisThread:
    """In the place of threads: what is handed over is done at once."""

    def __init__(self, do: Callable[[ClaimedTurn], None]) -> None:
        self._do = do

    def begin(self, work: ClaimedTurn, in_hand: int) -> None:
        self._do(work)

    def end(self) -> None:
        pass


class Driven:
    """A host on a runtime without services."""

    def __init__(self, quiet: Quiet) -> None:
        self.quiet = quiet
        self.actors = quiet.runtime.actors
        self.actors.register(Scripted)
        self.host: Host = self.actors.host()
        self.host._workers = InThisThread(self.host._run)  # type: ignore[assignment]

    def settle(self) -> None:
        """Make rounds until there is nothing left to do now. Raises `Crashed` where it is told to."""
        while True:
            self.host._upkeep_at = self.host._strays_at = float("-inf")
            if self.host.run_once().done == 0 and not self.host._done:
                return

    def die(self) -> None:
        """Be gone without a word: nothing is given back, and nobody is told but by the process row."""
        self.quiet.process.stop()
