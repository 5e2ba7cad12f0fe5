"""What a stage will never read: a row in the ledger, an event, and a record in the error topic.

A batch writes the row first and tells before it commits. A reset tells first: its row is what ends it, so that a
process that dies before it leaves a reset to be done again, which tells the same once more.
"""

from __future__ import annotations

from collections.abc import Sequence

from towpath.db import Transaction
from towpath.events import Event, EventKind
from towpath.flow.error_record import BatchName, gap_record
from towpath.flow.ground import Ground
from towpath.flow.positions import Range

EXPIRED = "deleted before it was read"
MADE_AGAIN = "the topic was deleted before the batch was done; outputs may have a part of it"
BY_HAND = "passed over by a reset"


def note_gaps(
    tx: Transaction, ground: Ground, gaps: Sequence[Range], why: str = EXPIRED, batch_id: int | None = None
) -> None:
    """Write down what the present generation will never read."""
    row = ground.row
    for gap in gaps:
        if ground.ledger.add_gap(tx, row.flow, row.name, row.generation, gap, why, batch_id):
            data = {"topic": gap.topic, "partition": gap.partition, "from": gap.start, "to": gap.stop}
            ground.event_log.record(tx, Event(EventKind.FLOW_GAP_FOUND, ground.name, why=why, data=data))


def tell_gaps(ground: Ground, gaps: Sequence[Range], why: str = EXPIRED, batch: BatchName | None = None) -> None:
    """Put it into the error topic. What a reset passes over belongs to no batch."""
    row = ground.row
    name = batch or BatchName(row.flow, row.name, row.version, row.generation, None, "", ground.owner)
    ground.error_box.send(gap_record(gap, why, name) for gap in gaps)
