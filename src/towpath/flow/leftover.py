"""The end of a batch of which an input was deleted and made again while it was open.

What the batch was to read of the old topic is gone, unless it was decided or loaded already. It is not begun anew: of
its other inputs, topics may have a part. It is ended under its own name, with its marks, without what is gone: that is
told as a gap. Then the stage begins a new generation, behind this batch.

Spark's query is not asked for the records: it would read what lies at the old offsets of the new topic.
"""

from __future__ import annotations

import secrets
from typing import cast

from pyspark.sql import DataFrame

from towpath.errors import SinkError
from towpath.events import Event, EventKind
from towpath.flow.batch_run import BatchRun
from towpath.flow.ground import Ground
from towpath.flow.helm import Helm
from towpath.flow.judge import Judge
from towpath.flow.ledger_row import Batch
from towpath.flow.pilot import Pilot, PilotState
from towpath.flow.probe import Outage
from towpath.log.spark_source import read_batch


class _Still:
    """A helm that stays where it is: the stage is at its reset, whatever the batch comes to."""

    def __init__(self, pilot: Pilot) -> None:
        self.pilot = pilot

    def reach(self, state: PilotState, batch_id: int | None = None) -> None:
        pass


def finish_open_batch(ground: Ground, helm: Helm) -> None:
    """End it where that can be done. What keeps state in Spark, or has no marks, is not ended like this."""
    if not ground.flow.delivery.has_marks or ground.stage.is_stateful:
        return
    with ground.database.read() as tx:
        batch = ground.ledger.open_batch(tx, ground.row.flow, ground.row.name)
    if batch is None or batch.generation != ground.row.generation or not _replaced(ground, batch):
        return
    judge = Judge.from_value(ground.row.judge, ground.settings.flow)
    still = cast(Helm, _Still(helm.pilot))
    run = BatchRun(ground, still, judge, batch.batch_id, _left(ground, batch), secrets.token_hex(8), is_leftover=True)
    try:
        outcome = run.run()
    except Outage as outage:  # here nobody probes: it is waited for as for any sink that takes nothing
        raise SinkError(outage.code, outage.where, str(outage)) from outage
    if outcome is not None:
        data = {"batch_id": batch.batch_id, "took_s": run.took_s, **outcome.to_counts()}
        ground.events.publish(Event(EventKind.BATCH_COMMITTED, ground.name, data=data))


def _replaced(ground: Ground, batch: Batch) -> bool:
    """Whether all topics of the batch are there, and one of them is another one."""
    names = {each.topic for each in batch.positions}
    return names <= ground.found.keys() and any(
        ground.found[each.topic].id != each.topic_id for each in batch.positions
    )


def _left(ground: Ground, batch: Batch) -> DataFrame:
    """What the batch reads of topics that are the same."""
    ranges = [each for each in batch.positions if ground.found[each.topic].id == each.topic_id]
    topics = sorted({each.topic for each in ranges})
    ends = {(name, number): end for name in topics for number, end in ground.log.ends(name).items()}
    starts = {(each.topic, each.partition): each.start for each in ranges}
    stops = {(each.topic, each.partition): each.stop for each in ranges}
    return read_batch(ground.spark, ground.log, topics, {**ends, **starts}, {**ends, **stops})
