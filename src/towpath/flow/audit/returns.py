"""What came back from the desk: which failures it supersedes, and what is read of it. By reading the re-entry topic."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from towpath.errors import LogError
from towpath.flow.audit.arrival import is_arrival
from towpath.flow.audit.batch_row import BatchRow, StageRows
from towpath.flow.audit.marks import Marks
from towpath.flow.positions import Range, Spot
from towpath.flow.reentry_record import ATTEMPT, CORRELATION, STAGE, said_by, sent_as
from towpath.log.log import Log

Try = tuple[str, int]  # correlation id, and the number of the attempt


class Return(NamedTuple):
    """A record of the re-entry topic that a batch of its stage has read."""

    batch: int  # its place among the batches of the stage
    spot: Spot
    offset: int
    correlation: str
    attempt: int


@dataclass(slots=True)
class Returns:
    """What the batches of a flow have read from the re-entry topic, those that are not committed apart."""

    read: set[Try] = field(default_factory=set)
    pending: set[Try] = field(default_factory=set)
    superseded: int = 0

    def add(
        self, stage: StageRows, found: list[Return], known: Collection[str], failed: Mapping[str, Mapping[Spot, Marks]]
    ) -> None:
        """What one stage has read; `failed` are the offsets at which batches have failures, by hash.

        A record that comes back takes the place of its failure before. When it is read once more, after a reset, there
        is no such failure, unless it has failed again.
        """
        settled: set[str] = set()
        for each in sorted(found):
            batch = stage.batches[each.batch]
            if not batch.is_committed:
                self.pending.add((each.correlation, each.attempt))
                continue
            self.read.add((each.correlation, each.attempt))
            if each.correlation not in known:
                continue
            self.superseded += each.correlation not in settled
            if each.offset in failed.get(batch.hash, {}).get(each.spot, ()):
                settled.discard(each.correlation)
            else:
                settled.add(each.correlation)


def returns_to(log: Log, stage: StageRows) -> Iterator[Return]:
    """All that batches of a stage have read from the re-entry topic for it, under a correlation id."""
    for spot, ranges in _ranges(stage).items():
        start, stop = min(each.start for _, each in ranges), max(each.stop for _, each in ranges)
        try:
            for record in log.read(ranges[0][1].topic, spot[1], start, stop):
                said = said_by(record.headers)
                if said.get(STAGE) != stage.name or not said.get(CORRELATION) or sent_as(said) in stage.recalled:
                    continue
                attempt = int(said.get(ATTEMPT, "1")) if said.get(ATTEMPT, "1").isdecimal() else 1
                for number, place in ranges:
                    if place.start <= record.offset < place.stop:
                        yield Return(number, spot, record.offset, said[CORRELATION], attempt)
        except LogError:
            continue  # deleted: the balance tells that it cannot be proven


def _ranges(stage: StageRows) -> dict[Spot, list[tuple[int, Range]]]:
    """What each batch has read of each partition of the re-entry topic."""
    found: dict[Spot, list[tuple[int, Range]]] = {}
    for number, batch in enumerate(stage.batches):
        for place in _reentry(stage, batch):
            found.setdefault(place.spot, []).append((number, place))
    return found


def _reentry(stage: StageRows, batch: BatchRow) -> Iterator[Range]:
    return (place for place in batch.ranges if not is_arrival(stage.flow, place.topic))
