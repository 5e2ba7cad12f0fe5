"""Whether the error topic holds what the batches have counted as failed. Pure: records in, problems out.

After a crash a batch sends its errors again. So what counts is how many different inputs a batch has error records of;
the others are repeats. Of one input there may be several, one for each output that refused it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from towpath.flow.audit.batch_row import BatchRow, StageRows
from towpath.flow.audit.marks import Marks
from towpath.flow.audit.problem import Problem, ProblemKind
from towpath.flow.error_record import GAP, ErrorRecord
from towpath.flow.positions import Range, Spot
from towpath.flow.stateful.verdict import UNMATCHED

MOST_STRANGE = 100  # that are listed; all are counted
Key = tuple[str, int, int | None]  # stage, generation, batch; None: a reset


@dataclass(slots=True)
class ErrorsFound:
    """What the error topic holds of one flow."""

    stages: Sequence[StageRows]
    repeats: int = 0  # after a crash
    uncommitted: int = 0  # of batches that are at work, or were given up
    later: int = 0  # of batches that began after the view was taken
    strange: int = 0  # of no batch
    problems: list[Problem] = field(default_factory=list)
    marks: dict[str, dict[Spot, Marks]] = field(default_factory=dict)  # by hash
    waited: dict[str, set[tuple[Spot, int]]] = field(default_factory=dict)  # by hash: what earlier batches have read
    gaps: dict[Key, dict[tuple[Spot, int], int]] = field(
        default_factory=dict
    )  # by first offset: the one after the last
    taken_to: Mapping[Spot, int] = field(default_factory=dict)  # how far the desk has read the error topic
    taken: int = 0  # records that lie before that
    beyond: int = 0  # failures that lie after that, and are told for the first time
    _rows: dict[str, tuple[str, BatchRow]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = {batch.hash: (stage.name, batch) for stage in self.stages for batch in stage.batches}

    def add(self, record: ErrorRecord, at: Range, *, is_known: bool) -> None:
        """One entry. `at` is where it lies; `is_known` says that its batch must be in the view."""
        self.taken += self._is_taken(at)
        if record.kind == GAP:
            key = (record.stage, record.generation, record.batch_id)
            spot = ((record.topic_id, record.partition), record.offset)
            gaps = self.gaps.setdefault(key, {})
            gaps[spot] = max(gaps.get(spot, 0), record.stop or 0)
            if record.batch_id is None:
                return
        row = self._rows.get(record.hash)
        if row is None:
            self._add_strange(record, at, is_known)
        elif not row[1].is_committed:
            self.uncommitted += 1
        elif record.kind != GAP:
            self._mark(*row, record, at)

    def add_unreadable(self, at: Range, why: str) -> None:
        self._tell(Problem(ProblemKind.UNREADABLE_ERROR, "-", "an error record of a flow", why, places=(at,)))

    def failed(self, batch: BatchRow) -> int:
        """How many inputs of a batch have error records."""
        own = sum(marks.count for marks in self.marks.get(batch.hash, {}).values())
        return own + len(self.waited.get(batch.hash, ()))

    def _add_strange(self, record: ErrorRecord, at: Range, is_known: bool) -> None:
        if not is_known:
            self.later += 1
            return
        found = f"{record.topic}/{record.partition}/{record.offset} failed in it"
        where = (record.generation, record.batch_id, (at,))
        self._tell(Problem(ProblemKind.STRANGE_ERROR, record.stage, "a batch in the ledger", found, *where))

    def _mark(self, stage: str, batch: BatchRow, record: ErrorRecord, at: Range) -> None:
        spot = (record.topic_id, record.partition)
        if self._has_waited(batch, record, spot, at):
            return
        marks = self.marks.setdefault(batch.hash, {})
        if spot not in marks:
            place = next((each for each in batch.positions if each.spot == spot), None)
            marks[spot] = Marks(place or at._replace(start=0, stop=0))
        try:
            self._count(marks[spot].add(record.offset), at)
        except ValueError:
            found = f"{record.topic}/{record.partition}/{record.offset}"
            where = (batch.generation, batch.batch_id, (at,))
            self._tell(Problem(ProblemKind.STRANGE_ERROR, stage, "a record of this batch", found, *where))

    def _has_waited(self, batch: BatchRow, record: ErrorRecord, spot: Spot, at: Range) -> bool:
        """What a join has kept and found no partner for was read by an earlier batch than the one in which it fails."""
        start = next((each.start for each in batch.positions if each.spot == spot), 0)
        if record.failure.exception != UNMATCHED or record.offset >= start:
            return False
        waited, known = self.waited.setdefault(batch.hash, set()), (spot, record.offset)
        self._count(known not in waited, at)
        waited.add(known)
        return True

    def _count(self, is_news: bool, at: Range) -> None:
        self.repeats += not is_news
        self.beyond += is_news and not self._is_taken(at)

    def _is_taken(self, at: Range) -> bool:
        return at.start < self.taken_to.get(at.spot, 0)

    def _tell(self, problem: Problem) -> None:
        self.strange += 1
        if self.strange <= MOST_STRANGE:
            self.problems.append(problem)


def check_errors(found: ErrorsFound) -> Iterator[Problem]:
    """Compare the error records with what the batches have counted."""
    yield from found.problems
    for stage in found.stages:
        for batch in stage.committed:
            expected, there = batch.count("failed"), found.failed(batch)
            if expected != there:
                told = (f"{expected} records", f"{there}", batch.generation, batch.batch_id, batch.ranges)
                yield Problem(ProblemKind.FAILED, stage.name, *told)
        yield from _gaps(stage, found)


def _gaps(stage: StageRows, found: ErrorsFound) -> Iterator[Problem]:
    """A gap that a batch has noticed is a row and an error record, as long as the other.

    A reset tells before it is done. If it was cut off there, and another one has chosen other positions, there is an
    error record without a row: that is no fault.
    """
    committed = {(each.generation, each.batch_id) for each in stage.committed}
    told = {key: dict(spots) for key, spots in found.gaps.items() if key[0] == stage.name}
    for row in stage.gaps:
        where = (row.generation, row.batch_id)
        stop = told.get((stage.name, *where), {}).pop((row.place.spot, row.place.start), None)
        if (row.batch_id is None and (stop or 0) < row.place.stop) or (where in committed and stop != row.place.stop):
            said = "none" if stop is None else f"one to {stop}"
            yield Problem(ProblemKind.GAP, stage.name, "an error record for this gap", said, *where, (row.place,))
    for (_, generation, batch_id), spots in told.items():
        for ((topic_id, partition), start), stop in spots.items():
            if (generation, batch_id) in committed:
                name = next((name for name, ids in stage.topics.items() if topic_id in ids), topic_id)
                place = Range(name, topic_id, partition, start, max(start, stop))
                expected = "a row for this gap"
                yield Problem(ProblemKind.GAP, stage.name, expected, "none", generation, batch_id, (place,))
