"""What the audit found wrong, and where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from towpath.flow.positions import Range


class ProblemKind(StrEnum):
    """One kind for each thing that is checked."""

    HOLE = "batch missing"  # a number is left out among the batches of a generation
    UNREADABLE_ROW = "row unreadable"  # a row of the ledger makes no sense
    STRAY_ROW = "row out of place"  # a batch where none can be, or of a topic that the stage does not read
    BREAK = "positions do not follow"  # a batch does not begin where the one before it ended
    HASH = "hash is not the row's"  # flow, stage, numbers and positions give another hash
    JUMP = "passed over"  # between two generations, offsets that no gap explains
    SUM = "row does not add up"  # read is not loaded + filtered + failed
    TOTALS = "totals differ"  # the sums of the stage are not those of its batches
    READ = "count differs"  # the topic holds another number of records than the batch has read
    BEYOND = "beyond the end"  # a batch ends where its topic has never been
    FAILED = "error records differ"  # more or fewer than the batch has counted
    STRANGE_ERROR = "error record of no batch"
    UNREADABLE_ERROR = "error record unreadable"
    GAP = "gap differs"  # the ledger and the error topic do not tell of the same gap
    MISSING = "delivery missing"  # a batch has delivered it, and the sink does not have it
    EXTRA = "delivery not in the ledger"  # the sink has it from a record for which the batch has delivered nothing
    DIFFERENT = "other deliveries"  # as many as the ledger says, and not the same
    DOUBLED = "delivery doubled"  # more than once in the sink
    STRANGER = "unknown in the sink"  # no record of any batch gives this id
    TORN = "file torn"  # a file and the ids beside it do not fit
    PLACES = "places differ"  # not as many are at the desk as have failed
    TAKEN = "taken in differs"  # the desk has read another number of error records than there are, or has lost some


@dataclass(frozen=True, slots=True)
class Problem:
    """What was expected at a place, and what was found there. `places` are the offsets among which it lies."""

    kind: ProblemKind
    stage: str
    expected: str
    found: str
    generation: int | None = None
    batch_id: int | None = None
    places: tuple[Range, ...] = ()
    output: str | None = None

    @property
    def where(self) -> str:
        """`clicks, generation 1, batch 3, clicks/0 from 17 to 20`"""
        parts = [self.stage]
        if self.generation is not None:
            parts.append(f"generation {self.generation}")
        if self.batch_id is not None:
            parts.append(f"batch {self.batch_id}")
        if self.output is not None:
            parts.append(f"output {self.output}")
        return ", ".join([*parts, *map(spelled, self.places)])

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "stage": self.stage,
            "generation": self.generation,
            "batch_id": self.batch_id,
            "output": self.output,
            "places": [each._asdict() for each in self.places],
            "expected": self.expected,
            "found": self.found,
        }


@dataclass(frozen=True, slots=True)
class Unproven:
    """What can be neither shown nor refuted any more, and why."""

    stage: str
    what: str
    why: str
    records: int = 0  # that are taken on the ledger's word

    def to_json(self) -> dict[str, Any]:
        return {"stage": self.stage, "what": self.what, "why": self.why, "records": self.records}


def spelled(place: Range) -> str:
    """A single record as it is traced, more as a range."""
    if place.stop == place.start + 1:
        return f"{place.topic}/{place.partition}/{place.start}"
    return str(place)
