"""What a scenario is: a death at a crash point, a recovery, a comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tests.recovery.acts import ASKER, INBOX
from tests.recovery.stage import Stage

from towpath.core.crash import CrashPoint


@dataclass(frozen=True)
class Scenario(ABC):
    """Die at the `passes`-th pass through the point; then recover and compare."""

    passes: int = 1

    @abstractmethod
    def crash(self, stage: Stage, point: CrashPoint) -> None:
        """Prepare the database and let a process die at the point."""

    def recover(self, stage: Stage) -> None:
        """Let a fresh process bring everything to its end."""
        stage.run("recover")

    @abstractmethod
    def check(self, stage: Stage, point: CrashPoint) -> None:
        """Compare what is with what must be."""

    def at(self, point: CrashPoint) -> str:
        return f"{point}:{self.passes}"


def fill(stage: Stage, function: str, is_request: bool, count: int, inbox: str = INBOX) -> None:
    """Send work to be done, from this process."""
    if inbox == INBOX:
        stage.runtime.queue.inbox(inbox)
    box = stage.runtime.queue.outbox(ASKER)
    for number in range(count):
        (box.send if is_request else box.notice)(inbox, function, {"n": number})
