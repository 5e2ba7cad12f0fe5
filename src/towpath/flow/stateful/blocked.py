"""Block rules before operators with state: what they keep out is neither remembered nor joined.

The rules are fixed with the snapshot of a batch, in its row, so every attempt at the batch has the same ones.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from towpath.access.barrier import Barrier
from towpath.access.block_rule import BlockAction, BlockRule
from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure, bounded
from towpath.flow.place import Place
from towpath.flow.stateful.verdict import Verdict
from towpath.flow.worker.records import Records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTY = "towpath.blocks"
BLOCKED = "Blocked"  # the name of the failure


def tell_blocks(spark: SparkSession, blocks: Barrier) -> None:
    """For all jobs that this thread begins: the plan of a query is put together once, and knows no batch."""
    spark.sparkContext.setLocalProperty(PROPERTY, json.dumps(blocks.to_value()) if blocks else "")


def told_blocks() -> Barrier:
    """What the driver has told the task that asks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    text = None if context is None else context.getLocalProperty(PROPERTY)
    return Barrier.of_value(json.loads(text)) if text else Barrier()


def verdicts(batch: pa.RecordBatch, blocks: Barrier, reentry: str) -> pa.Array:
    """What is to be said about records that no operator has seen; null is nothing."""
    caught = blocks.caught_in_topics(Records.of_batch(batch), reentry)
    said = [_verdict(caught[at]).encode() if at in caught else None for at in range(batch.num_rows)]
    return pa.array(said, pa.binary())


def _verdict(rule: BlockRule) -> Verdict:
    if rule.action is BlockAction.IGNORE:
        return Verdict(Place.BLOCKED, rule=rule.number)
    return Verdict(failure=refused_by(rule, ""), rule=rule.number)


def refused_by(rule: BlockRule, source: str) -> Failure:
    """What is told about a record that a rule refuses; the source is known to who reads the record."""
    return Failure(ErrorCode.NOT_VALID, source, BLOCKED, bounded(rule.reason))
