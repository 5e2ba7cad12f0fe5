"""Units that are written to topics with marks, for tests on both logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson
from tests.support.logs import everything

from towpath.flow.delivery.ids import Strategy
from towpath.flow.delivery.marks import Mark, MarkTopic
from towpath.flow.sinks.sink import Deliveries, Refusal, Writer, WriterContext
from towpath.flow.sinks.topic.sink import TopicSink
from towpath.flow.topics import FlowTopics
from towpath.log import Log
from towpath.settings import Settings
from towpath.testing.clock import wait_until


def numbered(numbers: Sequence[int], target: str, **columns: Any) -> Deliveries:
    """A delivery for each number, with an id that is the number's for ever."""
    count = len(numbers)
    values: dict[str, Any] = {
        "payloads": [orjson.dumps({"n": n}) for n in numbers],
        "targets": [target] * count,
        "ids": [f"orders:0:0:{n}" for n in numbers],
        "delivery_ids": [sha256(b"%d" % n).digest() for n in numbers],
        "versions": list(numbers),
        "keys": [b"%d" % n if n % 2 else None for n in numbers],
        "timestamps_ms": [1_700_000_000_000] * count,
    }
    return Deliveries(**{**values, **columns})


@dataclass
class Bench:
    """One output of one flow, and its topics."""

    log: Log
    settings: Settings
    flow: str
    batch_id: int = 3
    unit: str = "orders/0"
    is_new: bool = True

    def __post_init__(self) -> None:
        if self.is_new:
            FlowTopics.of(self.flow).ensure(self.log, 1)
            self.log.create_topic(self.target, 2, retention_s="never")  # the times of its records are old
        self.marks = MarkTopic(self.log, FlowTopics.of(self.flow).marks)
        self.since = self.marks.ends()

    @property
    def target(self) -> str:
        return f"{self.flow}-out"

    def place(self, unit: str | None = None, batch_id: int | None = None) -> WriterContext:
        return WriterContext(
            self.flow,
            "stage",
            "output",
            "hash",
            unit or self.unit,
            self.settings,
            batch_id=self.batch_id if batch_id is None else batch_id,
            strategy=Strategy.EXACTLY_ONCE,
            marks_since=self.since,
        )

    def mark(self, part: int = 0) -> Mark:
        return self.place().mark(part)

    def deliveries(self, *numbers: int, **columns: Any) -> Deliveries:
        return numbered(numbers, self.target, **columns)

    @contextmanager
    def writer(self, sink: TopicSink | None = None, **place: Any) -> Iterator[Writer]:
        writer = (sink or TopicSink(self.target)).writer(self.place(**place))
        try:
            yield writer
        finally:
            writer.close()

    def write(self, *handed: Deliveries, sink: TopicSink | None = None, **place: Any) -> list[Refusal]:
        """A whole attempt."""
        with self.writer(sink, **place) as writer:
            return [*(refusal for each in handed for refusal in writer.write(each)), *writer.finish()]

    def numbers(self) -> list[int]:
        """What readers see of the output: the numbers, as often as they are there."""
        return self.numbers_in(self.target)

    def numbers_in(self, topic: str) -> list[int]:
        return sorted(orjson.loads(record.value or b"")["n"] for record in everything(self.log, topic))

    def wait_for(self, numbers: Sequence[int], marks: set[Mark]) -> None:
        """Kafka shows a committed transaction a moment after its commit."""
        seen: list[object] = []

        def is_there() -> bool:
            seen[:] = self.numbers(), self.marks.since(self.since)
            return seen == [sorted(numbers), marks]

        try:
            wait_until(is_there, 30)
        except TimeoutError as error:
            raise AssertionError(f"{sorted(numbers)} with {marks} expected, found {seen}") from error
