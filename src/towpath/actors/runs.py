"""The runs of an instance, as its messages tell them: each begins with a start; a state names the one before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from towpath.actors.state import End, Failed
from towpath.queue.message import Message
from towpath.queue.state import MessageState


class RunOutcome(StrEnum):
    """What came of a run."""

    SENT = "sent"  # its start waits for a process that takes it
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    REFUSED = "refused"  # the start was not let in


@dataclass(frozen=True, slots=True)
class Run:
    """From a start to the last message that is known."""

    start: Message
    last: Message
    states: int  # that it went through: the start only lets it in

    @property
    def id(self) -> str:
        return self.start.id

    @property
    def outcome(self) -> RunOutcome:
        if self.start is self.last and self.start.state is MessageState.NEW:
            return RunOutcome.SENT
        if self.start is self.last and self.start.state in (MessageState.ERR, MessageState.DEAD):
            return RunOutcome.REFUSED
        if self.last.state is MessageState.OK and self.last.function in (End.__name__, Failed.__name__):
            return RunOutcome.ENDED if self.last.function == End.__name__ else RunOutcome.FAILED
        if self.last.state in (MessageState.ERR, MessageState.DEAD):
            return RunOutcome.FAILED
        return RunOutcome.RUNNING

    @property
    def ended_at(self) -> datetime | None:
        return None if self.outcome in (RunOutcome.SENT, RunOutcome.RUNNING) else self.last.updated_at


def runs_of(history: Iterable[Message]) -> list[Run]:
    """The runs whose start is among these messages, newest first as they are."""
    runs: dict[str, Run] = {}
    run_of: dict[str, str] = {}
    for message in reversed(list(history)):
        run_id = message.id if message.related_id is None else run_of.get(message.related_id)
        if run_id is None:
            continue  # its start is older than what was read
        run_of[message.id] = run_id
        known = runs.get(run_id)
        runs[run_id] = Run(message, message, 0) if known is None else Run(known.start, message, known.states + 1)
    return list(runs.values())[::-1]
