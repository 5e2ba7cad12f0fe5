"""The balance of a flow: `arrived = loaded + filtered + … + in flight`. Pure: rows and counts in, figures out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from towpath.flow.audit.arrival import is_arrival, readable
from towpath.flow.audit.batch_row import BatchRow, StageRows
from towpath.flow.audit.counting import in_flight
from towpath.flow.audit.errors import ErrorsFound
from towpath.flow.audit.problem import Problem, ProblemKind, Unproven
from towpath.flow.audit.spans import uncovered
from towpath.flow.audit.tally import Tally
from towpath.flow.audit.view import View
from towpath.flow.place import BY_BATCH, Place
from towpath.flow.positions import Range, Spot

DELETED = "deleted from the topic since"
ALWAYS_SHOWN = (Place.LOADED, Place.FILTERED, Place.FAILED)


@dataclass(slots=True)
class Balance:
    """Figures in records.

    Each arrival is counted once. What a reset has made a stage read again, and what came back from the desk, is in the
    places once more, so it stands beside the arrivals.
    """

    arrived: int = 0
    again: int = 0  # read by a later generation once more
    returned: int = 0  # from the re-entry topic
    places: Counter[Place] = field(default_factory=Counter)
    skipped: int = 0  # offsets: at most so many records
    delivered: Counter[str] = field(default_factory=Counter)  # deliveries, by output

    @property
    def placed(self) -> int:
        return sum(count for place, count in self.places.items() if place.is_balanced)

    @property
    def difference(self) -> int:
        return self.arrived + self.again + self.returned - self.placed

    def to_json(self) -> dict[str, Any]:
        return {
            "arrived": self.arrived,
            "read_again": self.again,
            "returned": self.returned,
            "places": {place: self.places[place] for place in Place if place.is_balanced and self.places[place]},
            "difference": self.difference,
            "skipped_at_most": self.skipped,
        }


class Balancing:
    """Adds up a view, batch by batch, and says where it does not fit."""

    def __init__(self, view: View, tallies: Mapping[Spot, Tally], errors: ErrorsFound) -> None:
        self._view = view
        self._tallies = tallies
        self._errors = errors
        self.balance = Balance()

    def run(self) -> Iterator[Problem | Unproven]:
        for stage in self._view.stages:
            gaps = [gap.place for gap in stage.gaps]
            for batch in stage.committed:
                yield from self._batch(stage, batch)
            self._covered(stage, gaps)
            self._in_flight(stage)
            yield from self._beyond(stage)
            self.balance.skipped += sum(gap.stop - gap.start for gap in gaps)

    def _batch(self, stage: StageRows, batch: BatchRow) -> Iterator[Problem | Unproven]:
        read = batch.count("read")
        parts = list(_read_by(stage, batch))
        counted = {part: self._tallies[part.spot].count(part) for part in parts}
        there = sum(counted.values())
        deleted = [part for part in parts if not self._tallies[part.spot].is_whole(part)]
        if deleted:
            what = f"what batch {batch.batch_id} of generation {batch.generation} has read"
            yield Unproven(stage.name, what, f"{DELETED}: {'; '.join(map(str, deleted))}", read)
        if there > read or (there < read and not deleted):
            told = (f"{read} records, as the ledger says", f"{there} in the topic")
            yield Problem(ProblemKind.READ, stage.name, *told, batch.generation, batch.batch_id, batch.ranges)
        returned = sum(count for part, count in counted.items() if not is_arrival(stage.flow, part.topic))
        self.balance.returned += returned
        self.balance.arrived += (read if deleted else there) - returned
        self._place(batch)

    def _place(self, batch: BatchRow) -> None:
        places = self.balance.places
        for place in BY_BATCH:
            count = self._errors.failed(batch) if place is Place.FAILED else batch.count(place)
            if count or place in ALWAYS_SHOWN:
                places[place] += count
        for output in _outputs(batch):
            self.balance.delivered[output] += batch.delivered(output)

    def _covered(self, stage: StageRows, gaps: list[Range]) -> None:
        """What two generations have read has arrived once; what no batch has read has arrived all the same."""
        covered: dict[Spot, list[Range]] = {}
        for batch in stage.committed:
            for part in _read_by(stage, batch):
                before = covered.setdefault(part.spot, [])
                if any(part.start < each.stop for each in before):
                    self._count_again(part, before)
                _cover(before, part)
        for stretches in covered.values():
            first, last = min(stretches), max(each.stop for each in stretches)
            if is_arrival(stage.flow, first.topic):
                lost = uncovered(first._replace(stop=last), [*stretches, *gaps])
                self.balance.arrived += sum(self._tallies[each.spot].count(each) for each in lost)

    def _count_again(self, part: Range, before: list[Range]) -> None:
        if is_arrival(self._view.flow, part.topic):
            tally = self._tallies[part.spot]
            again = tally.count(part) - sum(tally.count(new) for new in uncovered(part, before))
            self.balance.again += again
            self.balance.arrived -= again

    def _in_flight(self, stage: StageRows) -> None:
        for place in in_flight(stage, self._view.topics):
            if is_arrival(stage.flow, place.topic):
                waiting = self._tallies[place.spot].count(place)
                self.balance.arrived += waiting
                self.balance.places[Place.IN_FLIGHT] += waiting

    def _beyond(self, stage: StageRows) -> Iterator[Problem]:
        """The log was asked after the ledger: no batch ends beyond it."""
        for batch in stage.committed:
            for place in batch.positions:
                topic = self._view.topics.get(place.topic)
                end = topic.ends.get(place.partition, 0) if topic and topic.id == place.topic_id else place.stop
                if place.stop > end:
                    told = (f"at most {end}", str(place.stop), batch.generation, batch.batch_id, (place,))
                    yield Problem(ProblemKind.BEYOND, stage.name, *told)


def settle(balance: Balance, elsewhere: Mapping[Place, int], superseded: int, beyond: int) -> Iterator[Problem]:
    """Those that failed are in other places by now: on the desk, in a lane.

    `superseded` have failed and were read again: what is said of them since counts, and they did not arrive again.
    `beyond` are those that the desk has not come to. The others must be somewhere.
    """
    balance.returned -= superseded
    left = balance.places[Place.FAILED] - superseded
    moved = sum(elsewhere.values())
    if moved + beyond != left:
        told = (f"{left} that have failed and were not read again", f"{moved} at the desk and {beyond} beyond it")
        yield Problem(ProblemKind.PLACES, "-", *told)
    balance.places.update(elsewhere)
    balance.places[Place.FAILED] = beyond


def _read_by(stage: StageRows, batch: BatchRow) -> Iterator[Range]:
    """What a reset has passed over may have been read by a later generation: a gap counts in its own."""
    return readable(batch.ranges, [gap.place for gap in stage.gaps if gap.generation == batch.generation])


def _cover(covered: list[Range], part: Range) -> None:
    """Batches follow each other, so this stays one range for each stretch."""
    if covered and covered[-1].start <= part.start <= covered[-1].stop:
        covered[-1] = covered[-1]._replace(stop=max(covered[-1].stop, part.stop))
    else:
        covered.append(part)


def _outputs(batch: BatchRow) -> list[str]:
    delivered = batch.counts.get("delivered", {})
    return list(delivered) if isinstance(delivered, Mapping) else []
