"""Puts the operators with state on the records of a stage, between what is read and all else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from towpath.errors import BadFlow
from towpath.flow.frames import with_set_headers
from towpath.flow.stateful.column_join import ColumnJoin
from towpath.flow.stateful.column_join_keeper import ColumnJoinKeeper
from towpath.flow.stateful.dedupe_keeper import DedupeKeeper
from towpath.flow.stateful.join import Join
from towpath.flow.stateful.join_keeper import JoinKeeper
from towpath.flow.stateful.keeper import Keeper
from towpath.flow.stateful.packets import PACKETS, SHARD, SHARDS, Pack, unpack
from towpath.flow.stateful.rule import Rule
from towpath.flow.stateful.shard_processor import NOW, ShardProcessor
from towpath.flow.stateful.step_keeper import StepKeeper
from towpath.flow.stateful.tick import Ticks
from towpath.flow.stateful.verdict import VERDICT
from towpath.flow.worker.records import Records
from towpath.flow.worker.report import Counts
from towpath.log.spark_columns import SCHEMA

if TYPE_CHECKING:
    from towpath.flow.graph import Stage

STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def with_state(records: DataFrame, stage: Stage, reentry: str, max_record_bytes: int, trail: str = "") -> DataFrame:
    """The records with what the operators of the stage say about them; the same where it has none.

    The checkpoint fixes the kind of the store and the number of the operator's tasks when it is begun.
    """
    for operator, keeper in enumerate(keepers_of(stage, reentry, max_record_bytes, trail)):
        records.sparkSession.conf.set(STORE, ROCKSDB)
        records = _judged(with_set_headers(records), keeper, Ticks(stage.name, reentry, operator, SHARDS))
    return records


def keepers_of(stage: Stage, reentry: str, max_record_bytes: int, trail: str = "") -> Iterator[Keeper]:
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


def dedupe_rules(stage: Stage) -> dict[str, Rule]:
    """By topic."""
    rules: dict[str, Rule] = {}
    declared = {topic: source.dedupe_of(topic) for source in stage.sources for topic in source.topics}
    for source in stage.sources:
        rule = None if source.dedupe is None else Rule.of(source.name, source.topics, source.dedupe)
        own = {topic: Rule.of(source.name, (topic,), dedupe) for topic, dedupe in source.dedupes.items()}
        for topic in source.topics:
            if declared[topic] != source.dedupe_of(topic):
                raise BadFlow(f"topic {topic!r} is read twice, with different dedupe=; a record is taken or not")
            if (found := own.get(topic, rule)) is not None:
                rules.setdefault(topic, found)
    return rules


def told_by(records: DataFrame) -> Counts:
    """How many records there are and what the operators tell of their shards, where nobody else reads them."""
    found = Counts()
    for (text,) in records.mapInArrow(_tell, "told string").collect():
        told = Counts.from_json(json.loads(text))
        found.read += told.read
        found.placed.update(told.placed)
        found.due.update(told.due)
        found.heard(told.event_times)
    return found


def _tell(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counts = Counts()
    for batch in batches:
        records = Records.of_batch(batch)
        counts.saw(records)
        for verdict in records.verdicts.values():
            counts.placed.update(verdict.moves or {})
            counts.placed.update([verdict.place] if verdict.place else [])
            counts.due.update(verdict.due or {})
            counts.heard(verdict.seen or {})
    yield pa.RecordBatch.from_pydict({"told": [json.dumps(counts.to_json())]})


def _judged(records: DataFrame, keeper: Keeper, ticks: Ticks) -> DataFrame:
    packets = records.mapInArrow(Pack(keeper, ticks), PACKETS)
    # Spark puts the time of the batch for this, the same on every attempt at it.
    timed = packets.withColumn(NOW, F.unix_millis(F.current_timestamp()))
    judged = timed.groupBy(SHARD).transformWithState(ShardProcessor(keeper, ticks), PACKETS, "Append", "None")
    return judged.mapInArrow(unpack, f"{SCHEMA}, {VERDICT} binary")
