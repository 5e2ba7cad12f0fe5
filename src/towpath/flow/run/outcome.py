"""What a batch came to, put together from the reports of its segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from towpath.flow.delivery.places import RecordPlace
from towpath.flow.stateful.column_state import later_of
from towpath.flow.worker.loader import EVERY_OUTPUT
from towpath.flow.worker.report import FailedRecord, SegmentCounts, read_counts, read_failures


@dataclass(slots=True)
class Returned:
    """How far each record came that had come back, by partition/offset in the re-entry topic."""

    went_on: dict[str, set[str]] = field(default_factory=dict)  # by segment
    gone: dict[str, str] = field(default_factory=dict)  # the function that gave nothing for it
    chain: list[tuple[str, str]] = field(default_factory=list)

    def filtered_by(self, place: str) -> str | None:
        """The step by which a record that has not failed was filtered; None: it was loaded."""
        for at, (segment, step) in enumerate(self.chain):
            if place not in self.went_on.get(segment, ()):
                return self.gone.get(place) or (step if at else EVERY_OUTPUT)
        return None


@dataclass(slots=True)
class BatchOutcome:
    """Counts of inputs and deliveries, and where the failures lie.

    Every input that was read was loaded, filtered or has failed: `read == loaded + filtered + failed`.
    """

    reports: list[Path] = field(default_factory=list)
    units: int = 0  # tasks that have read records
    lowest: dict[str, int] = field(default_factory=dict)  # offset that was read, by topic/partition
    read: int = 0
    loaded: int = 0
    failed: Counter[int] = field(default_factory=Counter)  # by code
    filtered: Counter[str] = field(default_factory=Counter)  # by step
    delivered: Counter[str] = field(default_factory=Counter)  # deliveries, by output
    causes: Counter[str] = field(default_factory=Counter)  # failures, by step and fingerprint
    digests: dict[str, dict[str, str]] = field(default_factory=dict)  # by output and unit
    placed: Counter[str] = field(default_factory=Counter)  # inputs that an operator with state has put there, by place
    due: dict[str, list[int]] = field(default_factory=dict)  # in ms, by operator/shard of what the stage keeps
    event_times: dict[str, int] = field(default_factory=dict)  # the latest in ms, by input of a join
    caught: Counter[int] = field(default_factory=Counter)  # inputs, by the number of the block rule that was for them
    forfeited: int = 0  # at most once: a crash has cut it off, and it is not tried again
    kept: list[FailedRecord] | None = None  # the failures of a trial, whose reports are deleted
    returned: Returned = field(default_factory=Returned)

    @property
    def failures(self) -> Iterator[FailedRecord]:
        """The records that failed, read from the reports one by one."""
        if self.kept is not None:
            yield from self.kept
            return
        for report in self.reports:
            yield from read_failures(report)

    @property
    def is_balanced(self) -> bool:
        places = [self.loaded, self.forfeited, *self.filtered.values(), *self.failed.values()]
        return self.read == sum(places) + self.placed.total() and min(places) >= 0

    @classmethod
    def all_forfeited(cls, told: SegmentCounts) -> BatchOutcome:
        """Of a batch of which nobody knows how far it came. What state keeps is kept; what it gave out is given up."""
        placed = Counter(told.placed)
        del placed[RecordPlace.AGGREGATED]
        forfeited = told.read - placed.total()
        return cls(read=told.read, forfeited=forfeited, placed=placed, due=told.due, event_times=told.event_times)

    def without_failures(self) -> BatchOutcome:
        """The same where nobody knows whether those that failed have been told of: they are given up."""
        return replace(self, reports=[], failed=Counter(), forfeited=self.forfeited + self.failed.total())

    def causes_by_step(self, codes: Collection[int]) -> dict[str, dict[str, int]]:
        """How often each fingerprint of these codes was seen, by the step or output at which it was."""
        found: dict[str, dict[str, int]] = {}
        for cause, count in self.causes.items():
            step, _, fingerprint = cause.partition("\n")
            if int(fingerprint.partition("/")[0]) in codes:
                found.setdefault(step, {})[fingerprint] = count
        return found

    def to_counts(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "loaded": self.loaded,
            "filtered": dict(self.filtered),
            "failed": {str(code): count for code, count in sorted(self.failed.items())},
            "delivered": dict(self.delivered),
            **self.placed,
            **({"caught": {str(rule): count for rule, count in sorted(self.caught.items())}} if self.caught else {}),
            **({"forfeited": self.forfeited} if self.forfeited else {}),
        }


def gather(directories: Sequence[Path], chain: list[tuple[str, str]]) -> BatchOutcome:
    """Add up the reports of a batch: of its decision, where it has one, and of its loading.

    `chain` names the segments in order with the DataFrame step that stands before each: what left one segment and did
    not come to the next was filtered by that step.
    """
    outcome = BatchOutcome(returned=Returned(chain=chain))
    sums: dict[str, SegmentCounts] = {}
    refused = 0
    for path in (path for directory in directories for path in sorted(directory.glob("*.json"))):
        segment, _, unit = path.stem.rpartition("-")
        counts = read_counts(path)
        outcome.reports.append(path)
        outcome.units += segment == chain[0][0]
        _add(outcome, counts, unit)
        total = sums.setdefault(segment, SegmentCounts())
        total.entered += counts.entered
        total.left += counts.left
        refused += counts.refused
        outcome.returned.went_on.setdefault(segment, set()).update(counts.went_on)
        outcome.returned.gone.update(counts.gone)
    for (before, _), (after, step) in pairwise(chain):
        if gone := sums.get(before, SegmentCounts()).left - sums.get(after, SegmentCounts()).entered:
            outcome.filtered[step] += gone
    last = sums.get(chain[-1][0], SegmentCounts())
    outcome.loaded = last.left - refused
    return outcome


def _add(outcome: BatchOutcome, counts: SegmentCounts, unit: str) -> None:
    outcome.read += counts.read
    for name, offset in counts.lowest.items():
        outcome.lowest[name] = min(offset, outcome.lowest.get(name, offset))
    outcome.failed += counts.failed
    outcome.filtered += counts.filtered
    outcome.causes += counts.causes
    outcome.delivered += counts.delivered
    outcome.placed.update(counts.placed)  # `+=` would lose what is below zero
    outcome.due.update(counts.due)
    outcome.caught += counts.caught
    outcome.event_times = later_of(outcome.event_times, counts.event_times)
    for output, digest in counts.digests.items():
        outcome.digests.setdefault(output, {})[unit] = digest.hex
