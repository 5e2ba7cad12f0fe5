"""A flow that has run, as values: its ledger, its log, its error topic and its sink. Tests make it and spoil it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from towpath.flow.audit.balance import Balance, BalanceBuilder, check_chain
from towpath.flow.audit.errors import ErrorsFound, check_errors
from towpath.flow.audit.outputs import OutputCheck, take_ids
from towpath.flow.audit.rows import BatchRow, GapRow, Problem, StageRows, Unproven, segments_of
from towpath.flow.audit.view import GONE, AuditView, OffsetTally, TopicState, in_flight
from towpath.flow.delivery.ids import DeliveryIds, Digest, batch_hash
from towpath.flow.delivery.ledger import added
from towpath.flow.delivery.positions import OffsetRange, Positions, Spot
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.records.errors import ERROR, GAP, ErrorRecord
from towpath.flow.sinks.sink import Flaw, FoundDelivery, SinkReach, SinkReader

FLOW, STAGE, TOPIC, ID, OUTPUT = "page-views", "clicks", "clicks", "id-1", "views"
IDS = DeliveryIds(FLOW, STAGE, OUTPUT)
LOADED, FILTERED, FAILED = "loaded", "filtered", "failed"


@dataclass
class Held(SinkReader):
    """A sink that holds these ids."""

    ids: list[bytes]
    reach: SinkReach = SinkReach.ALL
    why_part: str = ""
    per_batch: bool = False
    is_idempotent: bool = True
    may_refuse: bool = False
    flaws: list[Flaw] = field(default_factory=list)

    def delivered(self) -> Iterator[FoundDelivery]:
        return (FoundDelivery(id, f"row {id.hex()[:8]}") for id in self.ids)


def error(batch: BatchRow, partition: int, offset: int, stop: int | None = None, kind: str = ERROR) -> ErrorRecord:
    failure = RecordFailure(ErrorCode.TRANSFORM_FAILED, "label", "KeyError", "no")
    where = (TOPIC, ID, partition, offset, failure, batch.batch_id, batch.generation, batch.hash)
    return ErrorRecord(kind, FLOW, STAGE, *where, None, None, 1, "", stop)


@dataclass
class World:
    """`log` holds the offsets of each partition that bear a record, `ends` where they end."""

    log: dict[int, list[int]]
    ends: dict[int, int]
    batches: list[BatchRow]
    totals: dict[str, Any]
    errors: list[ErrorRecord]
    sink: list[bytes]
    gaps: list[GapRow] = field(default_factory=list)
    starting: Positions = field(default_factory=Positions)
    starts: dict[int, int] = field(default_factory=dict)
    generation: int = 1
    topic_id: str = ID

    @property
    def stage(self) -> StageRows:
        topics = {TOPIC: [ID]}
        return StageRows(FLOW, STAGE, self.generation, topics, self.starting, self.batches, self.gaps, self.totals)

    def audit(self) -> tuple[list[Problem], list[Unproven], Balance]:
        stage = self.stage
        topic = TopicState(TOPIC, self.topic_id, {each: self.starts.get(each, 0) for each in self.ends}, self.ends)
        view = AuditView(FLOW, (stage,), {TOPIC: topic}, TopicState("e"), {0: len(self.errors)})
        found = list(check_chain(stage))
        errors = ErrorsFound(view.stages)
        for at, record in enumerate(self.errors):
            errors.add(record, OffsetRange("e", "id-e", 0, at, at + 1), is_known=True)
        found += check_errors(errors)
        balancing = BalanceBuilder(view, self._tallies(view), errors)
        found += balancing.run()
        reader = Held(self.sink)
        segments = segments_of(self.batches, in_flight(stage, view.topics))
        found += OutputCheck(stage, OUTPUT, segments, reader, errors).run(take_ids(reader))
        problems = [each for each in found if isinstance(each, Problem)]
        return problems, [each for each in found if isinstance(each, Unproven)], balancing.balance

    def _tallies(self, view: AuditView) -> dict[Spot, OffsetTally]:
        stage = view.stages[0]
        places = [place for batch in self.batches for place in batch.positions]
        places += [gap.place for gap in self.gaps] + in_flight(stage, view.topics)
        tallies = {}
        for spot in {place.spot for place in places}:
            edges = [edge for place in places if place.spot == spot for edge in (place.start, place.stop)]
            kept = self.starts.get(spot[1], 0) if spot[0] == self.topic_id else GONE
            tallies[spot] = OffsetTally(edges, kept)
            tallies[spot].add(offset for offset in self.log.get(spot[1], []) if offset >= kept)
        return tallies


def batch_of(
    generation: int, batch_id: int, ranges: list[OffsetRange], counts: dict[str, Any], ids: list[bytes]
) -> BatchRow:
    positions = Positions.of(ranges)
    digest = Digest()
    digest.add_many(ids)
    hash = batch_hash(FLOW, STAGE, generation, batch_id, positions)
    return BatchRow(generation, batch_id, hash, positions, counts=counts, digests={OUTPUT: {"0": digest.hex}})


class Maker:
    """Runs batches over partitions whose offsets have holes."""

    def __init__(self, log: dict[int, list[int]], ends: dict[int, int], fates: dict[tuple[int, int], str]) -> None:
        self.world = World(log, ends, [], {}, [], [])
        self.world.starting = Positions.of(OffsetRange(TOPIC, ID, number, 0, 0) for number in ends)
        self._fates = fates
        self._at = dict.fromkeys(ends, 0)

    def batch(self, stops: dict[int, int]) -> BatchRow:
        world = self.world
        ranges = [OffsetRange(TOPIC, ID, number, start, stops[number]) for number, start in self._at.items()]
        inputs = [
            (each.partition, at) for each in ranges for at in world.log[each.partition] if each.start <= at < each.stop
        ]
        by_fate = {fate: [one for one in inputs if self._fates[one] == fate] for fate in (LOADED, FILTERED, FAILED)}
        ids = [IDS.of(ID, number, offset, k) for number, offset in by_fate[LOADED] for k in range(1 + offset % 3)]
        counts: dict[str, Any] = {
            "read": len(inputs),
            LOADED: len(by_fate[LOADED]),
            FILTERED: {"label": len(by_fate[FILTERED])},
            FAILED: {"9": len(by_fate[FAILED])},
            "delivered": {OUTPUT: len(ids)},
        }
        made = batch_of(world.generation, len(world.batches), ranges, counts, ids)
        world.batches.append(made)
        world.totals = added(world.totals, counts)
        world.sink += ids
        world.errors += [error(made, number, offset) for number, offset in by_fate[FAILED]]
        self._at = dict(stops)
        return made


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A consistent world of one to four batches over one or two partitions, with something still in flight."""
    ends = {number: draw(st.integers(2, 24)) for number in range(draw(st.integers(1, 2)))}
    log = {number: sorted(draw(st.sets(st.integers(0, end - 1), min_size=1))) for number, end in ends.items()}
    fate = st.sampled_from([LOADED, LOADED, FILTERED, FAILED])
    fates = {(number, offset): draw(fate) for number, offsets in log.items() for offset in offsets}
    maker = Maker(log, ends, fates)
    cuts = {number: sorted(draw(st.lists(st.integers(0, end), min_size=4, max_size=4))) for number, end in ends.items()}
    for at in range(draw(st.integers(1, 4))):
        maker.batch({number: cuts[number][at] for number in ends})
    return maker.world


def gap_error(batch: BatchRow, place: OffsetRange) -> ErrorRecord:
    return error(batch, place.partition, place.start, place.stop, GAP)


def simple_stage() -> StageRows:
    """Ten records of one partition, read by one batch."""
    maker = Maker({0: list(range(10))}, {0: 10}, {(0, at): LOADED for at in range(10)})
    maker.batch({0: 10})
    return maker.world.stage
