"""What became of a record that came back with a correlation id: one record each in the topic of outcomes.

They are sent before the batch commits, so none is lost; after a crash one may be told again, under the same hash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from towpath.flow.error_record import PREFIX, BatchName, names_of
from towpath.flow.outcome import Outcome
from towpath.flow.reentry_record import CORRELATION, STAGE, Sent, carried, said_by, sent_as
from towpath.log.record import NewRecord, Record

KIND = "outcome"


class Fate(StrEnum):
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
    fate: Fate
    step: str  # that filtered it, or in which it failed
    hash: str

    @classmethod
    def read(cls, record: Record) -> Self:
        """Raises `KeyError` or `ValueError` when it is no outcome."""
        get = {name.removeprefix(PREFIX): value for name, value in said_by(record.headers).items()}
        if get["kind"] != KIND:
            raise ValueError(f"{get['kind']!r} is no outcome")
        names = (get["flow"], get["stage"], get["correlation"], int(get.get("attempt", 1)))
        return cls(*names, Fate(get["fate"]), get["step"], get["hash"])


def outcome_records(
    records: Iterable[Record], outcome: Outcome, batch: BatchName, recalled: Collection[Sent] = ()
) -> Iterator[NewRecord]:
    """Of the records of a batch that lie in the re-entry topic, those of this stage that somebody waits for."""
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
            fate, step = Fate.FAILED, failed[place]
        else:
            by = outcome.returned.filtered_by(place)
            fate, step = (Fate.LOADED, "") if by is None else (Fate.FILTERED, by)
        details = {"kind": KIND, **names_of(batch), **carried(record.headers), "fate": fate, "step": step}
        headers = tuple((PREFIX + name, text.encode("utf-8", "replace")) for name, text in details.items())
        yield NewRecord(None, said[CORRELATION].encode("utf-8", "replace"), headers)
