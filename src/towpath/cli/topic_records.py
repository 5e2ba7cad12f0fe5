"""Which records of a topic a command is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from towpath.cli.failures import UsageError
from towpath.cli.topic_send import parse_header
from towpath.cli.topic_times import parse_time_ms
from towpath.log import Log, Record


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition or of all."""

    partition: int | None
    start: int | None = None
    stop: int | None = None
    starts: dict[int, int] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        """Whether the start was given: one that is not there is then an error."""
        return self.start is not None


def span_of(log: Log, topic: str, span: Span, since: str | None, now_ms: int) -> Span:
    """The span with a start for each partition that it is about."""
    found = log.topic(topic)
    number = span.partition
    if number is not None:
        found.check_partition(number)
    elif span.start is not None or span.stop is not None:
        if found.partitions > 1:
            raise UsageError(f"an offset is of one partition: say which of the {found.partitions} with --partition")
        number = 0
    at = log.starts(topic) if since is None else log.offsets_at(topic, parse_time_ms(since, "--since", now_ms))
    if span.start is not None and number is not None:
        at[number] = span.start
    starts = at if number is None else {number: at[number]}
    return Span(number, span.start, span.stop, starts)


@dataclass(frozen=True, slots=True)
class Filter:
    """What a record must have, all of it."""

    key: bytes | None
    contains: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, key: str | None, contains: str | None, headers: Sequence[str] | None) -> Filter:
        return cls(
            None if key is None else key.encode(),
            None if contains is None else contains.encode(),
            tuple(parse_header(pair) for pair in headers or ()),
        )

    def fits(self, record: Record) -> bool:
        return (
            (self.key is None or record.key == self.key)
            and (self.contains is None or self.contains in (record.value or b""))
            and all(header in record.headers for header in self.headers)
        )
