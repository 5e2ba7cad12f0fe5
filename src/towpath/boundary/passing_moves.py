"""What is news about the way of an upload through the stages. Pure; docs/explanation/boundary.md has the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from towpath.boundary.closing_plan import StreamPlan
from towpath.boundary.pass_store import ALL_STAGES, EVERYTHING, WRITTEN, Pass
from towpath.boundary.passing import NOWHERE, Reached, has_come_to, latest
from towpath.boundary.sender import Sender

Key = tuple[str, str]  # input and stage


class Fix(NamedTuple):
    """An end that is to be written down. `stops` None: it is that of the topic as it is now."""

    input: str
    stage: str
    topic: str = ""
    stops: Mapping[int, int] | None = None


class PassingMoves:
    """Looks once at an upload; `fixes` are ends that are known now, `marks` those that a stage has come to."""

    def __init__(
        self, plan: StreamPlan, senders: Sequence[Sender], passes: Sequence[Pass], reached: Mapping[str, Reached]
    ) -> None:
        self.fixes: list[Fix] = []
        self.marks: list[Key] = []
        self._plan = plan
        self._senders = {input: [each for each in senders if each.input == input] for input in plan.topics}
        self._reached = reached
        self._known = {(each.input, each.stage): each for each in passes}
        self._passed = {key for key, each in self._known.items() if each.is_passed}

    def look(self, is_closing: bool) -> None:
        for input, senders in self._senders.items():
            if senders and all(sender.is_finished for sender in senders):
                self._look_at_input(input, senders)
        if is_closing:
            self._look_at_written()
            self._look_at_everything()

    def _look_at_input(self, input: str, senders: Sequence[Sender]) -> None:
        """Acts 2 and 3."""
        stages, topic = self._plan.ways.direct.get(input, ()), self._plan.topics[input]
        if (input, ALL_STAGES) not in self._known:
            stops = latest([sender.ends or {} for sender in senders])
            self.fixes += [*(Fix(input, stage, topic, stops) for stage in stages), Fix(input, ALL_STAGES)]
            return
        for stage in stages:
            self._look_at_stage((input, stage), topic)
        if all((input, stage) in self._passed for stage in stages):
            self._mark((input, ALL_STAGES))

    def _look_at_written(self) -> None:
        """Act 4."""
        for each in self._plan.ways.written:
            key = WRITTEN + each.topic, each.stage
            if key in self._known:
                self._look_at_stage(key, each.topic)
            elif all(map(self._is_done, each.writers)):
                self.fixes.append(Fix(*key, each.topic))

    def _look_at_everything(self) -> None:
        """Act 5."""
        if (EVERYTHING, ALL_STAGES) in self._passed:
            return
        inputs = [(input, ALL_STAGES) for input, senders in self._senders.items() if senders]
        written = [(WRITTEN + each.topic, each.stage) for each in self._plan.ways.written]
        if all(key in self._passed for key in (*inputs, *written)):
            self.fixes.append(Fix(EVERYTHING, ALL_STAGES))
            self._mark((EVERYTHING, ALL_STAGES))

    def _look_at_stage(self, key: Key, topic: str) -> None:
        if has_come_to(self._reached.get(key[1], NOWHERE), topic, self._known[key].ends):
            self._mark(key)

    def _mark(self, key: Key) -> None:
        if key not in self._passed:
            self.marks.append(key)
            self._passed.add(key)

    def _is_done(self, stage: str) -> bool:
        """Whether a stage has passed all that it is to read of this upload."""
        direct = self._plan.ways.direct.items()
        read = [(input, stage) for input, stages in direct if self._senders[input] and stage in stages]
        fed = [(WRITTEN + each.topic, stage) for each in self._plan.ways.written if each.stage == stage]
        return all(key in self._passed for key in (*read, *fed))
