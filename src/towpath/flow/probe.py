"""An outage, and the record with which it is found out whether it is over."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.errors import FlowError
from towpath.flow.codes import ErrorCode
from towpath.flow.ground import Ground
from towpath.flow.judge import Verdict
from towpath.flow.positions import Range
from towpath.flow.trial import Trial
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.report import Failed


@dataclass(frozen=True, slots=True)
class Probe:
    """One record that failed. Tried again with its sinks, which take it as they will when the batch is tried."""

    ground: Ground
    place: BatchPlace
    example: Failed

    def fails_still(self) -> bool:
        """Whether it still fails for the same cause."""
        example = self.example
        id = self.ground.topic_ids.get(example.topic, "")
        part = Range(example.topic, id, example.partition, example.offset, example.offset + 1)
        is_sink = example.output is not None
        outcome = Trial(self.ground, self.place, {}, is_real=is_sink).run(part)
        return any(one.failure.fingerprint == example.failure.fingerprint for one in outcome.failures)


class Outage(FlowError):
    """So many records fail for one cause that it is no record's fault."""

    def __init__(self, where: str, verdict: Verdict, probe: Probe | None) -> None:
        self.where = where
        self.probe = probe
        self.code = ErrorCode.TRANSFORM_FAILED if probe is None else probe.example.failure.code
        super().__init__(f"{verdict.share:.0%} of the last {verdict.sample} records fail alike: {verdict.fingerprint}")
