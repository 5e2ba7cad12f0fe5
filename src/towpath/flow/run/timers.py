"""Lets time pass for a stage with state: appends ticks for what is due. See `stateful/tick.py`."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import cached_property

from towpath.errors import DatabaseUnavailable, LogError
from towpath.flow.delivery.positions import Spot
from towpath.flow.run.context import Shard, StageContext
from towpath.flow.stateful.column_join import ColumnJoinKeeper
from towpath.flow.stateful.keeper import tick_record
from towpath.flow.stateful.operators import keepers_of
from towpath.log.record import Position

logger = logging.getLogger(__name__)

NEVER = -(1 << 62)  # before any time: those of events may be before 1970


class StageTimer:
    """Used by the stage's own thread, while its query runs.

    A shard gets no further ticks until those that it got have been read. Who is killed in between forgets that, and
    sends them again: what finds nothing due is filtered.
    """

    def __init__(self, ground: StageContext) -> None:
        self._ground = ground
        self._generation = 0
        self._sent: dict[Shard, list[Position]] = {}
        self._stops: Mapping[Spot, int] = {}  # up to where batches have read
        self._commits = 0  # that were told
        self._watermarks: tuple[int, Mapping[str, int]] | None = None  # by source, and after which commit it was asked

    def look(self) -> None:
        """Send what is due. What cannot be sent now is sent at the next look."""
        ground = self._ground
        if not ground.stage.is_stateful:
            return
        if self._generation != ground.row.generation:
            self._generation, self._sent = ground.row.generation, {}
        try:
            wanted = {shard: count for shard, count in self._due().items() if not self._is_underway(shard)}
            if wanted:
                self._send(wanted)
        except (LogError, DatabaseUnavailable) as error:
            logger.warning("%s: what is due has to wait: %s", ground.name, error)

    def _send(self, wanted: Mapping[Shard, int]) -> None:
        ground = self._ground
        order = [shard for shard, count in sorted(wanted.items()) for _ in range(count)]
        ticks = [tick_record(ground.stage.name, *shard) for shard in order]
        places = ground.log.append(ground.topics.reentry, ticks)
        self._sent |= {shard: [] for shard in wanted}
        for shard, place in zip(order, places, strict=True):
            self._sent[shard].append(place)

    def _is_underway(self, shard: Shard) -> bool:
        """Whether the shard has got ticks that no committed batch has read."""
        id, stops = self._ground.topic_ids[self._ground.topics.reentry], self._stops
        return any(offset >= stops.get((id, partition), 0) for partition, offset in self._sent.get(shard, ()))

    def _due(self) -> dict[Shard, int]:
        self._ground.dues.read(self._ground.row)
        return self._ground.dues.at(self._time)

    def _time(self, operator: int) -> int:
        """The time of day, as Spark gives it to batches; for a join on columns how far its watermark has come."""
        source = self._column_joins.get(operator)
        if source is None:
            return round(time.time() * 1000)
        return self._asked_watermarks().get(source, NEVER)

    def _asked_watermarks(self) -> Mapping[str, int]:
        """As the ledger has them. A batch may be committed while it is asked: then it is asked again the next time."""
        commits, known = self._commits, self._watermarks
        if known is None or known[0] != commits:
            known = self._watermarks = commits, self._ground.watermarks()
        return known[1]

    @cached_property
    def _column_joins(self) -> dict[int, str]:
        """Their sources, by the number of the operator."""
        ground = self._ground
        keepers = keepers_of(ground.stage, ground.topics.reentry, ground.max_record_bytes)
        return {at: keeper.source.name for at, keeper in enumerate(keepers) if isinstance(keeper, ColumnJoinKeeper)}

    @property
    def has_due(self) -> bool:
        """Whether there is something to be done now without any input; also when nobody can tell."""
        try:
            return self._ground.stage.is_stateful and bool(self._due())
        except (LogError, DatabaseUnavailable):
            return True

    def passed(self, stops: Mapping[Spot, int]) -> None:
        """A batch was committed that has read so far."""
        self._stops = stops
        self._commits += 1

    def forget(self) -> None:
        """Nobody here has seen how the last batch was committed: ask the table."""
        self._generation = 0
        self._commits += 1
        self._ground.dues.forget()
