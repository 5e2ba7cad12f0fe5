"""Dropping duplicates without Spark: packets, shards, and that neither order nor portions of what comes matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath.flow.audit.expected import DroppedDuplicates
from towpath.flow.audit.rows import BatchRow
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.delivery.positions import Positions
from towpath.flow.graph.nodes import Source
from towpath.flow.stateful import Dedupe, header
from towpath.flow.stateful.dedupe import TOUCHED, DedupeKeeper, DedupeRule
from towpath.flow.stateful.keeper import ShardState, Tick, Ticks
from towpath.flow.stateful.operators import (
    JUDGED,
    KEY,
    PACKET,
    SHARD,
    SHARDS,
    PacketMaker,
    in_order,
    unpack,
    write_packet,
)
from towpath.flow.worker.records import RecordVerdict
from towpath.log import Record
from towpath.log.spark.columns import ARROW_SCHEMA

AT = datetime(2026, 1, 1, tzinfo=UTC)
DEDUPE = Dedupe(header("sender"), header("n"), window=2, late="drop")
RULE = DedupeRule.of("orders", ("orders", "more"), DEDUPE)
KEEPER = DedupeKeeper({"orders": RULE, "more": RULE})
TICKS = Ticks("orders", "flow.reentry", 0, SHARDS)


class Sent(NamedTuple):
    topic: str
    partition: int
    offset: int
    sender: str
    number: int

    @property
    def row(self) -> tuple[Any, ...]:
        headers = [{"key": "sender", "value": self.sender.encode()}, {"key": "n", "value": b"%d" % self.number}]
        return (self.topic, self.partition, self.offset, AT, None, b"%d" % self.offset, headers)


def batch(sent: Sequence[Sent]) -> pa.RecordBatch:
    columns = zip(*(one.row for one in sent), strict=True)
    arrays = [pa.array(column, type) for column, type in zip(columns, ARROW_SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


class Operator:
    """What Spark does with packets, in one process."""

    def __init__(self) -> None:
        self.states: dict[int, ShardState] = {}

    def run(self, portions: Sequence[Sequence[Sent]]) -> dict[tuple[str, int, int], str | None]:
        packed = [one for portion in portions if portion for one in PacketMaker(KEEPER, TICKS)([batch(portion)])]
        by_shard: dict[int, list[bytes]] = {}
        for one in packed:
            for shard, packet in zip(one.column(SHARD).to_pylist(), one.column(PACKET).to_pylist(), strict=True):
                by_shard.setdefault(shard, []).append(packet)
        said: dict[tuple[str, int, int], str | None] = {}
        for shard, packets in by_shard.items():
            assert 0 <= shard < SHARDS
            records = in_order(packets)
            verdicts = KEEPER.decide(records, records.column(KEY).to_pylist(), self.states.setdefault(shard, {}), 0)
            names = [records.column(name).to_pylist() for name in ("topic", "partition", "offset")]
            for place, verdict in zip(zip(*names, strict=True), verdicts, strict=True):
                said[place] = verdict and verdict.place
        return said


@st.composite
def batches(draw: st.DrawFn) -> list[list[Sent]]:
    """Some batches of records of a few senders over topics and partitions; offsets grow."""
    offsets: dict[tuple[str, int], int] = {}
    made = []
    for _ in range(draw(st.integers(1, 3))):
        sent = []
        for topic, partition, sender, number in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["orders", "more", "flow.reentry"]),
                    st.integers(0, 1),
                    st.sampled_from("abc"),
                    st.integers(0, 9),
                ),
                max_size=20,
            )
        ):
            offset = offsets[topic, partition] = offsets.get((topic, partition), -1) + 1
            sent.append(Sent(topic, partition, offset, sender, number))
        made.append(sent)
    return made


def naive(sent: list[list[Sent]]) -> dict[tuple[str, int, int], str | None]:
    """Takes them one by one in order, and remembers every number of every sender."""
    seen: dict[str, set[int]] = {}
    said: dict[tuple[str, int, int], str | None] = {}
    for one in (one for each in sent for one in sorted(each)):
        known = seen.setdefault(one.sender, set())
        if one.topic == "flow.reentry":  # was taken before, and comes back from the desk
            said[one[:3]] = None
        elif one.number in known or (known and one.number < max(known) - DEDUPE.window):
            said[one[:3]] = RecordPlace.DUPLICATE
        else:
            known.add(one.number)
            said[one[:3]] = None
    return said


@settings(max_examples=40)
@given(batches(), st.randoms(), st.integers(1, 3))
def test_neither_order_nor_portions_matter(sent: list[list[Sent]], random: Any, portions: int) -> None:
    operator = Operator()
    said: dict[tuple[str, int, int], str | None] = {}
    for each in sent:
        mixed = list(each)
        random.shuffle(mixed)
        said |= operator.run([mixed[at::portions] for at in range(portions)])
    assert said == naive(sent)


@given(batches())
def test_the_audit_finds_the_same_again(sent: list[list[Sent]]) -> None:
    dropped = DroppedDuplicates.of(Source("orders", ("orders", "more"), dedupe=DEDUPE))
    assert dropped is not None
    found: dict[tuple[str, int, int], str | None] = {}
    for number, each in enumerate(sent):
        dropped.begin(BatchRow(1, number, "", Positions.of([])))
        for one in sorted(each):
            headers = (("sender", one.sender.encode()), ("n", b"%d" % one.number))
            record = Record(one.topic, one.partition, one.offset, 0, None, b"", headers)
            is_dropped = one.topic != "flow.reentry" and dropped.is_dropped(record)
            found[one[:3]] = RecordPlace.DUPLICATE if is_dropped else None
    assert found == naive(sent)


def test_records_come_out_of_packets_as_they_went_in() -> None:
    sent = [Sent("orders", at % 2, at // 2, "abc"[at % 3], at) for at in range(50)]
    [packed] = PacketMaker(KEEPER, TICKS)([batch(sent)])
    tables = [in_order([packet]).drop_columns([KEY]) for packet in packed.column(PACKET).to_pylist()]
    judged = pa.RecordBatch.from_arrays(
        [packed.column(SHARD), pa.array([write_packet(table) for table in tables], pa.binary())], [SHARD, PACKET]
    )
    out = pa.Table.from_batches(unpack([judged]))
    assert out.schema.equals(JUDGED)
    order = [("offset", "ascending"), ("partition", "ascending")]
    assert out.select(ARROW_SCHEMA.names).sort_by(order).to_pylist() == (
        pa.Table.from_batches([batch(sent)]).sort_by(order).to_pylist()
    )


def test_a_verdict_survives_its_way() -> None:
    for verdict in (
        RecordVerdict("duplicate"),
        RecordVerdict(given=[{"n": 1 << 70}]),
        RecordVerdict(given=[], due={"0/3": [7]}, by="x"),
    ):
        assert RecordVerdict.decode(verdict.encode()) == verdict


def test_what_an_operator_before_has_told_of_its_shard_stays() -> None:
    before = RecordVerdict(due={"0/3": [7]}).encode()
    assert RecordVerdict("duplicate").after(before) == RecordVerdict("duplicate", due={"0/3": [7]})
    assert RecordVerdict(due={"1/9": []}).after(before).due == {"0/3": [7], "1/9": []}
    assert RecordVerdict("duplicate").after(None) == RecordVerdict("duplicate")


def test_a_sender_is_forgotten_so_long_after_its_last_record() -> None:
    forgets, keeps = replace(DEDUPE, forget_after_s=100), DEDUPE
    rules = {"orders": DedupeRule.of("a", ("orders",), forgets), "more": DedupeRule.of("b", ("more",), keeps)}
    keeper, state = DedupeKeeper(rules), ShardState()

    def seen(topic: str, sender: str, now_s: int) -> bool:
        records = pa.Table.from_batches([batch([Sent(topic, 0, now_s, sender, 1)])])
        [said] = keeper.decide(records, keeper.keys(records.to_batches()[0]), state, now_s * 1000)
        return said is not None

    assert not any([seen("orders", "a", 0), seen("orders", "b", 0), seen("more", "a", 0)])
    assert keeper.due(state) == [100_000]
    assert [seen("orders", "a", 99), seen("orders", "b", 50), seen("more", "a", 1000)] == [True, True, True]
    assert seen("orders", "a", 1001) is False, "forgotten, so it is new"
    assert keeper.due(state) == [1_110_000], "a tenth of the time late at most"
    assert sorted(key for key in state if key != TOUCHED) == [b"more\na", b"orders\na"], "the other one takes no room"
    [said] = keeper.wake([Tick("flow.reentry", 0, 0, 0, 3, b"{}", ())], state, 2_000_000)
    assert said.given == []
