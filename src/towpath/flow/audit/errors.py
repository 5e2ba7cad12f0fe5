"""What the error topic and the re-entry topic say about the batches of a flow, held against the ledger.

After a crash a batch sends its errors again. So what counts is how many different inputs a batch has error records of;
the others are repeats. Of one input there may be several, one for each output that refused it.

A record that came back through the re-entry topic supersedes its earlier failure, and is delivered under the names of
its first reading: `returns_to` and `returned_to` read that topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from towpath.errors import LogError
from towpath.flow.audit.rows import BatchRow, OffsetSet, Problem, ProblemKind, StageRows, is_arrival
from towpath.flow.audit.view import TELL_EVERY, AuditView, Progress
from towpath.flow.delivery.positions import OffsetRange, Spot
from towpath.flow.records.errors import GAP, ErrorRecord
from towpath.flow.records.reentry import ATTEMPT, CORRELATION, STAGE, first_reading, said_by, sent_as
from towpath.flow.worker.records import UNMATCHED
from towpath.log.log import Log

MOST_STRANGE = 100  # that are listed; all are counted
Key = tuple[str, int, int | None]  # stage, generation, batch; None: a reset
Try = tuple[str, int]  # correlation id, and the number of the attempt


def read_errors(log: Log, view: AuditView, progress: Progress = lambda done: None) -> ErrorsFound:
    """All error records of the flow, up to the end that the view has. Other flows may use the same topic."""
    found = ErrorsFound(view.stages, taken_to={} if view.holdings is None else view.holdings.positions)
    topic, done = view.errors, 0
    for number, end in sorted(topic.ends.items()):
        for record in log.read(topic.name, number, topic.starts.get(number, 0), end):
            done += 1
            if done % TELL_EVERY == 0:
                progress(done)
            at = OffsetRange(topic.name, topic.id, number, record.offset, record.offset + 1)
            try:
                read = ErrorRecord.read(record)
            except (KeyError, ValueError) as error:
                found.add_unreadable(at, f"{type(error).__name__}: {error}")
                continue
            if read.flow == view.flow:
                found.add(read, at, is_known=record.offset < view.errors_known.get(number, 0))
    return found


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
                place = OffsetRange(name, topic_id, partition, start, max(start, stop))
                expected = "a row for this gap"
                yield Problem(ProblemKind.GAP, stage.name, expected, "none", generation, batch_id, (place,))


@dataclass(slots=True)
class ErrorsFound:
    """What the error topic holds of one flow."""

    stages: Sequence[StageRows]
    repeats: int = 0  # after a crash
    uncommitted: int = 0  # of batches that are at work, or were given up
    later: int = 0  # of batches that began after the view was taken
    strange: int = 0  # of no batch
    problems: list[Problem] = field(default_factory=list)
    marks: dict[str, dict[Spot, OffsetSet]] = field(default_factory=dict)  # by hash
    waited: dict[str, set[tuple[Spot, int]]] = field(default_factory=dict)  # by hash: what earlier batches have read
    # By first offset: the one after the last.
    gaps: dict[Key, dict[tuple[Spot, int], int]] = field(default_factory=dict)
    taken_to: Mapping[Spot, int] = field(default_factory=dict)  # how far the desk has read the error topic
    taken: int = 0  # records that lie before that
    beyond: int = 0  # failures that lie after that, and are told for the first time
    _rows: dict[str, tuple[str, BatchRow]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = {batch.hash: (stage.name, batch) for stage in self.stages for batch in stage.batches}

    def add(self, record: ErrorRecord, at: OffsetRange, *, is_known: bool) -> None:
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

    def add_unreadable(self, at: OffsetRange, why: str) -> None:
        self._tell(Problem(ProblemKind.UNREADABLE_ERROR, "-", "an error record of a flow", why, places=(at,)))

    def failed(self, batch: BatchRow) -> int:
        """How many inputs of a batch have error records."""
        own = sum(marks.count for marks in self.marks.get(batch.hash, {}).values())
        return own + len(self.waited.get(batch.hash, ()))

    def _add_strange(self, record: ErrorRecord, at: OffsetRange, is_known: bool) -> None:
        if not is_known:
            self.later += 1
            return
        found = f"{record.topic}/{record.partition}/{record.offset} failed in it"
        where = (record.generation, record.batch_id, (at,))
        self._tell(Problem(ProblemKind.STRANGE_ERROR, record.stage, "a batch in the ledger", found, *where))

    def _mark(self, stage: str, batch: BatchRow, record: ErrorRecord, at: OffsetRange) -> None:
        spot = (record.topic_id, record.partition)
        if self._has_waited(batch, record, spot, at):
            return
        marks = self.marks.setdefault(batch.hash, {})
        if spot not in marks:
            place = next((each for each in batch.positions if each.spot == spot), None)
            marks[spot] = OffsetSet(place or at._replace(start=0, stop=0))
        try:
            self._count(marks[spot].add(record.offset), at)
        except ValueError:
            found = f"{record.topic}/{record.partition}/{record.offset}"
            where = (batch.generation, batch.batch_id, (at,))
            self._tell(Problem(ProblemKind.STRANGE_ERROR, stage, "a record of this batch", found, *where))

    def _has_waited(self, batch: BatchRow, record: ErrorRecord, spot: Spot, at: OffsetRange) -> bool:
        """What a join has kept and found no partner for was read by an earlier batch than the one in which it fails."""
        start = next((each.start for each in batch.positions if each.spot == spot), 0)
        if record.failure.exception != UNMATCHED or record.offset >= start:
            return False
        waited, known = self.waited.setdefault(batch.hash, set()), (spot, record.offset)
        self._count(known not in waited, at)
        waited.add(known)
        return True

    def _count(self, is_news: bool, at: OffsetRange) -> None:
        self.repeats += not is_news
        self.beyond += is_news and not self._is_taken(at)

    def _is_taken(self, at: OffsetRange) -> bool:
        return at.start < self.taken_to.get(at.spot, 0)

    def _tell(self, problem: Problem) -> None:
        self.strange += 1
        if self.strange <= MOST_STRANGE:
            self.problems.append(problem)


def returns_to(log: Log, stage: StageRows) -> Iterator[Return]:
    """All that batches of a stage have read from the re-entry topic for it, under a correlation id."""
    read: dict[Spot, list[tuple[int, OffsetRange]]] = {}
    for number, place in _reentry_ranges(stage):
        read.setdefault(place.spot, []).append((number, place))
    for spot, ranges in read.items():
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


@dataclass(slots=True)
class Returns:
    """What the batches of a flow have read from the re-entry topic, those that are not committed apart."""

    read: set[Try] = field(default_factory=set)
    pending: set[Try] = field(default_factory=set)
    superseded: int = 0

    def add(
        self,
        stage: StageRows,
        found: list[Return],
        known: Collection[str],
        failed: Mapping[str, Mapping[Spot, OffsetSet]],
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


class Return(NamedTuple):
    """A record of the re-entry topic that a batch of its stage has read."""

    batch: int  # its place among the batches of the stage
    spot: Spot
    offset: int
    correlation: str
    attempt: int


def returned_to(log: Log, stage: StageRows) -> Iterator[tuple[OffsetRange, int]]:
    """The first readings of all that came back to a stage, each with the place of the batch that has read it again."""
    for number, place in _reentry_ranges(stage):
        for input in _inputs(log, stage, place):
            yield input, number


def _inputs(log: Log, stage: StageRows, place: OffsetRange) -> Iterator[OffsetRange]:
    try:
        for record in log.read(place.topic, place.partition, place.start, place.stop):
            said = said_by(record.headers)
            try:
                found = first_reading(said)
            except (KeyError, ValueError):
                continue  # it has failed, and nothing was delivered
            if sent_as(said) in stage.recalled:
                continue
            if found.stage == stage.name and found.topic_id in stage.topics.get(found.topic, ()):
                yield OffsetRange(found.topic, found.topic_id, found.partition, found.offset, found.offset + 1)
    except LogError:
        return  # deleted: the balance tells that it cannot be proven


def _reentry_ranges(stage: StageRows) -> Iterator[tuple[int, OffsetRange]]:
    """What each batch has read of the re-entry topic, with the place of the batch."""
    for number, batch in enumerate(stage.batches):
        for place in batch.ranges:
            if not is_arrival(stage.flow, place.topic):
                yield number, place
