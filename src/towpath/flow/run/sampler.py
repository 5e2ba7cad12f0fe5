"""How far a running stage is: position, end, lag and rate of each partition, looked at without stopping anything."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from typing import Any

from towpath.core.clock import MICROS
from towpath.errors import DatabaseUnavailable, LogError
from towpath.flow.delivery.ledger import Batch
from towpath.flow.delivery.positions import Spot
from towpath.flow.run.context import StageContext
from towpath.flow.run.outcome import BatchOutcome
from towpath.flow.stage.history import LagHistory, Speeds
from towpath.flow.topics import group_of

logger = logging.getLogger(__name__)

RATE_WINDOW_S = 10.0
GROUP_S = 5.0  # Kafka wants a connection for each commit of positions


class Sampler:
    """Looks at the ends of the topics every so often and writes down the distance. Used by the stage's own thread."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._every_s = context.settings.flow.sample_s
        self._looked_at = 0.0
        self._stops: dict[Spot, int] = {}
        self._generation = 0
        self._done: deque[tuple[float, int]] = deque()  # when, how many records
        self._group = group_of(context.row.flow, context.row.name)
        self._told: dict[tuple[str, int], int] = {}  # where the log believes the stage to be
        self._told_at = -GROUP_S
        self._history = LagHistory(context.row.sample.get("history", ()))
        self._speeds: Speeds[Spot] = Speeds(RATE_WINDOW_S)
        self.totals: Counter[str] = Counter()
        self.latest: dict[str, Any] = {}
        self.idle_looks = 0  # how often in a row there was nothing to read

    def add(self, batch: Batch, outcome: BatchOutcome) -> None:
        """A batch was committed."""
        self._stops.update(batch.positions.stops)
        self._done.append((time.monotonic(), outcome.read))
        self.totals.update(read=outcome.read, loaded=outcome.loaded, failed=sum(outcome.failed.values()))
        self.totals.update(filtered=sum(outcome.filtered.values()), batches=1)
        self.idle_looks = 0

    def forget(self) -> None:
        """Ask the ledger where the stage is at the next look."""
        self._generation = 0

    def sample(self) -> None:
        """Look, if it is time. What cannot be looked at now is looked at later: nothing depends on it."""
        if time.monotonic() - self._looked_at < self._every_s:
            return
        self._looked_at = time.monotonic()
        try:
            self._look(self._looked_at)
        except (LogError, DatabaseUnavailable) as error:
            logger.debug("%s cannot be looked at: %s", self._context.name, error)

    def finish(self) -> None:
        """Tell the log where the stage has come to, now that it rests."""
        if self.latest:
            self._told_at = -GROUP_S
            self._looked_at = 0.0
            self.sample()

    def _look(self, now: float) -> None:
        context = self._context
        if self._generation != context.row.generation:
            self._stops = {}  # what a batch adds while the ledger is asked is newer than its answer
            for spot, stop in context.last_stops().items():
                self._stops.setdefault(spot, stop)
            self._generation = context.row.generation
        self._speeds.see(self._stops, now)
        partitions = [
            self._partition(name, id, number, end)
            for name, id in context.topic_ids.items()
            for number, end in sorted(context.log.ends(name).items())
        ]
        lag = sum(each["lag"] for each in partitions)
        self.idle_looks = self.idle_looks + 1 if lag == 0 else 0
        rate = self._rate(now)
        self._history.see(lag, rate, now, lambda: context.database.now() / MICROS)
        told = {"lag": lag, "rate": rate, "totals": dict(self.totals), "history": self._history.stored()}
        self.latest = {"partitions": partitions, **told}
        with context.database.transaction() as tx:
            context.stages.save_sample(tx, context.row.flow, context.row.name, context.owner, self.latest)
        self._tell({(each["topic"], each["partition"]): each["position"] for each in partitions}, now)

    def _tell(self, reached: dict[tuple[str, int], int], now: float) -> None:
        """Commit the positions for the log's sake. Nothing of the stage's own depends on them."""
        if reached == self._told or now - self._told_at < GROUP_S:
            return
        self._told_at = now
        try:
            self._context.log.commit_positions(self._group, reached)
            self._told = reached
        except Exception as error:
            logger.warning("%s: the log does not know how far it is: %s", self._context.name, error)

    def _partition(self, topic: str, id: str, number: int, end: int) -> dict[str, Any]:
        position = self._stops.get((id, number), 0)
        lag, rate = max(0, end - position), self._speeds.of((id, number))
        return {"topic": topic, "partition": number, "position": position, "end": end, "lag": lag, "rate": rate}

    def _rate(self, now: float) -> float:
        while self._done and now - self._done[0][0] > RATE_WINDOW_S:
            self._done.popleft()
        return round(sum(count for _, count in self._done) / RATE_WINDOW_S, 1)
