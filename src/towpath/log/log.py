"""The protocol of a log, which `SqliteLog` and `KafkaLog` implement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from towpath.errors import BadValue
from towpath.log.record import NewRecord, Position, Record
from towpath.log.topic import OFFSET_BITS, Topic

Offsets = Mapping[int, int]  # by partition
Positions = Mapping[tuple[str, int], int]  # by topic and partition


class LogTransaction(Protocol):
    """Appends to any topics and moves of positions, which readers see all together or not at all."""

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        """Append when the transaction commits."""

    def commit_positions(self, group: str, positions: Positions) -> None:
        """Move the positions of a group when the transaction commits."""

    def flush(self) -> None:
        """Wait until everything appended so far has reached the log; raises what the commit would raise."""


class Producer(Protocol):
    """The only live appender of its name. Opening a second one fences the first, wherever it runs."""

    name: str

    def transaction(self) -> AbstractContextManager[LogTransaction]:
        """Commits at the end of the block; aborts when it raises. `ProducerFenced` when a newer one took over."""

    def close(self) -> None:
        """Close connections. What is committed stays; an open transaction is aborted."""


class Log(Protocol):
    """Topics with partitions. Offsets increase but are not dense: an offset may hold nothing.

    Every read is of committed records only. Safe to use from several threads.
    """

    url: str

    def create_topic(
        self, name: str, partitions: int | None = None, *, retention_s: float | str | None = None
    ) -> Topic:
        """Make a topic. `retention_s` is an age in seconds or `"never"`; None: as the settings say."""

    def topic(self, name: str) -> Topic:
        """The topic of that name as it is now; `UnknownTopic` when there is none."""

    def topics(self) -> list[Topic]:
        """All topics that are not the log's own, by name."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and positions."""

    def add_partitions(self, name: str, partitions: int) -> Topic:
        """Raise the number of partitions. Keys may then go to other ones; existing records stay where they are."""

    def append(self, topic: str, records: Sequence[NewRecord]) -> list[Position]:
        """Append without a transaction and return where each record is.

        Records of one partition keep their order. Cut off in the middle it raises `PartlyAppended`.
        """

    def producer(self, name: str) -> Producer:
        """Open the producer of that name, which fences any older one."""

    def starts(self, topic: str) -> dict[int, int]:
        """The first offset of each partition that is still kept."""

    def ends(self, topic: str) -> dict[int, int]:
        """The offset after the last committed record of each partition: how far a reader can read now."""

    def written_ends(self, topic: str) -> dict[int, int]:
        """The offset after the last record of each partition, committed or not.

        Everything committed until now lies before it, also where another open transaction still hides it from readers.
        """

    def read(self, topic: str, partition: int, start: int, stop: int | None = None) -> Iterator[Record]:
        """The records with offsets from `start` to before `stop` (now's end if None), in order, as they come.

        `OffsetOutOfRange` when `start` is below the start or beyond the end of the partition.
        """

    def record(self, topic: str, partition: int, offset: int) -> Record | None:
        """The record at that offset; None when the offset holds nothing, which is not an error."""

    def undecided(self, topic: str, partition: int) -> Iterator[Record]:
        """The records that an open transaction hides from readers: its own and all behind them, committed or not."""

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """For each partition the first offset whose record is of that time or later; the end when there is none."""

    def delete_before(self, topic: str, offsets: Offsets) -> None:
        """Delete the records below these offsets. They are gone for every reader, also for groups that are behind."""

    def positions(self, group: str) -> dict[tuple[str, int], int]:
        """Where a group is, by topic and partition.

        On Kafka a commit may show some milliseconds after it returned. Opening a producer settles what an older one
        of its name left under way: after a crash open it first and read the positions then.
        """

    def commit_positions(self, group: str, positions: Positions) -> None:
        """Set where a group is: the offset that it will read next."""

    def groups(self) -> list[str]:
        """The names of all groups that have a position."""

    def forget_group(self, group: str) -> None:
        """Delete the positions of a group."""

    def close(self) -> None:
        """Close connections."""


def check_positions(positions: Positions) -> None:
    """Positions are offsets: whole numbers from 0."""
    for (topic, number), position in positions.items():
        if type(position) is not int or not 0 <= position < 1 << OFFSET_BITS:
            raise BadValue(f"a position is an offset from 0, not {position!r} (for {topic}/{number})")
