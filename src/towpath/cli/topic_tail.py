"""Following a topic as it grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from towpath.cli.failures import say
from towpath.errors import LogUnavailable, OffsetOutOfRange, TopicReplaced, UnknownPartition, UnknownTopic
from towpath.log import Log, Record, Topic

ROUND_S = 0.2
WIDER = 8


def pause_for(log: Log, topic: str) -> Callable[[], object]:
    """A pause until the next look; on SQLite a record that is appended ends it."""
    from towpath.log.sqlite_log import SqliteLog, bell_name

    if not isinstance(log, SqliteLog):
        return lambda: time.sleep(ROUND_S)
    bell = log.database.bells.hang(bell_name(topic))

    def until_rung() -> None:
        bell.wait(ROUND_S)
        bell.clear()

    return until_rung


class Follower:
    """Each record after a moment once, in the order of its partition; partitions that are added later too."""

    def __init__(self, log: Log, topic: Topic, partition: int | None = None) -> None:
        self._log = log
        self._topic = topic
        self._partition = partition
        with self._while_it_lasts():
            self._next = self._ends()
        self._is_away = False

    def last(self, count: int) -> list[Record]:
        """The last ones before the moment, by their time."""
        if count == 0:
            return []
        with self._while_it_lasts():
            starts = self._log.starts(self._topic.name)
            try:
                found = [each for number, end in self._next.items() for each in self._last(number, end, starts, count)]
            except LogUnavailable:  # what Kafka's reader says too when the topic is deleted under it
                self._check_topic()
                raise
        return sorted(found, key=lambda record: (record.timestamp_ms, record.partition, record.offset))[-count:]

    def follow(self, pause: Callable[[], object]) -> Iterator[Record]:
        """Without end; waits while the log is away."""
        while True:
            try:
                with self._while_it_lasts():
                    yield from self._news()
                if self._is_away:
                    say("the log is back")
                    self._is_away = False
            except LogUnavailable as error:
                if not self._is_away:
                    say(f"waiting: {error}")
                self._is_away = True
            pause()

    def _last(self, number: int, end: int, starts: dict[int, int], count: int) -> list[Record]:
        """Offsets may hold nothing, so that one may have to look further back than `count`."""
        start, width = starts.get(number, 0), count
        while True:
            first = max(start, end - width)
            found = list(self._log.read(self._topic.name, number, min(first, end), end))
            if len(found) >= count or first <= start:
                return found[-count:]
            width *= WIDER

    def _news(self) -> Iterator[Record]:
        for number, end in self._ends().items():
            first = self._next.get(number, 0)
            if first >= end:
                continue
            for record in self._read(number, first, end):
                self._next[number] = record.offset + 1  # also when the log goes away in the middle
                yield record
            self._next[number] = end

    def _read(self, number: int, first: int, end: int) -> Iterator[Record]:
        name = self._topic.name
        try:
            records = self._log.read(name, number, first, end)
        except OffsetOutOfRange as error:
            self._check_topic()  # in a topic that was made again, offsets begin anew
            say(f"{name}/{number}: the records from {first} to before {error.start} are deleted already")
            records = self._log.read(name, number, error.start, end)
        self._check_topic()
        return records

    def _ends(self) -> dict[int, int]:
        ends = self._log.ends(self._topic.name)
        # Checked after the question: a topic that is still the same now was so when it was asked.
        self._check_topic()
        return ends if self._partition is None else {self._partition: ends[self._partition]}

    @contextmanager
    def _while_it_lasts(self) -> Iterator[None]:
        """The topic may be deleted, and made again with fewer partitions, between any two questions."""
        name, id_ = self._topic.name, self._topic.id
        try:
            try:
                yield
            except (OffsetOutOfRange, UnknownPartition):
                self._check_topic()
                raise
        except UnknownTopic as error:
            raise TopicReplaced(name, id_, None) from error
        except TopicReplaced as error:  # a reader knows only the name
            raise TopicReplaced(name, id_, error.found) from error

    def _check_topic(self) -> None:
        now = self._log.topic(self._topic.name).id
        if now != self._topic.id:
            raise TopicReplaced(self._topic.name, self._topic.id, now)
