"""One message in the hands of a spawned process: what its code is given, and what came of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from towpath.queue.message import Message

if TYPE_CHECKING:
    from towpath import Runtime


class Cancelled(BaseException):
    """Raised in the code that works on a message when the process is to end. Clean up in `finally`, and be quick."""


@dataclass(frozen=True, slots=True)
class JobFailed:
    """The work came to nothing: its message is ERR, with the reason."""

    reason: str


class Job:
    """Handed to the entry point for each message. What that returns is the answer; what it raises makes it ERR."""

    def __init__(self, message: Message, runtime: Runtime) -> None:
        self.message = message
        self.runtime = runtime
        """Towpath with the same settings: queue, topics, flows."""
        self.told: tuple[float, str] | None = None

    @property
    def payload(self) -> Any:
        return self.message.payload

    @property
    def function(self) -> str:
        return self.message.function

    @property
    def attempt(self) -> int:
        """1, and one more for every process that died over this message."""
        return self.message.failures

    def progress(self, percent: float, stage: str = "") -> None:
        """Say how far it is, 0 to 100, and at what. It costs nothing: it is written down about twice a second."""
        percent = 0.0 if math.isnan(percent) else min(max(float(percent), 0.0), 100.0)
        self.told = (percent, str(stage))
