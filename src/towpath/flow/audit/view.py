"""What the ledger and the log say at one moment, read in the order that lets a running flow be audited.

The end of the error topic is taken first: whatever lies before it belongs to a batch whose row was written earlier, so
that row is in the view. The ends of the inputs are taken last, so no position of the view is beyond them.

`RecordCounter` counts records by reading them: offsets are not dense. Each partition is read once, from the first
offset that matters to the last, and what lies between two neighbours is added up (`OffsetTally`); the count of every
range of every batch is then a sum of these.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain

from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.errors import BadValue, OffsetOutOfRange, TopicReplaced, UnknownFlow, UnknownPartition, UnknownTopic
from towpath.flow.audit.rows import BatchRow, GapRow, StageRows, UnreadableRow
from towpath.flow.delivery.ledger import BatchSnapshot, BatchState, Ledger
from towpath.flow.delivery.places import FailureHoldings, PlaceSource
from towpath.flow.delivery.positions import OffsetRange, Positions, Spot
from towpath.flow.records.reentry import CancelledReplays, Sent
from towpath.log.log import Log

Progress = Callable[[int], None]  # told from time to time how many records were read so far
TELL_EVERY = 10_000
ATTEMPTS = 3
GONE = 1 << 62  # before this offset nothing is kept: the topic is another one, or none


@dataclass(frozen=True, slots=True)
class AuditView:
    """What is audited."""

    flow: str
    stages: tuple[StageRows, ...]
    topics: dict[str, TopicState]  # what the stages read
    errors: TopicState
    errors_known: dict[int, int]  # before these offsets, an error record's batch must be in the view
    holdings: FailureHoldings | None = None  # what the desk has, if there is one


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as it is now; `id` is empty when there is none of that name."""

    name: str
    id: str = ""
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


def take_view(database: Database, log: Log, flow: str, errors: str, places: PlaceSource | None = None) -> AuditView:
    known = topic_state(log, errors).ends
    with database.read() as tx:
        stages = _stages(tx, database, flow)
        holdings = None if places is None else places.holdings(tx, flow)
    names = sorted({name for stage in stages for name in stage.topics})
    topics = {name: topic_state(log, name) for name in names}
    return AuditView(flow, stages, topics, topic_state(log, errors), known, holdings)


def _stages(tx: Transaction, database: Database, flow: str) -> tuple[StageRows, ...]:
    sql = Queries("towpath.flow.audit", "audit", database.dialect)
    ledger = Ledger(database)
    rows = tx.rows(sql["audited_stages"], {"flow": flow})
    if not rows:
        raise UnknownFlow(flow, (name for (name,) in tx.rows(sql["flow_names"], {})))
    recalled = CancelledReplays(database).of(tx, flow)
    return tuple(_stage(tx, sql, ledger, flow, row, recalled) for row in rows)


def _stage(tx: Transaction, sql: Queries, ledger: Ledger, flow: str, row: Row, recalled: frozenset[Sent]) -> StageRows:
    name, generation, topics, starting, totals = row
    read = list(_batches(tx.rows(sql["audited_batches"], {"flow": flow, "stage": name})))
    gaps = [
        GapRow(gap.generation, OffsetRange(gap.topic, gap.topic_id, gap.partition, gap.start, gap.stop), gap.batch_id)
        for gap in ledger.gaps(tx, flow, name)
    ]
    return StageRows(
        flow,
        name,
        generation,
        json.loads(topics),
        Positions.from_json(starting),
        [each for each in read if isinstance(each, BatchRow)],
        gaps,
        json.loads(totals),
        [each for each in read if isinstance(each, UnreadableRow)],
        recalled,
    )


def _batches(rows: list[Row]) -> Iterator[BatchRow | UnreadableRow]:
    for generation, batch_id, hash, positions, state, counts, digests, units in rows:
        try:
            where = Positions.from_json(positions)
            told = json.loads(counts), json.loads(digests), BatchSnapshot.of_value(json.loads(units or "null")).blocks
            yield BatchRow(generation, batch_id, hash, where, BatchState(state), *told)
        except (BadValue, ValueError, TypeError, KeyError, AttributeError) as error:
            yield UnreadableRow(generation, batch_id, f"{type(error).__name__}: {error}")


