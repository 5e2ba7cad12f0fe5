"""Tells poison from outage: how large a share of what came lately has failed for one cause.

A bad record is set aside and the rest goes on. When a large share of all records fails in the same way, no record is at
fault: a service is gone, or a sink refuses everything. Then the stage is held instead of sending a million copies of
one cause to the desk, and one of the records is tried again until it passes (`Probe`).

Records are counted by place (a step or a target) and by cause (the fingerprint of the failure) in ten spans of time
that together are the window; what is older counts no more. Times are microseconds by the database's time and are kept
with the counts, so that after a restart old counts are as old as they are. When the clock is set back, what then lies
more than a window ahead is forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from towpath.core.clock import MICROS
from towpath.errors import FlowError
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.failures import ErrorCode
from towpath.flow.run.context import StageContext
from towpath.flow.run.poison_search import try_part
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.report import FailedRecord
from towpath.settings import FlowSettings

SPANS = 10
MOST_CAUSES = 50  # kept for each place; the rarest are counted, but no longer told apart
MOST_PLACES = 100


class OutageDetector:
    """Counts what passed and what failed. Used by one thread."""

    def __init__(self, settings: FlowSettings) -> None:
        self._share = settings.judge_share
        self._sample = settings.judge_sample
        self._window = max(SPANS, round(settings.judge_window_s * MICROS))
        self._places: dict[str, list[_Span]] = {}  # the place that was seen last is the last one

    def saw(self, where: str, passed: int, failures: Mapping[str, int], now: int) -> None:
        """So many passed at this place, and so many failed of each cause."""
        spans = self._recent(self._places.pop(where, []), now)
        start = now - now % (self._window // SPANS)
        span = next((each for each in spans if each.start == start), None)
        if span is None:
            span = _Span(start)
            spans.append(span)
        span.total += passed + sum(failures.values())
        span.causes.update(failures)
        _forget_rarest(spans)
        self._places[where] = spans
        self._forget_oldest_place(now)

    def verdict(self, where: str, now: int) -> OutageVerdict | None:
        """The outage at this place, if there is one: enough records, and one cause with the set share or more."""
        spans = self._recent(self._places.get(where, []), now)
        sample = sum(span.total for span in spans)
        causes = _summed(spans)
        if sample < self._sample or not causes:
            return None
        # The name decides between equals, so that the same counts always give the same verdict.
        fingerprint, count = min(causes.items(), key=lambda each: (-each[1], each[0]))
        share = count / sample
        return OutageVerdict(fingerprint, share, sample) if share >= self._share else None

    def cleared(self, where: str) -> None:
        """The outage is over: what was counted in it says nothing about what comes now."""
        self._places.pop(where, None)

    def to_value(self) -> dict[str, Any]:
        """`{"views": {"causes": ["9/label/KeyError/#"], "spans": [[start, total, {"0": 7}]]}}`"""
        return {where: _to_value(spans) for where, spans in self._places.items()}

    @classmethod
    def from_value(cls, value: Mapping[str, Any], settings: FlowSettings) -> Self:
        detector = cls(settings)
        detector._places = {where: _from_value(place) for where, place in value.items()}
        return detector

    def _recent(self, spans: list[_Span], now: int) -> list[_Span]:
        """Those that lie within a window of now; ahead of it too, since clocks are corrected by small steps."""
        return [span for span in spans if -self._window < now - span.start < self._window]

    def _forget_oldest_place(self, now: int) -> None:
        if len(self._places) > MOST_PLACES:
            kept = {where: spans for where, spans in self._places.items() if self._recent(spans, now)}
            self._places = dict(list(kept.items())[-MOST_PLACES:])


class OutageVerdict(NamedTuple):
    """An outage: this cause has this share of the records in the window."""

    fingerprint: str
    share: float
    sample: int


@dataclass(slots=True)
class _Span:
    """What came within a tenth of the window, from `start` on."""

    start: int
    total: int = 0
    causes: Counter[str] = field(default_factory=Counter)


def _summed(spans: list[_Span]) -> Counter[str]:
    causes: Counter[str] = Counter()
    for span in spans:
        causes.update(span.causes)
    return causes


def _forget_rarest(spans: list[_Span]) -> None:
    causes = _summed(spans)
    if len(causes) > MOST_CAUSES:
        kept = {name for name, _ in causes.most_common(MOST_CAUSES)}  # of equals, those that came first
        for span in spans:
            span.causes = Counter({name: count for name, count in span.causes.items() if name in kept})


def _to_value(spans: list[_Span]) -> dict[str, Any]:
    causes = list(_summed(spans))
    numbers = {name: str(number) for number, name in enumerate(causes)}
    return {
        "causes": causes,
        "spans": [
            [span.start, span.total, {numbers[name]: count for name, count in span.causes.items()}] for span in spans
        ],
    }


def _from_value(place: Mapping[str, Any]) -> list[_Span]:
    causes = place["causes"]
    return [
        _Span(start, total, Counter({causes[int(number)]: count for number, count in counts.items()}))
        for start, total, counts in place["spans"]
    ]


@dataclass(frozen=True, slots=True)
class Probe:
    """One record that failed. Tried again with its sinks, which take it as they will when the batch is tried."""

    context: StageContext
    place: BatchContext
    example: FailedRecord

    def fails_still(self) -> bool:
        """Whether it still fails for the same cause."""
        example = self.example
        id = self.context.topic_ids.get(example.topic, "")
        part = OffsetRange(example.topic, id, example.partition, example.offset, example.offset + 1)
        outcome = try_part(self.context, self.place, {}, part, is_real=example.output is not None)
        return any(one.failure.fingerprint == example.failure.fingerprint for one in outcome.failures)


class Outage(FlowError):
    """So many records fail for one cause that it is no record's fault."""

    def __init__(self, where: str, verdict: OutageVerdict, probe: Probe | None) -> None:
        self.where = where
        self.probe = probe
        self.code = ErrorCode.TRANSFORM_FAILED if probe is None else probe.example.failure.code
        super().__init__(f"{verdict.share:.0%} of the last {verdict.sample} records fail alike: {verdict.fingerprint}")
