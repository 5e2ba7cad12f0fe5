"""Keeps late writers of a generation from topics, before the next one begins.

A reset gives up the open batch, and what it was to read is read again or passed over. A task of that batch may still be
at work, or wake up later: nobody will look for its marks, so those do not keep it from writing. Hence, in this order:

1. a fence goes into the marks topic: who opens a producer from now on and then looks for its marks finds it, and gives
   up (`MarkTopic.parts`);
2. the producer of every unit of the open batch is opened: who had opened it before cannot commit any more.

After that no topic gets anything of the batch, and its marks are all that there will ever be. Batches before it are
committed: a late task of theirs finds its mark.
"""

from __future__ import annotations

from collections.abc import Iterator

from towpath import crash
from towpath.crash import CrashPoint
from towpath.flow.ground import Ground
from towpath.flow.ledger_row import Batch
from towpath.flow.mark_topic import MarkTopic
from towpath.flow.sinks.topic import TopicSink
from towpath.flow.topics import producer_of
from towpath.flow.units import Units


def fence_off(ground: Ground) -> None:
    """End the present generation for topics. May be done again and again."""
    if not ground.flow.delivery.has_marks or not ground.row.generation:
        return
    row = ground.row
    with ground.database.read() as tx:
        batch = ground.ledger.open_batch(tx, row.flow, row.name)
    if batch is None:
        return
    MarkTopic(ground.log, ground.topics.marks).fence(row.flow, row.name, row.generation + 1)
    crash.here(CrashPoint.GENERATION_FENCED)
    ground.close()  # its own producer is among them
    for name in producers_of(ground, batch):
        ground.log.producer(name).close()


def producers_of(ground: Ground, batch: Batch) -> Iterator[str]:
    """The names under which a batch may have transactions open."""
    yield producer_of(batch.flow, batch.stage)
    for output in ground.stage.outputs:
        if isinstance(output.sink, TopicSink):
            for unit in units_of(batch):
                yield producer_of(batch.flow, batch.stage, output.name, unit)


def units_of(batch: Batch) -> list[str]:
    """The names of all units that a batch may have, whether its stage shuffles or not."""
    buckets = Units.of_value(batch.units).buckets
    return [
        *(f"{each.topic}/{each.partition}" for each in batch.positions if not each.is_empty),
        *(f"{number}of{buckets}" for number in range(buckets)),
    ]
