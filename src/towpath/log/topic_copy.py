"""Copies a topic to another log, or under another name; a copy that was cut off can go on.

1. The producer of this copy is opened on the target: an older copy that still runs is fenced, and what it left open
   is aborted.
2. The positions of this copy's group in the target topic say up to which offset each source partition is in it. None
   at all: the copy is new; then the target has to be empty, and the starts of the source are committed as positions.
3. Portion by portion, records and the source's position after them go to the target in one transaction.

Source and target are in the group's name by their ids: a topic that was deleted and made again is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from towpath.errors import BadRecord, BadValue, Refused, UnknownTopic
from towpath.log.log import Log, Producer
from towpath.log.portions import Portion
from towpath.log.record import NewRecord, Record, check_record
from towpath.log.topic import NEVER, Topic, copy_group

Report = Callable[[int], None]


@dataclass(slots=True)
class CopyResult:
    """What a copy did: `records` counts those of this run, by partition of the source."""

    source: Topic
    target: Topic
    went_on: bool = False  # an earlier run had begun it
    records: dict[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.records.values())


class TopicCopy:
    """Copies what is in a topic now. The same copy again brings what has come since."""

    def __init__(self, source: Log, target: Log, max_record_bytes: int) -> None:
        self._source = source
        self._target = target
        self._max_record_bytes = max_record_bytes

    def run(self, name: str, target_name: str, *, append: bool = False, report: Report | None = None) -> CopyResult:
        """With `append` a target that has other records is no error. `report` is told how many are copied so far."""
        copied = self._prepare(name, target_name)
        group = copy_group(copied.source.id, copied.target.id)
        same_partitions = copied.source.partitions == copied.target.partitions
        producer = self._target.producer(group)
        try:
            positions = self._positions(copied, group, producer, append)
            for number, end in self._source.ends(name).items():
                copied.records[number] = 0
                first = max(positions.get((target_name, number), 0), self._source.starts(name)[number])
                records = self._source.read(name, number, first, end) if first < end else iter(())
                for portion in self._portions(records, same_partitions):
                    self._write(producer, group, target_name, number, portion)
                    copied.records[number] += len(portion.records)
                    if report is not None:
                        report(copied.total)
        finally:
            producer.close()
        return copied

    def _prepare(self, name: str, target_name: str) -> CopyResult:
        origin = self._source.topic(name)
        try:
            copied = CopyResult(origin, self._target.topic(target_name))
        except UnknownTopic:
            kept_s = NEVER if origin.retention_s is None else origin.retention_s
            made = self._target.create_topic(target_name, origin.partitions, retention_s=kept_s)
            return CopyResult(origin, made)
        if copied.target.id == origin.id:
            raise BadValue(f"topic {name!r} cannot be copied to itself")
        if copied.target.partitions < origin.partitions:
            raise BadValue(
                f"topic {target_name!r} of {self._target.url} has {copied.target.partitions} partitions, fewer than "
                f"the {origin.partitions} of {name!r}; make it larger first: towpath topic grow"
            )
        return copied

    def _positions(
        self, copied: CopyResult, group: str, producer: Producer, append: bool
    ) -> dict[tuple[str, int], int]:
        """Where the copy goes on, in offsets of the source."""
        found = self._target.positions(group)
        copied.went_on = bool(found)
        if found:
            return found
        name = copied.target.name
        if not append and self._holds_records(name):
            raise Refused(
                f"topic {name!r} of {self._target.url} has records that this copy did not put there; "
                "--append adds to them, or copy to another name"
            )
        starts = {(name, number): start for number, start in self._source.starts(copied.source.name).items()}
        with producer.transaction() as transaction:
            transaction.commit_positions(group, starts)
        return starts

    def _holds_records(self, name: str) -> bool:
        # Ends alone do not tell: an offset may hold nothing.
        starts = self._target.starts(name)
        return any(next(self._target.read(name, number, start), None) for number, start in starts.items())

    def _portions(self, records: Iterator[Record], same_partitions: bool) -> Iterator[_Portion]:
        portion = _Portion()
        for record in records:
            new = _new_record(record, same_partitions)
            size = self._size(record, new)
            if not portion.room.fits(size):
                yield portion
                portion = _Portion()
            portion.add(new, size, record.offset + 1)
        if portion.records:
            yield portion

    def _size(self, record: Record, new: NewRecord) -> int:
        try:
            return check_record(new, self._max_record_bytes)
        except BadRecord as error:
            raise BadRecord(f"{record.topic}/{record.partition}/{record.offset}: {error}") from error

    def _write(self, producer: Producer, group: str, name: str, number: int, portion: _Portion) -> None:
        with producer.transaction() as transaction:
            transaction.append(name, portion.records)
            transaction.commit_positions(group, {(name, number): portion.next})


@dataclass(slots=True)
class _Portion:
    """The records of one transaction, and the offset of the source after them."""

    records: list[NewRecord] = field(default_factory=list)
    room: Portion = field(default_factory=Portion)
    next: int = 0

    def add(self, record: NewRecord, size: int, next_offset: int) -> None:
        self.records.append(record)
        self.room.add(size)
        self.next = next_offset


def _new_record(record: Record, same_partitions: bool) -> NewRecord:
    """In a topic with more partitions the keys decide where records go, as for those appended there later."""
    # Kafka knows records without a time, and of the very first millisecond, which its client cannot write.
    timestamp_ms = max(1, record.timestamp_ms) if record.timestamp_ms >= 0 else None
    partition = record.partition if same_partitions else None
    return NewRecord(record.value, record.key, record.headers, timestamp_ms, partition)
