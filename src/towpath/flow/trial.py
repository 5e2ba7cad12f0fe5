"""Trying a part of a batch: to find the record on which it dies, or to see whether an outage is over."""

from __future__ import annotations

import shutil
from dataclasses import replace

from pyspark.sql import DataFrame

from towpath.flow.ground import Ground
from towpath.flow.nodes import Output
from towpath.flow.outcome import Outcome, gather
from towpath.flow.plan import Plan
from towpath.flow.positions import Range
from towpath.flow.sinks.nowhere import Nowhere
from towpath.flow.strategy import Strategy
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.reading import Excluded
from towpath.log.spark_source import read_batch


class Trial:
    """Runs the steps on ranges of the input. Nothing is written, or with `is_real` only to sinks that may refuse it.

    And of these to those only that know a delivery again by its id: a trial writes no marks. The others would have it
    twice, or take the mark of a trial for that of the batch.
    """

    def __init__(self, ground: Ground, place: BatchPlace, excluded: Excluded, *, is_real: bool = False) -> None:
        self._ground = ground
        self._place = replace(place, strategy=Strategy.AT_LEAST_ONCE)
        self._excluded = excluded
        self._is_real = is_real

    def run(self, part: Range) -> Outcome:
        """What becomes of the records of a range; raises what the job raises."""
        ground = self._ground
        directory = ground.checkpoint.begin_attempt(self._place.hash)
        stage = replace(ground.stage, outputs=self._outputs())
        plan = Plan(stage, replace(self._place, directory=str(directory)), self._excluded, ground.max_record_bytes)
        try:
            plan.run(self._records(part))
            outcome = gather([directory], plan.chain)
            outcome.keep_failures()
            return outcome
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _records(self, part: Range) -> DataFrame:
        ground, spot = self._ground, (part.topic, part.partition)
        # Every other partition of the topic is read from its end to its end.
        ends = {(part.topic, number): end for number, end in ground.log.ends(part.topic).items()}
        return read_batch(ground.spark, ground.log, [part.topic], {**ends, spot: part.start}, {**ends, spot: part.stop})

    def _outputs(self) -> tuple[Output, ...]:
        return tuple(
            output
            if self._is_real and output.sink.may_refuse and output.sink.is_idempotent
            else replace(output, sink=Nowhere.instead_of(output.sink))
            for output in self._ground.stage.outputs
        )
