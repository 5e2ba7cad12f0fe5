"""The balance of a flow: `arrived = loaded + filtered + … + in flight`, and what else an audit has come to.

`check_chain` looks whether the batches of a stage follow each other without a hole. `BalanceBuilder` adds up what they
have read. Both are pure: rows and counts in, figures and problems out.

`Settlement` finds where the records that failed are by now: what the desk says, held against the ledger and the log. At
every moment, for each record that has failed: one failure more than returns that were read, unless the last return was
loaded or filtered. So the failures that were not read again are as many as there are cases at the desk that are not
resolved, with those that it has not come to. The desk may know more than the ledger: a batch tells its errors and
outcomes before it is committed. What it knows from such a batch does not count yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby, islice, pairwise
from typing import Any

from towpath.flow.audit.errors import ErrorsFound, Returns, returns_to
from towpath.flow.audit.rows import (
    BatchRow,
    Problem,
    ProblemKind,
    StageRows,
    Unproven,
    flat_counts,
    is_arrival,
    readable,
    uncovered,
)
from towpath.flow.audit.view import AuditView, OffsetTally, in_flight
from towpath.flow.delivery.ids import batch_hash
from towpath.flow.delivery.ledger import BatchState
from towpath.flow.delivery.places import BY_BATCH, FailureHoldings, PlaceSource, RecordPlace
from towpath.flow.delivery.positions import OffsetRange, Positions, Spot
from towpath.log.log import Log

DELETED = "deleted from the topic since"
ALWAYS_SHOWN = (RecordPlace.LOADED, RecordPlace.FILTERED, RecordPlace.FAILED)
AT_ONCE = 1_000  # correlation ids that are asked for together


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """All of it."""

    flow: str
    batches: int
    balance: Balance
    outputs: Sequence[OutputVerdict]
    problems: Sequence[Problem]
    unproven: Sequence[Unproven]
    errors: dict[str, int] = field(default_factory=dict)  # of the error topic: what is no problem, and worth knowing

    @property
    def is_balanced(self) -> bool:
        return not self.problems and self.balance.difference == 0

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "is_balanced": self.is_balanced,
            "batches": self.batches,
            **self.balance.to_json(),
            "error_topic": self.errors,
            "outputs": [each.to_json() for each in self.outputs],
            "problems": [each.to_json() for each in self.problems],
            "not_provable": [each.to_json() for each in self.unproven],
        }


class Proof(StrEnum):
    """What is known about the contents of an output."""

    NOT_LOOKED = "not looked at"  # without --deep
    PROVEN = "proven"  # it holds what the ledger says, and nothing else
    PARTLY = "partly provable"  # what is there is right; what is not there may have been replaced
    NOT_PROVABLE = "not provable"  # it cannot be read back
    WRONG = "wrong"  # see the problems


@dataclass(frozen=True, slots=True)
class OutputVerdict:
    """One output of one stage, in deliveries."""

    stage: str
    output: str
    delivered: int
    proof: Proof = Proof.NOT_LOOKED
    found: int | None = None
    repeats: int = 0
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "output": self.output,
            "delivered": self.delivered,
            "found": self.found,
            "repeats": self.repeats,
            "proof": self.proof,
            "why": self.why,
        }


@dataclass(slots=True)
class Balance:
    """Figures in records.

    Each arrival is counted once. What a reset has made a stage read again, and what came back from the desk, is in the
    places once more, so it stands beside the arrivals.
    """

    arrived: int = 0
    again: int = 0  # read by a later generation once more
    returned: int = 0  # from the re-entry topic
    places: Counter[RecordPlace] = field(default_factory=Counter)
    skipped: int = 0  # offsets: at most so many records

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
            "places": {place: self.places[place] for place in RecordPlace if place.is_balanced and self.places[place]},
            "difference": self.difference,
            "skipped_at_most": self.skipped,
        }


class BalanceBuilder:
    """Adds up a view, batch by batch, and says where it does not fit."""

    def __init__(self, view: AuditView, tallies: Mapping[Spot, OffsetTally], errors: ErrorsFound) -> None:
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
            count = self._errors.failed(batch) if place is RecordPlace.FAILED else batch.count(place)
            if count or place in ALWAYS_SHOWN:
                places[place] += count

    def _covered(self, stage: StageRows, gaps: list[OffsetRange]) -> None:
        """What two generations have read has arrived once; what no batch has read has arrived all the same."""
        covered: dict[Spot, list[OffsetRange]] = {}
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

    def _count_again(self, part: OffsetRange, before: list[OffsetRange]) -> None:
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
                self.balance.places[RecordPlace.IN_FLIGHT] += waiting

    def _beyond(self, stage: StageRows) -> Iterator[Problem]:
        """The log was asked after the ledger: no batch ends beyond it."""
        for batch in stage.committed:
            for place in batch.positions:
                topic = self._view.topics.get(place.topic)
                end = topic.ends.get(place.partition, 0) if topic and topic.id == place.topic_id else place.stop
                if place.stop > end:
                    told = (f"at most {end}", str(place.stop), batch.generation, batch.batch_id, (place,))
                    yield Problem(ProblemKind.BEYOND, stage.name, *told)


def _read_by(stage: StageRows, batch: BatchRow) -> Iterator[OffsetRange]:
    """What a reset has passed over may have been read by a later generation: a gap counts in its own."""
    return readable(batch.ranges, [gap.place for gap in stage.gaps if gap.generation == batch.generation])


def _cover(covered: list[OffsetRange], part: OffsetRange) -> None:
    """Batches follow each other, so this stays one range for each stretch."""
    if covered and covered[-1].start <= part.start <= covered[-1].stop:
        covered[-1] = covered[-1]._replace(stop=max(covered[-1].stop, part.stop))
    else:
        covered.append(part)


@dataclass(slots=True)
class Settlement:
    """Compares what the desk holds with one view."""

    log: Log
    view: AuditView
    errors: ErrorsFound
    places: PlaceSource
    holdings: FailureHoldings

    def run(self, balance: Balance) -> Iterator[Problem | Unproven]:
        yield from self._taken()
        returns = Returns()
        for stage in self.view.stages:
            found = list(returns_to(self.log, stage))
            known = self._known({each.correlation for each in found})
            returns.add(stage, found, known, self.errors.marks)
        yield from settle(balance, self._elsewhere(returns), returns.superseded, self.errors.beyond)

    def _taken(self) -> Iterator[Problem | Unproven]:
        """What the desk says that it has read is in the topic, and what it has made of it is there."""
        held = self.holdings
        if held.records - held.repeats != held.attempts:
            told = (f"{held.records - held.repeats} failures that were taken in", f"{held.attempts} that are kept")
            yield Problem(ProblemKind.TAKEN, "-", *told)
        topic = self.view.errors
        if any(topic.starts.values()) or any(id != topic.id for id, _ in held.positions):
            yield Unproven("-", "that the desk has read every error", "the error topic is not whole any more")
        elif self.errors.taken != held.records - held.strays:
            told = (f"{self.errors.taken} error records in the topic", f"{held.records - held.strays} that it has read")
            yield Problem(ProblemKind.TAKEN, "-", *told)

    def _known(self, correlations: set[str]) -> set[str]:
        left = iter(sorted(correlations))
        known: set[str] = set()
        while some := list(islice(left, AT_ONCE)):
            known |= self.places.known(some)
        return known

    def _elsewhere(self, returns: Returns) -> Counter[RecordPlace]:
        early = {batch.hash for stage in self.view.stages for batch in stage.batches if not batch.is_committed}
        found: Counter[RecordPlace] = Counter()
        for (hash, place), count in self.holdings.places.items():
            if hash not in early:
                found[place] += count
        for correlation, (hash, attempt) in self.holdings.sent.items():
            found[RecordPlace.REPLAYING] += hash not in early and (correlation, attempt) not in returns.read
        found[RecordPlace.REPLAYING] += self._resolved_early(returns)
        return +found

    def _resolved_early(self, returns: Returns) -> int:
        """Cases that are resolved by a batch which has told its outcomes, and is not committed."""
        told = {correlation for correlation, _ in returns.pending - returns.read} - set(self.holdings.sent)
        return len(self.places.resolved(sorted(told), self.holdings.at_us)) if told else 0


def settle(balance: Balance, elsewhere: Mapping[RecordPlace, int], superseded: int, beyond: int) -> Iterator[Problem]:
    """Those that failed are in other places by now: on the desk, in a lane.

    `superseded` have failed and were read again: what is said of them since counts, and they did not arrive again.
    `beyond` are those that the desk has not come to. The others must be somewhere.
    """
    balance.returned -= superseded
    left = balance.places[RecordPlace.FAILED] - superseded
    moved = sum(elsewhere.values())
    if moved + beyond != left:
        told = (f"{left} that have failed and were not read again", f"{moved} at the desk and {beyond} beyond it")
        yield Problem(ProblemKind.PLACES, "-", *told)
    balance.places.update(elsewhere)
    balance.places[RecordPlace.FAILED] = beyond


def check_chain(stage: StageRows) -> Iterator[Problem | Unproven]:
    """All that can be found out from the rows alone."""
    for row in stage.unreadable:
        yield Problem(ProblemKind.UNREADABLE_ROW, stage.name, "a batch", row.why, row.generation, row.batch_id)
    stops: dict[Spot, OffsetRange] = {}
    for generation, rows in groupby(stage.batches, key=lambda each: each.generation):
        batches = list(rows)
        if batches[0].batch_id == 0:
            yield from _entry(stage, generation, batches[0].positions, stops)
        yield from _numbers(stage, batches)
        for before, after in pairwise(batches):
            if after.batch_id == before.batch_id + 1:
                yield from _follows(stage, before, after)
        for batch in batches:
            yield from _row(stage, batch)
            if batch.is_committed:
                stops |= {each.spot: each for each in batch.positions}
    if stage.generation and all(each.generation != stage.generation for each in stage.batches):
        yield from _entry(stage, stage.generation, stage.starting, stops)
    yield from _totals(stage)


def _entry(
    stage: StageRows, generation: int, begun: Positions, stops: dict[Spot, OffsetRange]
) -> Iterator[Problem | Unproven]:
    """Whether a generation begins where it was told to, and where the one before it stopped."""
    starts = begun.starts
    if generation == stage.generation:
        for each in stage.starting:
            found = starts.get(each.spot)
            if found != each.start:
                said = "nowhere" if found is None else f"from {found}"
                yield Problem(ProblemKind.BREAK, stage.name, f"from {each.start}", said, generation, 0, (each,))
    for spot, last in stops.items():
        start = starts.get(spot)
        if start is None:
            yield _left(stage, generation, last, begun)
        elif start > last.stop:
            passed = last._replace(start=last.stop, stop=start)
            for missing in uncovered(passed, [gap.place for gap in stage.gaps]):
                told = ("read, or a gap", "neither")
                yield Problem(ProblemKind.JUMP, stage.name, *told, generation, places=(missing,))


def _left(stage: StageRows, generation: int, last: OffsetRange, begun: Positions) -> Problem | Unproven:
    """A partition that the new generation does not read."""
    if any(each.topic == last.topic and each.topic_id != last.topic_id for each in begun):
        what = f"{last.topic}/{last.partition} beyond {last.stop}, before the topic was made again"
        return Unproven(stage.name, what, f"the topic with the id {last.topic_id} is gone")
    told = (f"read from {last.stop}", "not read any more")
    return Problem(ProblemKind.JUMP, stage.name, *told, generation, places=(last,))


def _numbers(stage: StageRows, batches: Sequence[BatchRow]) -> Iterator[Problem]:
    """From 0 without holes; what is not committed is the last, and open only in the present generation."""
    generation = batches[0].generation
    if generation > stage.generation:
        told = (f"at most {stage.generation}", f"generation {generation}")
        yield Problem(ProblemKind.STRAY_ROW, stage.name, *told, generation)
    unreadable = {row.batch_id for row in stage.unreadable if row.generation == generation}
    expected, before = 0, stage.starting if generation == stage.generation else Positions()
    for batch in batches:
        for missing in range(expected, batch.batch_id):
            if missing not in unreadable:
                places = _between(before, batch.positions)
                yield Problem(ProblemKind.HOLE, stage.name, "a committed batch", "none", generation, missing, places)
        expected, before = batch.batch_id + 1, batch.positions
    for batch in batches[:-1]:
        if not batch.is_committed:
            yield _stray(stage, batch, "committed")
    last = batches[-1]
    if last.state in (BatchState.SNAPSHOT, BatchState.DECIDED) and generation != stage.generation:
        yield _stray(stage, last, "committed or superseded")


def _stray(stage: StageRows, batch: BatchRow, expected: str) -> Problem:
    where = (batch.generation, batch.batch_id, batch.ranges)
    return Problem(ProblemKind.STRAY_ROW, stage.name, expected, str(batch.state), *where)


def _between(before: Positions, after: Positions) -> tuple[OffsetRange, ...]:
    """What the batches that are missing between two others must have read."""
    stops = before.stops
    passed = (each._replace(start=stops.get(each.spot, each.start), stop=each.start) for each in after)
    return tuple(each for each in passed if each.start < each.stop)


def _follows(stage: StageRows, before: BatchRow, after: BatchRow) -> Iterator[Problem]:
    where = (after.generation, after.batch_id)
    for each in after.positions.breaks_after(before.positions):
        found = each.expected if each.found is None else each.found
        low, high = sorted((each.expected, found))
        place = OffsetRange(each.topic, each.topic_id, each.partition, low, high)
        said = "nowhere" if each.found is None else f"from {each.found}"
        yield Problem(ProblemKind.BREAK, stage.name, f"from {each.expected}", said, *where, (place,))
    known = before.positions.stops
    for place in after.positions:
        if place.spot not in known and place.start != 0:
            told = ("from 0: it is new", f"from {place.start}")
            yield Problem(ProblemKind.BREAK, stage.name, *told, *where, (place,))


def _row(stage: StageRows, batch: BatchRow) -> Iterator[Problem]:
    """What a row says about itself."""
    where = (batch.generation, batch.batch_id, batch.ranges)
    hash = batch_hash(stage.flow, stage.name, batch.generation, batch.batch_id, batch.positions)
    if hash != batch.hash:
        yield Problem(ProblemKind.HASH, stage.name, hash, batch.hash, *where)
    for each in batch.positions:
        if each.topic_id not in stage.topics.get(each.topic, ()):
            found = f"{each.topic} with the id {each.topic_id}"
            yield Problem(ProblemKind.STRAY_ROW, stage.name, "a topic that the stage reads", found, *where)
    if batch.is_committed:
        parts = {place: batch.count(place) for place in BY_BATCH if place in batch.counts or place in ALWAYS_SHOWN}
        if sum(parts.values()) != batch.count("read"):
            told = " + ".join(f"{count} {name}" for name, count in parts.items())
            yield Problem(ProblemKind.SUM, stage.name, f"{batch.count('read')} read", told, *where)


def _totals(stage: StageRows) -> Iterator[Problem]:
    """The sums were added to in the same transaction as each row: they know of rows that are gone."""
    found: Counter[str] = Counter()
    for batch in stage.committed:
        found.update(flat_counts(batch.counts))
    expected = Counter(flat_counts(stage.totals))
    for name in sorted({*found, *expected}):
        if expected[name] != found[name]:
            told = f"{found[name]} in the batches"
            yield Problem(ProblemKind.TOTALS, stage.name, f"{expected[name]} {name}", told)
