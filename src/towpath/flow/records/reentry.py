"""Records on their way back: what lies in the re-entry topic of a flow, and what becomes of it.

**Re-entry records.** A record comes back to the stage in which it has failed. Key, value and the record's own headers
are those that the stage is to read. Headers of ours say for which stage it is, where the record was read for the first
time (its *input*: delivery ids and versions are made of that, so that a replay is the same delivery), and how the desk
knows it again: correlation id and attempt.

**Cancelled replays** (the table `flow_recalled`) were called back after they were sent, and before their stage has read
them. A record in the re-entry topic cannot be taken out of it, so its stage passes over it, by the case that it names
and the ticket under which it was sent. Whoever calls it back holds the row of the stage in the same transaction, and
has seen that no batch covers the record: every batch that ever does is fixed later, and each of its attempts finds it
here.

**Outcome records** say what became of a record that came back with a correlation id: one record each in the topic of
outcomes. They are sent before the batch commits, so none is lost; after a crash one may be told again, under the same
hash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Self

from towpath.db import Database, Queries, Transaction
from towpath.flow.records.errors import PREFIX, BatchName, DeliveredOutputs, names_of, own_headers
from towpath.log.record import Headers, NewRecord, Record

if TYPE_CHECKING:
    from towpath.flow.run.outcome import BatchOutcome

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
DELIVERED = f"{PREFIX}delivered"
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

KIND = "outcome"


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
    delivered: DeliveredOutputs = DeliveredOutputs()  # what outputs have of it: it comes back for the rest


def first_reading(said: Mapping[str, str]) -> FirstReading:
    """Where a record that comes back was read first; `KeyError` or `ValueError` when its headers do not say so."""
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


def delivered_to(said: Mapping[str, str]) -> DeliveredOutputs:
    """What outputs have of a record already; `ValueError` when the header cannot be read."""
    return DeliveredOutputs.of_json(said.get(DELIVERED, "[]"))


def said_by(headers: Headers) -> dict[str, str]:
    """Our headers among all, as text."""
    return {name: (value or b"").decode("utf-8", "replace") for name, value in headers if name.startswith(PREFIX)}


def carried(headers: Headers) -> dict[str, str]:
    """What an error record of a record that came back keeps of its headers, by name without the prefix."""
    said = said_by(headers)
    return {name.removeprefix(PREFIX): said[name] for name in CARRIED if name in said}


def sent_as(said: Mapping[str, str]) -> Sent | None:
    """Case and ticket of a replay; None when the headers do not say both."""
    correlation, ticket = said.get(CORRELATION, ""), said.get(TICKET, "")
    return (correlation, int(ticket)) if correlation and ticket.isdecimal() and ticket.isascii() else None


def reentry_record(
    error: Record, correlation: str, attempt: int, value: bytes | None = None, *, ticket: int | None = None
) -> NewRecord:
    """An error record on its way back to its stage, with another value if it was edited."""
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
    own = () if len(said) == len(error.headers) else own_headers(error.headers)
    return NewRecord(error.value if value is None else value, error.key, (*own, *ours.items()))


def _bounded(text: str, end: int, start: int = 0) -> int:
    """A number within bounds: what is larger than its column would end the batch that reads it."""
    number = int(text)
    if not start <= number < end:
        raise ValueError(f"{text[:40]!r} is not from {start} to {end - 1}")
    return number


class CancelledReplays:
    """The table `flow_recalled`, written and read inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.flow.records", "cancelled_replays", database.dialect)

    def add(self, tx: Transaction, flow: str, sent: Iterable[Sent]) -> None:
        """The stage must pass over these."""
        for correlation, ticket in sorted(sent):
            tx.run(self._sql["recall"], {"flow": flow, "correlation": correlation, "ticket": ticket})

    def of(self, tx: Transaction, flow: str) -> frozenset[Sent]:
        """All of a flow. They are few: people call replays back one by one."""
        return frozenset((str(case), int(ticket)) for case, ticket in tx.rows(self._sql["recalled"], {"flow": flow}))


class ReplayFate(StrEnum):
    """Where a record that came back is now."""

    LOADED = "loaded"
    FILTERED = "filtered"  # by the step that is named
    FAILED = "failed"  # again: it lies in the error topic


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """An entry of a topic of outcomes, read back."""

    flow: str
    stage: str
    correlation: str
    attempt: int
    fate: ReplayFate
    step: str  # that filtered it, or in which it failed
    hash: str

    @classmethod
    def read(cls, record: Record) -> Self:
        """Raises `KeyError` or `ValueError` when it is no outcome."""
        get = {name.removeprefix(PREFIX): value for name, value in said_by(record.headers).items()}
        if get["kind"] != KIND:
            raise ValueError(f"{get['kind']!r} is no outcome")
        names = (get["flow"], get["stage"], get["correlation"], int(get.get("attempt", 1)))
        return cls(*names, ReplayFate(get["fate"]), get["step"], get["hash"])


def outcome_records(
    records: Iterable[Record], outcome: BatchOutcome, batch: BatchName, recalled: Collection[Sent] = ()
) -> Iterator[NewRecord]:
    """The outcomes of those records of a batch that came back to this stage with a correlation id."""
    failed: dict[str, str] | None = None
    for record in records:
        said = said_by(record.headers)
        if said.get(STAGE) != batch.stage or not said.get(CORRELATION) or sent_as(said) in recalled:
            continue
        if failed is None:
            failed = {
                f"{one.partition}/{one.offset}": one.failure.step
                for one in outcome.failures
                if one.topic == record.topic
            }
        place = f"{record.partition}/{record.offset}"
        if place in failed:
            fate, step = ReplayFate.FAILED, failed[place]
        else:
            by = outcome.returned.filtered_by(place)
            fate, step = (ReplayFate.LOADED, "") if by is None else (ReplayFate.FILTERED, by)
        details = {"kind": KIND, **names_of(batch), **carried(record.headers), "fate": fate, "step": step}
        headers = tuple((PREFIX + name, text.encode("utf-8", "replace")) for name, text in details.items())
        yield NewRecord(None, said[CORRELATION].encode("utf-8", "replace"), headers)
