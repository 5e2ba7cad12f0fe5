"""Puts the operators with state on the records of a stage, between what is read and all else.

`PacketMaker` puts many records into one cell, an Arrow stream: Spark handles a packet at the price of a row.
`ShardProcessor` is the operator as Spark calls it in its workers, once for each shard of a batch. `check_state` says
whether a checkpoint's state belongs to the stage as it is now: Spark itself fails then, without a useful word.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from towpath.blocks.rule import BlockBarrier
from towpath.errors import BadFlow, FlowHalted
from towpath.flow.graph.stateful_nodes import ColumnJoin, Join
from towpath.flow.plan.frames import with_set_headers
from towpath.flow.stateful.column_join import ColumnJoinKeeper, with_left
from towpath.flow.stateful.dedupe import DedupeKeeper, DedupeRule
from towpath.flow.stateful.join import JoinKeeper
from towpath.flow.stateful.keeper import ShardState, StateKeeper, Ticks, TimedKeeper
from towpath.flow.stateful.steps import StepKeeper
from towpath.flow.worker.reader import told_blocks, verdicts
from towpath.flow.worker.records import VERDICT, RecordColumns, RecordVerdict
from towpath.flow.worker.report import SegmentCounts
from towpath.log.spark.columns import ARROW_SCHEMA, SCHEMA

if TYPE_CHECKING:
    from towpath.flow.graph.stages import Stage
    from towpath.flow.run.checkpoint import Checkpoint

# The number of shards is part of the state: with another one, keys would look for theirs where it is not.
SHARDS = 256
SHARD, PACKET, KEY = "shard", "packet", "_key"
PACKETS = f"{SHARD} int, {PACKET} binary"
NOW = "now_ms"
STATE = "keys binary"
FILE = "state.json"
JUDGED = pa.schema([*ARROW_SCHEMA, (VERDICT, pa.binary())])
ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
MOST_ROWS = 10_000
_PACKETS = pa.schema([(SHARD, pa.int32()), (PACKET, pa.binary())])
_KEYED = pa.schema([*JUDGED, (KEY, pa.binary())])
STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_decoder = msgspec.msgpack.Decoder(dict[bytes, Any])
_encode = msgspec.msgpack.Encoder().encode


def with_state(records: DataFrame, stage: Stage, reentry: str, max_record_bytes: int, trail: str = "") -> DataFrame:
    """The records with what the operators of the stage say about them; the same where it has none.

    The checkpoint fixes the kind of the store and the number of the operator's tasks when it is begun.
    """
    for operator, keeper in enumerate(keepers_of(stage, reentry, max_record_bytes, trail)):
        records.sparkSession.conf.set(STORE, ROCKSDB)
        records = _judged(with_set_headers(records), keeper, Ticks(stage.name, reentry, operator, SHARDS))
    return records


def _judged(records: DataFrame, keeper: StateKeeper, ticks: Ticks) -> DataFrame:
    packets = records.mapInArrow(PacketMaker(keeper, ticks), PACKETS)
    # Spark puts the time of the batch for this, the same on every attempt at it.
    timed = packets.withColumn(NOW, F.unix_millis(F.current_timestamp()))
    judged = timed.groupBy(SHARD).transformWithState(ShardProcessor(keeper, ticks), PACKETS, "Append", "None")
    return judged.mapInArrow(unpack, f"{SCHEMA}, {VERDICT} binary")


def keepers_of(stage: Stage, reentry: str, max_record_bytes: int, trail: str = "") -> Iterator[StateKeeper]:
    """In the order in which records go through them. The order is part of the checkpoint."""
    rules = dedupe_rules(stage)
    if rules:
        yield DedupeKeeper(rules)
    for source in stage.sources:
        if source.stateful is not None:
            yield StepKeeper(source, source.stateful, stage.name, reentry, max_record_bytes, trail)
        match source.join:
            case Join():
                yield JoinKeeper(source, source.join, stage.name, reentry, max_record_bytes)
            case ColumnJoin():
                yield ColumnJoinKeeper(source, source.join, stage.name, reentry, max_record_bytes)


def dedupe_rules(stage: Stage) -> dict[str, DedupeRule]:
    """By topic."""
    rules: dict[str, DedupeRule] = {}
    declared = {topic: source.dedupe_of(topic) for source in stage.sources for topic in source.topics}
    for source in stage.sources:
        rule = None if source.dedupe is None else DedupeRule.of(source.name, source.topics, source.dedupe)
        own = {topic: DedupeRule.of(source.name, (topic,), dedupe) for topic, dedupe in source.dedupes.items()}
        for topic in source.topics:
            if declared[topic] != source.dedupe_of(topic):
                raise BadFlow(f"topic {topic!r} is read twice, with different dedupe=; a record is taken or not")
            if (found := own.get(topic, rule)) is not None:
                rules.setdefault(topic, found)
    return rules


def count_records(records: DataFrame) -> SegmentCounts:
    """How many records there are and what the operators tell of their shards, where nobody else reads them."""
    found = SegmentCounts()
    for (text,) in records.mapInArrow(_count, "told string").collect():
        told = SegmentCounts.from_json(json.loads(text))
        found.read += told.read
        found.placed.update(told.placed)
        found.due.update(told.due)
        found.heard(told.event_times)
    return found


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counts = SegmentCounts()
    for batch in batches:
        records = RecordColumns.of_batch(batch)
        counts.saw(records)
        for verdict in records.verdicts.values():
            counts.placed.update(verdict.moves or {})
            counts.placed.update([verdict.place] if verdict.place else [])
            counts.due.update(verdict.due or {})
            counts.heard(verdict.seen or {})
    yield pa.RecordBatch.from_pydict({"told": [json.dumps(counts.to_json())]})


def check_state(flow: str, stage: Stage, checkpoint: Checkpoint) -> None:
    """Raise `FlowHalted` when the state was kept by another rule; note the rule where nothing is kept yet.

    How far a window reaches and what becomes of late ones may change: what is kept is the same.
    """
    path, now = checkpoint.directory / FILE, state_shape(stage)
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    if before == now:
        return
    if checkpoint.has_commits:
        raise FlowHalted(
            f"stage {stage.name!r} of flow {flow!r} keeps another state than its checkpoint has: "
            f"{'; '.join(before) or 'none'} before, {'; '.join(now) or 'none'} now. Run the flow as it was, or begin "
            f"anew, with nothing remembered: towpath flow reset {flow} {stage.name}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{FILE}.{os.getpid()}")
    aside.write_text(json.dumps(now), encoding="utf-8")
    os.replace(aside, path)


def state_shape(stage: Stage) -> list[str]:
    """What is kept and by what it is known, in the order of the operators."""
    rules = [("+".join(source.topics), source.dedupe) for source in stage.sources if source.dedupe is not None]
    rules += [item for source in stage.sources for item in source.dedupes.items()]
    deduped = [
        f"numbers of {topics}: sender {rule.sender}, sequence {rule.sequence}, epoch {rule.epoch}"
        for topics, rule in rules
    ]
    steps = [f"{source.name}: {source.stateful.key}" for source in stage.sources if source.stateful is not None]
    joins = [f"join of {source.join.kept}" for source in stage.sources if source.join is not None]
    return [*deduped, *steps, *joins]


class ShardProcessor(StatefulProcessor):
    """Reads the state of a shard, lets the keeper decide, and writes it back."""

    def __init__(self, keeper: StateKeeper, ticks: Ticks) -> None:
        self._keeper = keeper
        self._ticks = ticks

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("shard", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:
        packets = list(rows)
        records = in_order(row[PACKET] for row in packets)
        kept = self._state.get()
        before = b"" if kept is None else bytes(kept[0])
        state: ShardState = _decoder.decode(before) if before else {}
        judged = self._judged(records, state, packets[0][NOW], key[0])
        after = _encode(state)
        if after != before:
            self._state.update((after,))
        yield Row(**{SHARD: key[0], PACKET: write_packet(judged)})

    def _judged(self, records: pa.Table, state: ShardState, now_ms: int, shard: int) -> pa.Table:
        keys = records.column(KEY).to_pylist()
        said = self._keeper.decide(records, keys, state, now_ms)
        records = records.drop_columns([KEY])
        ticks = self._ticks.of(records) if isinstance(self._keeper, TimedKeeper) else {}
        # A tick may be of a flow that had other timers: it makes its shard tell that nothing is due any more.
        if isinstance(self._keeper, TimedKeeper) and (ticks or self._keeper.is_timed):
            for at, verdict in zip(ticks, self._keeper.wake([*ticks.values()], state, now_ms), strict=True):
                said[at] = verdict
            self._tell_due(self._keeper.due(state), shard, records, said)
        if not any(verdict is not None for verdict in said):
            return records
        at = records.schema.get_field_index(VERDICT)
        known = records.column(at).to_pylist()
        texts = [old if new is None else new.after(old).encode() for old, new in zip(known, said, strict=True)]
        return with_left(_rewritten(records.set_column(at, VERDICT, pa.array(texts, pa.binary())), said), said)

    def _tell_due(self, due: list[int], shard: int, records: pa.Table, said: list[RecordVerdict | None]) -> None:
        """On the first record of the shard: every record comes to where it is reported."""
        known = records.column(VERDICT)[0].as_py()
        verdict = said[0] or (RecordVerdict() if known is None else RecordVerdict.decode(known))
        said[0] = verdict._replace(due={f"{self._ticks.operator}/{shard}": due, **(verdict.due or {})})

    def close(self) -> None:
        pass


def _rewritten(records: pa.Table, said: Sequence[RecordVerdict | None]) -> pa.Table:
    """The records with the values and headers that were put in place of theirs."""
    places = {at: verdict for at, verdict in enumerate(said) if verdict is not None and verdict.value is not None}
    if not places:
        return records
    values, headers = (records.column(name).to_pylist() for name in ("value", "headers"))
    for at, verdict in places.items():
        values[at] = verdict.value
        if verdict.header is not None:
            name, value = verdict.header
            headers[at] = [*(headers[at] or ()), {"key": name, "value": value}]
    for name, cells in (("value", values), ("headers", headers)):
        column = records.schema.get_field_index(name)
        records = records.set_column(
            column, records.schema.field(column), pa.array(cells, records.schema.types[column])
        )
    return records


class PacketMaker:
    """What `mapInArrow` calls before the operator: records in, one packet for each shard and Arrow batch out."""

    def __init__(self, keeper: StateKeeper, ticks: Ticks) -> None:
        self._keeper = keeper
        self._ticks = ticks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks = told_blocks()
        for batch in batches:
            if batch.num_rows:
                yield self._packed(batch, blocks)

    def _packed(self, batch: pa.RecordBatch, blocks: BlockBarrier) -> pa.RecordBatch:
        keys = self._keeper.keys(batch)
        places = _shards(batch, keys)
        for at, tick in self._ticks.of(batch).items():
            places[at] = tick.shard
        shards = pa.array(places, pa.int32())
        columns = [batch.column(name) for name in ARROW_SCHEMA.names]
        known = batch.schema.get_field_index(VERDICT)
        columns.append(self._first_said(batch, blocks) if known < 0 else batch.column(known))
        keyed = pa.RecordBatch.from_arrays([*columns, pa.array(keys, pa.binary())], schema=_KEYED)
        order = pc.sort_indices(shards)
        keyed, shards = keyed.take(order), shards.take(order)
        runs = pc.run_end_encode(shards)
        starts = [0, *runs.run_ends.to_pylist()]
        packets = [write_packet(keyed.slice(start, stop - start)) for start, stop in pairwise(starts)]
        return pa.RecordBatch.from_arrays([runs.values, pa.array(packets, pa.binary())], schema=_PACKETS)

    def _first_said(self, batch: pa.RecordBatch, blocks: BlockBarrier) -> pa.Array:
        """Before the first operator only block rules say something."""
        return verdicts(batch, blocks, self._ticks.reentry) if blocks else pa.nulls(batch.num_rows, pa.binary())


def _shards(batch: pa.RecordBatch, keys: list[bytes | None]) -> list[int]:
    """By key; records without one stay with those of their partition, so that they keep their order."""
    if None not in keys:
        return [crc32(key) % SHARDS for key in keys]  # type: ignore[arg-type]  # none of them is None
    places = zip(batch.column("topic").to_pylist(), batch.column("partition").to_pylist(), strict=True)
    return [
        crc32(f"{topic}/{partition}".encode() if key is None else key) % SHARDS
        for key, (topic, partition) in zip(keys, places, strict=True)
    ]


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What `mapInArrow` calls behind the operator: packets in, records out."""
    for batch in batches:
        for packet in batch.column(PACKET).to_pylist():
            yield from read_packet(packet).to_batches(MOST_ROWS)


def write_packet(records: pa.RecordBatch | pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema) as stream:
        stream.write(records)
    packet: bytes = sink.getvalue().to_pybytes()
    return packet


def read_packet(packet: bytes) -> pa.Table:
    with pa.ipc.open_stream(packet) as stream:
        return stream.read_all()


def in_order(packets: Iterable[bytes]) -> pa.Table:
    """All records of a shard as their offsets have it: Spark gives the packets in whatever order it has got them."""
    return pa.concat_tables(map(read_packet, packets)).sort_by(ORDER).combine_chunks()
