"""What came back through the re-entry topic is delivered under the names of its first reading: finds where that was."""

from __future__ import annotations

from collections.abc import Iterator

from towpath.errors import LogError
from towpath.flow.audit.arrival import is_arrival
from towpath.flow.audit.batch_row import StageRows
from towpath.flow.positions import Range
from towpath.flow.reentry_record import first_reading, said_by, sent_as
from towpath.log.log import Log


def returned_to(log: Log, stage: StageRows) -> Iterator[tuple[Range, int]]:
    """The first readings of all that came back to a stage, each with the place of the batch that has read it again."""
    for number, batch in enumerate(stage.batches):
        for place in batch.ranges:
            if not is_arrival(stage.flow, place.topic):
                for input in _inputs(log, stage, place):
                    yield input, number


def _inputs(log: Log, stage: StageRows, place: Range) -> Iterator[Range]:
    try:
        for record in log.read(place.topic, place.partition, place.start, place.stop):
            said = said_by(record.headers)
            try:
                found = first_reading(said)
            except (KeyError, ValueError):
                continue  # it has failed, and nothing was delivered
            if sent_as(said) in stage.recalled:
                continue
            if found.stage == stage.name and found.topic_id in stage.topics.get(found.topic, ()):
                yield Range(found.topic, found.topic_id, found.partition, found.offset, found.offset + 1)
    except LogError:
        return  # deleted: the balance tells that it cannot be proven
