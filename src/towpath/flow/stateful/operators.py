"""Puts the operators with state on the records of a stage, between what is read and all else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from towpath.errors import BadFlow
from towpath.flow.frames import with_set_headers
from towpath.flow.stateful.dedupe_keeper import DedupeKeeper
from towpath.flow.stateful.join_keeper import JoinKeeper
from towpath.flow.stateful.keeper import Keeper
from towpath.flow.stateful.packets import PACKETS, SHARD, Pack, unpack
from towpath.flow.stateful.rule import Rule
from towpath.flow.stateful.shard_processor import NOW, ShardProcessor
from towpath.flow.stateful.step_keeper import StepKeeper
from towpath.flow.stateful.verdict import VERDICT
from towpath.log.spark_columns import SCHEMA

if TYPE_CHECKING:
    from towpath.flow.graph import Stage

STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def with_state(records: DataFrame, stage: Stage, reentry: str, max_record_bytes: int) -> DataFrame:
    """The records with what the operators of the stage say about them; the same where it has none.

    The checkpoint fixes the kind of the store and the number of the operator's tasks when it is begun.
    """
    for keeper in keepers_of(stage, reentry, max_record_bytes):
        records.sparkSession.conf.set(STORE, ROCKSDB)
        records = _judged(with_set_headers(records), keeper)
    return records


def keepers_of(stage: Stage, reentry: str, max_record_bytes: int) -> Iterator[Keeper]:
    """In the order in which records go through them. The order is part of the checkpoint."""
    rules = dedupe_rules(stage)
    if rules:
        yield DedupeKeeper(rules)
    for source in stage.sources:
        if source.stateful is not None:
            yield StepKeeper(source, source.stateful, stage.name, reentry, max_record_bytes)
        if source.join is not None:
            yield JoinKeeper(source, source.join, stage.name, reentry, max_record_bytes)


def dedupe_rules(stage: Stage) -> dict[str, Rule]:
    """By topic."""
    rules: dict[str, Rule] = {}
    declared = {topic: source.dedupe for source in stage.sources for topic in source.topics}
    for source in stage.sources:
        rule = None if source.dedupe is None else Rule.of(source.name, source.topics, source.dedupe)
        for topic in source.topics:
            if declared[topic] != source.dedupe:
                raise BadFlow(f"topic {topic!r} is read twice, with different dedupe=; a record is taken or not")
            if rule is not None:
                rules.setdefault(topic, rule)
    return rules


def _judged(records: DataFrame, keeper: Keeper) -> DataFrame:
    packets = records.mapInArrow(Pack(keeper), PACKETS)
    # Spark puts the time of the batch for this, the same on every attempt at it.
    timed = packets.withColumn(NOW, F.unix_millis(F.current_timestamp()))
    judged = timed.groupBy(SHARD).transformWithState(ShardProcessor(keeper), PACKETS, "Append", "None")
    return judged.mapInArrow(unpack, f"{SCHEMA}, {VERDICT} binary")
