"""Many records in one cell: an Arrow stream. Spark handles a packet at the price of a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from towpath.access.barrier import Barrier
from towpath.flow.stateful.blocked import told_blocks, verdicts
from towpath.flow.stateful.keeper import Keeper
from towpath.flow.stateful.tick import Ticks
from towpath.flow.stateful.verdict import VERDICT
from towpath.log.spark_columns import ARROW_SCHEMA

# The number of shards is part of the state: with another one, keys would look for theirs where it is not.
SHARDS = 256
SHARD, PACKET, KEY = "shard", "packet", "_key"
PACKETS = f"{SHARD} int, {PACKET} binary"
JUDGED = pa.schema([*ARROW_SCHEMA, (VERDICT, pa.binary())])
ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
MOST_ROWS = 10_000

_PACKETS = pa.schema([(SHARD, pa.int32()), (PACKET, pa.binary())])
_KEYED = pa.schema([*JUDGED, (KEY, pa.binary())])


class Pack:
    """What `mapInArrow` calls before the operator: records in, one packet for each shard and Arrow batch out."""

    def __init__(self, keeper: Keeper, ticks: Ticks) -> None:
        self._keeper = keeper
        self._ticks = ticks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks = told_blocks()
        for batch in batches:
            if batch.num_rows:
                yield self._packed(batch, blocks)

    def _packed(self, batch: pa.RecordBatch, blocks: Barrier) -> pa.RecordBatch:
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

    def _first_said(self, batch: pa.RecordBatch, blocks: Barrier) -> pa.Array:
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