def topic_state(log: Log, name: str) -> TopicState:
    try:
        topic = log.topic(name)
        # Starts first: records that expire meanwhile are found missing, not those that arrive.
        return TopicState(name, topic.id, log.starts(name), log.ends(name))
    except UnknownTopic:
        return TopicState(name)


def in_flight(stage: StageRows, topics: dict[str, TopicState]) -> list[OffsetRange]:
    """From where the stage has come to, to where its topics end. A partition that it does not know yet begins at 0."""
    stops = stage.stops
    return [
        OffsetRange(topic.name, topic.id, number, min(stops.get((topic.id, number), 0), end), end)
        for name, ids in stage.topics.items()
        if ids and (topic := topics[name]).id == ids[-1]
        for number, end in sorted(topic.ends.items())
    ]


class RecordCounter:
    """Reads every range of a view once."""

    def __init__(self, log: Log, progress: Progress = lambda done: None) -> None:
        self._log = log
        self._progress = progress
        self._done = 0

    def count(self, view: AuditView) -> dict[Spot, OffsetTally]:
        edges: dict[Spot, set[int]] = {}
        names: dict[str, str] = {}
        for stage in view.stages:
            gaps = (gap.place for gap in stage.gaps)
            read = (place for batch in stage.batches for place in batch.positions)
            for place in chain(read, gaps, in_flight(stage, view.topics)):
                edges.setdefault(place.spot, set()).update((place.start, place.stop))
                names[place.topic_id] = place.topic
        return {spot: self._tally(view, names[spot[0]], spot, found) for spot, found in sorted(edges.items())}

    def _tally(self, view: AuditView, name: str, spot: Spot, edges: set[int]) -> OffsetTally:
        topic, (id, number) = view.topics.get(name, TopicState(name)), spot
        if topic.id != id or number not in topic.ends:
            return OffsetTally(edges, GONE)
        for _ in range(ATTEMPTS):
            try:
                tally = self._read(topic, number, edges)
            except OffsetOutOfRange:  # deleted since its start was asked for
                topic = topic_state(self._log, name)
                continue
            except (TopicReplaced, UnknownTopic, UnknownPartition):
                break
            # What was deleted while it was read was not counted, perhaps.
            now = topic_state(self._log, name)
            if now.id == id:
                tally.kept_from = max(tally.kept_from, now.starts.get(number, GONE))
                return tally
        return OffsetTally(edges, GONE)

    def _read(self, topic: TopicState, number: int, edges: set[int]) -> OffsetTally:
        tally = OffsetTally(edges, topic.starts.get(number, 0))
        first = max(tally.edges[0], tally.kept_from)
        last = min(tally.edges[-1], topic.ends.get(number, 0))
        if first < last:
            tally.add(self._offsets(topic.name, number, first, last))
        return tally

    def _offsets(self, topic: str, partition: int, first: int, last: int) -> Iterator[int]:
        for record in self._log.read(topic, partition, first, last):
            self._done += 1
            if self._done % TELL_EVERY == 0:
                self._progress(self._done)
            yield record.offset


class OffsetTally:
    """How many records lie between any two of some offsets of a partition. Pure.

    `kept_from` is the first offset that could still be read.
    """

    def __init__(self, edges: Iterable[int], kept_from: int = 0) -> None:
        self.edges: Sequence[int] = sorted(set(edges))
        self.kept_from = kept_from
        self._counts = [0] * len(self.edges)
        self._sums: list[int] | None = None

    def add(self, offsets: Iterable[int]) -> None:
        """Records that were read, in order."""
        edges, counts = self.edges, self._counts
        at, upper = -1, edges[0]
        for offset in offsets:
            while offset >= upper:
                at += 1
                upper = edges[at + 1] if at + 1 < len(edges) else 1 << 63
            if at >= 0:
                counts[at] += 1
        self._sums = None

    def count(self, place: OffsetRange) -> int:
        """How many records a range holds whose ends are among the edges."""
        if self._sums is None:
            self._sums = [0, *accumulate(self._counts)]
        return self._sums[bisect_left(self.edges, place.stop)] - self._sums[bisect_left(self.edges, place.start)]

    def is_whole(self, place: OffsetRange) -> bool:
        """Whether nothing of a range was deleted."""
        return place.is_empty or place.start >= self.kept_from
