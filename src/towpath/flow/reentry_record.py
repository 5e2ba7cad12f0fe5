"""What lies in a re-entry topic: a record that comes back to the stage in which it has failed.

Key, value and the record's own headers are those that the stage is to read. Headers of ours say for which stage it is,
where the record was read for the first time (its *input*: delivery ids and versions are made of that, so that a replay
is the same delivery), and how the desk knows it again: correlation id and attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from towpath.flow import error_record
from towpath.flow.delivered import Delivered
from towpath.flow.error_record import PREFIX
from towpath.log.record import Headers, NewRecord, Record

STAGE = f"{PREFIX}stage"
INPUT_TOPIC = f"{PREFIX}input-topic"
INPUT_TOPIC_ID = f"{PREFIX}input-topic-id"
INPUT_PARTITION = f"{PREFIX}input-partition"
INPUT_OFFSET = f"{PREFIX}input-offset"
INPUT_TIMESTAMP = f"{PREFIX}input-timestamp"
ORIGIN = f"{PREFIX}origin"
CORRELATION = f"{PREFIX}correlation"
ATTEMPT = f"{PREFIX}attempt"
TICKET = f"{PREFIX}ticket"  # under which the desk has sent it: raised by whatever sends it again or calls it back
DELIVERED = f"{PREFIX}{error_record.DELIVERED}"
CORRECTED = f"{PREFIX}corrected"  # by which rules of learned corrections, and in which fields: `rule:7 city`
# Of ticks, by which a stage wakes what is due in its state: the number of the operator, and the shard.
TICK = f"{PREFIX}tick"
SHARD = f"{PREFIX}shard"

Sent = tuple[str, int]  # the case that a record comes back for, and the ticket under which it was sent

LAST_MS = 253_402_300_800_000  # the end of the year 9999

# What a record that fails again takes along into the error topic.
CARRIED = (
    INPUT_TOPIC,
    INPUT_TOPIC_ID,
    INPUT_PARTITION,
    INPUT_OFFSET,
    INPUT_TIMESTAMP,
    ORIGIN,
    CORRELATION,
    ATTEMPT,
    DELIVERED,
    CORRECTED,
    TICK,
    SHARD,
)
_FIRST = {
    INPUT_TOPIC: f"{PREFIX}topic",
    INPUT_TOPIC_ID: f"{PREFIX}topic-id",
    INPUT_PARTITION: f"{PREFIX}partition",
    INPUT_OFFSET: f"{PREFIX}offset",
    INPUT_TIMESTAMP: f"{PREFIX}timestamp",
}


_KEPT = (DELIVERED, CORRECTED, TICK, SHARD, ORIGIN)


class FirstReading(NamedTuple):
    """Where and for which stage a record was read for the first time."""

    stage: str
    topic: str
    topic_id: str
    partition: int
    offset: int
    timestamp_ms: int | None
    correlation: str
    attempt: int
    delivered: Delivered = Delivered()  # what outputs have of it: it comes back for the rest


def said_by(headers: Headers) -> dict[str, str]:
    """Our headers among all."""
    return {name: (value or b"").decode("utf-8", "replace") for name, value in headers if name.startswith(PREFIX)}


def first_reading(said: Mapping[str, str]) -> FirstReading:
    """`KeyError` or `ValueError` when these are not the headers of a record that comes back."""
    partition = _bounded(said[INPUT_PARTITION], 1 << 31)
    offset = _bounded(said[INPUT_OFFSET], 1 << 63)
    timestamp = said.get(INPUT_TIMESTAMP)
    return FirstReading(
        said[STAGE],
        said[INPUT_TOPIC],
        said[INPUT_TOPIC_ID],
        partition,
        offset,
        None if timestamp is None else _bounded(timestamp, LAST_MS, -LAST_MS),
        said.get(CORRELATION, ""),
        _bounded(said.get(ATTEMPT, "1"), 1 << 31),
        delivered_to(said),
    )


def _bounded(text: str, end: int, start: int = 0) -> int:
    """A number within bounds: what is larger than its column would end the batch that reads it."""
    number = int(text)
    if not start <= number < end:
        raise ValueError(f"{text[:40]!r} is not from {start} to {end - 1}")
    return number


def delivered_to(said: Mapping[str, str]) -> Delivered:
    """What outputs have of a record already; `ValueError` when that is not said as it should be."""
    return Delivered.of_json(said.get(DELIVERED, "[]"))


def carried(headers: Headers) -> dict[str, str]:
    """What an error record of a record that came back keeps of its headers, by name without the prefix."""
    said = said_by(headers)
    return {name.removeprefix(PREFIX): said[name] for name in CARRIED if name in said}


def sent_as(said: Mapping[str, str]) -> Sent | None:
    """None: it does not say both."""
    correlation, ticket = said.get(CORRELATION, ""), said.get(TICKET, "")
    return (correlation, int(ticket)) if correlation and ticket.isdecimal() and ticket.isascii() else None


def reentry_record(
    error: Record, correlation: str, attempt: int, value: bytes | None = None, *, ticket: int | None = None
) -> NewRecord:
    """An error record on its way back to its stage, with another value if somebody has mended it."""
    # In bytes, as the headers are: the desk sends them by the thousand.
    said = {name: content or b"" for name, content in error.headers if name.startswith(PREFIX)}
    ours = {name: said[name] if name in said else said.get(before, b"") for name, before in _FIRST.items()}
    ours[STAGE] = said[STAGE]
    ours[CORRELATION], ours[ATTEMPT] = correlation.encode(), b"%d" % attempt
    if ticket is not None:
        ours[TICKET] = b"%d" % ticket
    for name in _KEPT:
        if name in said:
            ours[name] = said[name]
    if not said.get(ORIGIN):
        ours[ORIGIN] = b"/".join((ours[INPUT_TOPIC_ID], ours[INPUT_PARTITION], ours[INPUT_OFFSET]))
    own = () if len(said) == len(error.headers) else _own(error.headers)
    return NewRecord(error.value if value is None else value, error.key, (*own, *ours.items()))


def _own(headers: Headers) -> Headers:
    """The record's own headers among all."""
    return tuple(header for header in headers if not header[0].startswith(PREFIX))
