"""Whether a sender has to wait: for another input of its upload, or for the flow, which has too much to read."""

from __future__ import annotations

import threading

from towpath.boundary.pass_store import PassStore
from towpath.boundary.sender import Sender
from towpath.boundary.streams import Stream
from towpath.boundary.taking_parts import TakingParts
from towpath.clock import Clock
from towpath.errors import NotYet
from towpath.flow.stage_store import Stage, StageStore

TRUSTED_S = 1.0  # how long what was found out about a flow is believed


class Readiness:
    """Asked before every chunk, so what takes time is asked once a second."""

    def __init__(self, parts: TakingParts, clock: Clock) -> None:
        self._parts = parts
        self._clock = clock
        self._passes = PassStore(parts.database)
        self._stages = StageStore(parts.database)
        self._lock = threading.Lock()
        self._behind: dict[tuple[str, str], tuple[float, int]] = {}  # by flow and topic: when asked, how many

    def check(self, stream: Stream, sender: Sender) -> None:
        """Raise `NotYet` when the sender has to wait."""
        for name in stream.input(sender.input).after:
            self._check_passed(sender, name)
        if stream.flow:
            self._check_behind(stream.flow, stream.input(sender.input).topic)

    def _check_passed(self, sender: Sender, name: str) -> None:
        with self._parts.database.read() as tx:
            is_sent = any(each.input == name for each in self._parts.senders.of_upload(tx, sender.upload))
            is_passed = not is_sent or self._passes.has_passed(tx, sender.upload, name)
        if not is_passed:
            raise self._not_yet(
                "after", f"{sender.input} is taken when {name} of this upload is through; send it later"
            )

    def _check_behind(self, flow: str, topic: str) -> None:
        most = self._parts.settings.gateway.behind_records
        behind = self._known_behind(flow, topic)
        if behind > most:
            message = f"flow {flow} has about {behind} records of {topic} to read (gateway.behind_records is {most})"
            raise self._not_yet("behind", f"{message}; send it later")

    def _known_behind(self, flow: str, topic: str) -> int:
        now = self._clock.monotonic()
        with self._lock:
            asked_at, behind = self._behind.get((flow, topic), (float("-inf"), 0))
        if now - asked_at > TRUSTED_S:
            behind = self._measured(flow, topic)
            with self._lock:
                self._behind[flow, topic] = (now, behind)
        return behind

    def _measured(self, flow: str, topic: str) -> int:
        """How far the slowest stage is behind the end of the topic. Offsets are no counts, but near enough for this."""
        with self._parts.database.read() as tx:
            stages = self._stages.list(tx, flow)
        positions = [found for stage in stages if (found := _positions(stage, topic))]
        if not positions:
            return 0
        starts, ends = self._parts.log.starts(topic), self._parts.log.ends(topic)
        return max(
            sum(max(0, end - max(each.get(number, 0), starts.get(number, 0))) for number, end in ends.items())
            for each in positions
        )

    def _not_yet(self, reason: str, message: str) -> NotYet:
        return NotYet(reason, message, self._parts.settings.gateway.retry_after_s)


def _positions(stage: Stage, topic: str) -> dict[int, int]:
    """Where the stage was in the topic when it last said so, by partition."""
    partitions = stage.sample.get("partitions", ())
    return {each["partition"]: each["position"] for each in partitions if each["topic"] == topic}
