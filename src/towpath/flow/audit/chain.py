"""Whether the batches of a stage follow each other without a hole. Pure: rows in, problems out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from towpath.flow.audit.batch_row import BatchRow, StageRows, flat_counts
from towpath.flow.audit.problem import Problem, ProblemKind, Unproven
from towpath.flow.audit.spans import uncovered
from towpath.flow.delivery import batch_hash
from towpath.flow.ledger_row import BatchState
from towpath.flow.place import BY_BATCH, Place
from towpath.flow.positions import Positions, Range, Spot


def check_chain(stage: StageRows) -> Iterator[Problem | Unproven]:
    """All that can be found out from the rows alone."""
    for row in stage.unreadable:
        yield Problem(ProblemKind.UNREADABLE_ROW, stage.name, "a batch", row.why, row.generation, row.batch_id)
    stops: dict[Spot, Range] = {}
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
    stage: StageRows, generation: int, begun: Positions, stops: dict[Spot, Range]
) -> Iterator[Problem | Unproven]:
    """Whether a generation begins where it was told to, and where the one before it stopped."""
    starts = begun.starts
    if generation == stage.generation:
        for each in stage.starting:
            found = starts.get(each.spot)
            if found != each.start:
                said = "nowhere" if found is None else f"from {found}"
                yield _problem(ProblemKind.BREAK, stage, generation, 0, (each,), f"from {each.start}", said)
    for spot, last in stops.items():
        start = starts.get(spot)
        if start is None:
            yield _left(stage, generation, last, begun)
        elif start > last.stop:
            passed = last._replace(start=last.stop, stop=start)
            for missing in uncovered(passed, [gap.place for gap in stage.gaps]):
                yield _problem(ProblemKind.JUMP, stage, generation, None, (missing,), "read, or a gap", "neither")


def _left(stage: StageRows, generation: int, last: Range, begun: Positions) -> Problem | Unproven:
    """A partition that the new generation does not read."""
    if any(each.topic == last.topic and each.topic_id != last.topic_id for each in begun):
        what = f"{last.topic}/{last.partition} beyond {last.stop}, before the topic was made again"
        return Unproven(stage.name, what, f"the topic with the id {last.topic_id} is gone")
    return _problem(ProblemKind.JUMP, stage, generation, None, (last,), f"read from {last.stop}", "not read any more")


def _numbers(stage: StageRows, batches: Sequence[BatchRow]) -> Iterator[Problem]:
    """From 0 without holes; what is not committed is the last, and open only in the present generation."""
    generation = batches[0].generation
    if generation > stage.generation:
        found = f"generation {generation}"
        yield _problem(ProblemKind.STRAY_ROW, stage, generation, None, (), f"at most {stage.generation}", found)
    unreadable = {row.batch_id for row in stage.unreadable if row.generation == generation}
    expected, before = 0, stage.starting if generation == stage.generation else Positions()
    for batch in batches:
        for missing in range(expected, batch.batch_id):
            if missing not in unreadable:
                places = _between(before, batch.positions)
                yield _problem(ProblemKind.HOLE, stage, generation, missing, places, "a committed batch", "none")
        expected, before = batch.batch_id + 1, batch.positions
    for batch in batches[:-1]:
        if not batch.is_committed:
            yield _stray(stage, batch, "committed")
    last = batches[-1]
    if last.state in (BatchState.SNAPSHOT, BatchState.DECIDED) and generation != stage.generation:
        yield _stray(stage, last, "committed or superseded")


def _stray(stage: StageRows, batch: BatchRow, expected: str) -> Problem:
    where = (batch.generation, batch.batch_id, batch.ranges)
    return _problem(ProblemKind.STRAY_ROW, stage, *where, expected, str(batch.state))


def _between(before: Positions, after: Positions) -> tuple[Range, ...]:
    """What the batches that are missing between two others must have read."""
    stops = before.stops
    passed = (each._replace(start=stops.get(each.spot, each.start), stop=each.start) for each in after)
    return tuple(each for each in passed if each.start < each.stop)


def _follows(stage: StageRows, before: BatchRow, after: BatchRow) -> Iterator[Problem]:
    where = (after.generation, after.batch_id)
    for each in after.positions.breaks_after(before.positions):
        found = each.expected if each.found is None else each.found
        low, high = sorted((each.expected, found))
        place = Range(each.topic, each.topic_id, each.partition, low, high)
        said = "nowhere" if each.found is None else f"from {each.found}"
        yield _problem(ProblemKind.BREAK, stage, *where, (place,), f"from {each.expected}", said)
    known = before.positions.stops
    for place in after.positions:
        if place.spot not in known and place.start != 0:
            yield _problem(ProblemKind.BREAK, stage, *where, (place,), "from 0: it is new", f"from {place.start}")


def _row(stage: StageRows, batch: BatchRow) -> Iterator[Problem]:
    """What a row says about itself."""
    where = (batch.generation, batch.batch_id, batch.ranges)
    hash = batch_hash(stage.flow, stage.name, batch.generation, batch.batch_id, batch.positions)
    if hash != batch.hash:
        yield _problem(ProblemKind.HASH, stage, *where, hash, batch.hash)
    for each in batch.positions:
        if each.topic_id not in stage.topics.get(each.topic, ()):
            found = f"{each.topic} with the id {each.topic_id}"
            yield _problem(ProblemKind.STRAY_ROW, stage, *where, "a topic that the stage reads", found)
    if batch.is_committed:
        always = (Place.LOADED, Place.FILTERED, Place.FAILED)
        parts = {place: batch.count(place) for place in BY_BATCH if place in batch.counts or place in always}
        if sum(parts.values()) != batch.count("read"):
            told = " + ".join(f"{count} {name}" for name, count in parts.items())
            yield _problem(ProblemKind.SUM, stage, *where, f"{batch.count('read')} read", told)


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


def _problem(
    kind: ProblemKind,
    stage: StageRows,
    generation: int,
    batch_id: int | None,
    places: tuple[Range, ...],
    expected: str,
    found: str,
) -> Problem:
    return Problem(kind, stage.name, expected, found, generation, batch_id, places)
