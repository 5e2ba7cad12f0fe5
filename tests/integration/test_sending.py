"""Errors and outcomes of a batch, told once, on both logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.support.logs import values

from towpath.errors import LogError, ProducerFenced
from towpath.flow.delivery.ids import Strategy
from towpath.flow.delivery.marks import Mark, MarkTopic
from towpath.flow.delivery.splitter import PartLimits
from towpath.flow.records.errors import BLOB, ErrorWriter
from towpath.flow.run.notifier import BatchNotifier, Told
from towpath.flow.topics import FlowTopics
from towpath.log import Log, NewRecord
from towpath.testing.clock import wait_until

LARGEST = 2_000


class Desk:
    """The topics of one flow, and the senders of one stage."""

    def __init__(self, log: Log, flow: str, home: Path) -> None:
        self.log, self.flow, self.home = log, flow, home
        self.topics = FlowTopics.of(flow)
        self.topics.ensure(log, 2)
        self.marks = MarkTopic(log, self.topics.marks)
        self.since = self.marks.ends()
        self.opened: list[BatchNotifier] = []

    def sender(self, strategy: Strategy = Strategy.EXACTLY_ONCE) -> BatchNotifier:
        box = ErrorWriter(self.log, self.topics.errors, LARGEST, self.home / "blobs")
        self.opened.append(BatchNotifier(self.log, self.topics, self.flow, "stage", strategy, box))
        return self.opened[-1]

    def mark(self, batch_id: int = 0, part: int = 0) -> Mark:
        return Mark(self.flow, "stage", 1, batch_id, "", "errors", part)

    def told(self, *numbers: int) -> list[Told]:
        """Of each number an error, with and without a key, and of every third an outcome."""
        errors = [(self.topics.errors, NewRecord(b"%d" % n, b"k" if n % 2 else None)) for n in numbers]
        return errors + [(self.topics.outcomes, NewRecord(b"%d" % n, b"k")) for n in numbers if n % 3 == 0]

    def wait_for(self, numbers: Sequence[int], marks: int) -> None:
        outcomes = [n for n in numbers if n % 3 == 0]
        wait_until(
            lambda: (
                self._numbers(self.topics.errors) == sorted(numbers)
                and self._numbers(self.topics.outcomes) == sorted(outcomes)
                and len(self.marks.since(self.since)) == marks
            ),
            30,
            f"errors {numbers} and {marks} marks",
        )

    def _numbers(self, topic: str) -> list[int]:
        return sorted(int(value or -1) for value in values(self.log, topic))


@pytest.fixture
def desk(log: Log, name: str, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(log, name, tmp_path)
    yield desk
    for sender in desk.opened:
        sender.close()


def test_told_once_however_often_it_is_tried(desk: Desk) -> None:
    sender = desk.sender()
    assert sender.send(desk.mark(), desk.since, desk.told(1, 2, 3))
    assert not sender.send(desk.mark(), desk.since, desk.told(1, 2, 3))
    assert sender.send(desk.mark(1), desk.since, desk.told(4))  # the same producer, another batch
    assert not desk.sender().send(desk.mark(), desk.since, desk.told(1, 2, 3))  # another driver
    assert not sender.send(desk.mark(2), desk.since, iter(()))  # nothing to tell, nothing to mark
    desk.wait_for([1, 2, 3, 4], 2)


def test_an_older_driver_cannot_tell_any_more(desk: Desk) -> None:
    """Its records are drawn while the newer one is at it already: nothing of it is ever seen."""
    older, newer = desk.sender(), desk.sender()
    older.send(desk.mark(), desk.since, desk.told(1))

    def overtaken() -> Iterator[Told]:
        first, *rest = desk.told(2, 3)
        yield first
        newer.send(desk.mark(1), desk.since, [first, *rest])
        yield from rest

    with pytest.raises(ProducerFenced):
        older.send(desk.mark(1), desk.since, overtaken())
    desk.wait_for([1, 2, 3], 2)
    assert not older.send(desk.mark(1), desk.since, desk.told(2, 3))  # it opens again, and finds the mark
    desk.wait_for([1, 2, 3], 2)


def test_what_breaks_in_the_middle_is_told_once_by_the_next_try(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts, as the SQLite log has them: those that are there are passed over."""
    monkeypatch.setattr("towpath.flow.run.notifier.limits_of", lambda log: PartLimits(3, 1 << 20))
    sender = desk.sender()

    def broken() -> Iterator[Told]:
        yield from desk.told(*(n for n in range(1_006) if n % 3))
        raise LogError("away")

    numbers = [n for n in range(1_006) if n % 3]
    with pytest.raises(LogError, match="away"):
        sender.send(desk.mark(), desk.since, broken())
    there = len(desk.marks.since(desk.since))
    assert there in (0, len(numbers) // 3, -(-len(numbers) // 3) - 1)
    assert sender.send(desk.mark(), desk.since, desk.told(*numbers))
    desk.wait_for(numbers, -(-len(numbers) // 3))


def test_values_that_are_too_large_are_kept_as_files(desk: Desk) -> None:
    large = b"x" * LARGEST
    desk.sender().send(desk.mark(), desk.since, [(desk.topics.errors, NewRecord(large, b"k"))])
    wait_until(lambda: values(desk.log, desk.topics.errors) == [None], 30, "the error record")
    record = next(record for number in (0, 1) for record in desk.log.read(desk.topics.errors, number, 0))
    assert (desk.home / "blobs" / (dict(record.headers)[BLOB] or b"").decode()).read_bytes() == large


def test_without_marks_a_repeat_tells_it_again(desk: Desk) -> None:
    sender = desk.sender(Strategy.AT_LEAST_ONCE)
    for _ in range(2):
        assert sender.send(desk.mark(), {}, desk.told(1, 3))
    desk.wait_for([1, 1, 3, 3], 0)
