"""Which record a document was made from, where its id says so; and that record, as long as the log has it."""

from __future__ import annotations

from towpath.catalog.complaint import Complaint, Origin
from towpath.db import Database, Transaction
from towpath.errors import OffsetOutOfRange, RecordUnknown, UnknownPartition, UnknownTopic
from towpath.flow.audit.sink_readers import parse_coordinates
from towpath.flow.stage_store import StageStore
from towpath.log.log import Log
from towpath.log.record import Record


class Origins:
    """Finds records by what is known of documents."""

    def __init__(self, database: Database) -> None:
        self._stages = StageStore(database)

    def of_document(self, tx: Transaction, document: str, flow: str | None) -> Origin | None:
        """Ids that Towpath makes are the place of a record. None: it is not such an id, or flows do not agree on it."""
        place = parse_coordinates(document)
        if place is None:
            return None
        topic, incarnation, partition, offset, _ = place
        known = [stage.topics.get(topic, ()) for stage in self._stages.list(tx, flow)]
        ids = {each[incarnation] for each in known if incarnation < len(each)}
        return Origin(topic, ids.pop(), partition, offset) if len(ids) == 1 else None


def origin_at(log: Log, topic: str, partition: int, offset: int) -> Origin:
    """The place of a record that a person names; raises when there is none."""
    found = log.topic(topic)
    if log.record(topic, partition, offset) is None:
        raise RecordUnknown(f"{topic}/{partition}/{offset} holds no record")
    return Origin(topic, found.id, partition, offset)


def record_of(log: Log, complaint: Complaint) -> Record:
    """The record behind a complaint; raises `RecordUnknown`."""
    origin = complaint.origin
    if origin is None:
        raise RecordUnknown(
            f"nobody knows which record document {complaint.about.document!r} was made from; say it: "
            f"towpath complaint act {complaint.number} link --record TOPIC/PARTITION/OFFSET"
        )
    try:
        is_there = log.topic(origin.topic).id == origin.topic_id
        found = log.record(origin.topic, origin.partition, origin.offset) if is_there else None
    except (UnknownTopic, UnknownPartition, OffsetOutOfRange):
        found = None
    if found is None:
        raise RecordUnknown(f"the record {origin} is not in the log any more")
    return found
