"""Finds the records on which the job of a batch dies and sets them aside, so that it can be run without them.

`search` is pure: it looks for the records by trying parts of the batch. Each round cuts a failing part into sixteen and
tries them one after the other. It is the last resort, because each try is a Spark job (`try_part`); so it is bounded
by the number of records to find and by time. A trial also finds out whether an outage is over.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame

from towpath.errors import FlowHalted, TowpathError
from towpath.flow.delivery.ids import Strategy
from towpath.flow.delivery.ledger import Batch
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.failures import ErrorCode, RecordFailure, bounded
from towpath.flow.graph.nodes import Each, Fork, Step
from towpath.flow.graph.stages import Stage
from towpath.flow.plan.plan import Plan
from towpath.flow.run.context import StageContext
from towpath.flow.run.outcome import BatchOutcome, gather
from towpath.flow.sinks.sink import NullSink
from towpath.flow.stage import StageState
from towpath.flow.stage.classifier import classify, is_step_failure, is_worker_death
from towpath.flow.worker.breadcrumb import suspects
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.reader import Excluded
from towpath.log.spark.source import read_batch

logger = logging.getLogger(__name__)

PARTS = 16  # into which a failing range is cut
MORE_TRIES = 2  # of a record that is suspected without a known cause
Fails = Callable[[OffsetRange], bool]
IsOver = Callable[[], bool]
SetAside = dict[tuple[str, int], dict[int, RecordFailure]]  # by topic and partition, by offset


class BatchGivenUp(Exception):
    """No error: the stage is to come to rest, and the batch will be done again."""


class PoisonSearch:
    """The search in one batch. What it finds is kept in `excluded`, also when it is cut off.

    `is_wide`: the batch has failed so often without a known cause that a record is suspected for any error. The cause
    may still be something else, so more is asked of it: the record fails each time that it is tried, other records and
    no records at all do not, and without it the batch passes.
    """

    def __init__(
        self,
        context: StageContext,
        batch: Batch,
        place: BatchContext,
        excluded: SetAside,
        is_ending: Callable[[], bool],
        *,
        is_wide: bool,
    ) -> None:
        self._context = context
        self._batch = batch
        self._place = place
        self._excluded = excluded
        self._is_ending = is_ending
        self._is_wide = is_wide
        self._deadline = 0.0  # begins with the first search, not with the batch
        self._last_failure: Exception | None = None
        self._passed = 0
        self._has_died = False  # a worker, without a record that is to blame
        self._doubtful: list[OffsetRange] = []  # set aside for a cause that nobody knows

    def may_find(self, error: Exception) -> bool:
        """Whether it may be the fault of single records, and trying them does nothing outside."""
        return self._is_searched(error) and not any(
            isinstance(node, Each) and node.effects for node in self._context.stage.nodes
        )

    def run(self, error: Exception, reports: Path | None) -> None:
        """Afterwards the job may be run again, without what was found.

        Raises the error when it is no record's fault, `FlowHalted` when the search would take too long.
        """
        if self._doubtful and not self._is_known(error):
            self._take_back()
            raise error
        self._check_limits(error)
        logger.warning("batch %d of %s fails as a whole: searching", self._batch.batch_id, self._context.name)
        suspected = self._suspected(reports)
        found = [place for place in suspected if not self._is_ending() and self._dies(place)]
        if not found and not self._is_ending() and not self._is_first_death(error):
            found = self._find(error)
        for place in found:
            step = suspected.get(place, steps_of(self._context.stage))
            failure = job_failure(self._last_failure or error, step)
            self._excluded.setdefault((place.topic, place.partition), {})[place.start] = failure
        if not self._is_known(error):
            self._doubtful = found
        if self._is_ending():
            raise BatchGivenUp

    def _is_first_death(self, error: Exception) -> bool:
        """Whether somebody else may have ended the worker, for want of memory or by hand: then it is not searched."""
        if self._has_died or not is_worker_death(error):
            return False
        self._has_died = True
        return True

    def _check_limits(self, error: Exception) -> None:
        """Where record after record ends its worker, it is no single record's fault."""
        most = self._context.settings.flow.search_records
        self._deadline = self._deadline or time.monotonic() + self._context.settings.flow.search_s
        if time.monotonic() > self._deadline or sum(map(len, self._excluded.values())) >= most:
            raise FlowHalted(
                f"batch {self._batch.batch_id} of {self._context.name} fails as a whole, again and again, and "
                f"flow.search_records or flow.search_s is used up. {error}"
            )

    def _take_back(self) -> None:
        """The batch fails without them as well: they are not at fault."""
        for place in self._doubtful:
            del self._excluded[place.topic, place.partition][place.start]
        self._doubtful = []

    def _find(self, error: Exception) -> list[OffsetRange]:
        places = list(self._batch.positions)
        is_known = self._is_known(error)
        if not is_known and self._dies(places[0]._replace(stop=places[0].start)):
            raise error
        self._passed = 0
        left = self._context.settings.flow.search_records - sum(map(len, self._excluded.values()))
        result = search(places, self._dies, left, lambda: self._is_ending() or time.monotonic() > self._deadline)
        if not is_known:
            if not self._passed and len(result.records) > 1:
                raise error
            result.records = [place for place in result.records if self._dies_each_time(place)]
        if not self._is_ending():
            self._check(result, error)
        return result.records

    def _dies_each_time(self, place: OffsetRange) -> bool:
        return not self._is_ending() and all(self._dies(place) for _ in range(MORE_TRIES))

    def _check(self, result: SearchResult, error: Exception) -> None:
        if not result.records and result.unsearched:
            raise FlowHalted(
                f"batch {self._batch.batch_id} of {self._context.name} fails as a whole, and flow.search_records or "
                f"flow.search_s is used up; not searched: {'; '.join(map(str, result.unsearched[:3]))}. {error}"
            )
        if not result.records:
            raise error

    def _suspected(self, reports: Path | None) -> dict[OffsetRange, str]:
        """The records that workers were at when they ended, with the step."""
        ids = self._context.topic_ids
        return {
            OffsetRange(
                suspect.topic, ids[suspect.topic], suspect.partition, suspect.offset, suspect.offset + 1
            ): suspect.step
            for suspect in (suspects(reports) if reports else ())
            if suspect.topic in ids
        }

    def _dies(self, part: OffsetRange) -> bool:
        """Whether a part of the batch, tried without writing anything, ends the job."""
        try:
            try_part(self._context, self._place, self._excluded, part)
        except Exception as error:
            if not self._is_searched(error):
                raise
            self._last_failure = error
            return True
        self._passed += 1
        return False

    def _is_known(self, error: Exception) -> bool:
        """Whether it is of a kind for which records are to blame."""
        return is_worker_death(error) or is_step_failure(error, self._place.nonce)

    def _is_searched(self, error: Exception) -> bool:
        if self._is_known(error):
            return True
        if not self._is_wide or isinstance(error, (TowpathError, BatchGivenUp)):
            return False
        return classify(error, StageState.TRANSFORM, self._place.nonce).code is ErrorCode.UNCATEGORISED


def steps_of(stage: Stage) -> str:
    """Where a record fails that was found by searching: in one of these."""
    return ", ".join(node.name for node in stage.nodes if isinstance(node, Step | Fork))


def job_failure(error: Exception, step: str) -> RecordFailure:
    """What is said of a record that ends the whole job."""
    what = "ends its Python worker" if is_worker_death(error) else "makes a step fail"
    return RecordFailure(ErrorCode.TRANSFORM_FAILED, step, type(error).__name__, bounded(f"{what}: {error}"))


def search(ranges: Sequence[OffsetRange], fails: Fails, most: int, is_over: IsOver) -> SearchResult:
    """The records of these ranges that fail when they are tried alone.

    A range that fails while none of its parts does, tried alone, is no record's fault: it is not found.
    """
    found = SearchResult()
    waiting = [each for each in ranges if not each.is_empty]
    while waiting:
        part = waiting.pop(0)
        if len(found.records) >= most or is_over():
            found.unsearched += [part, *waiting]
            break
        if not fails(part):
            continue
        if part.stop - part.start == 1:
            found.records.append(part)
        else:
            waiting[:0] = cut(part)
    return found


@dataclass(slots=True)
class SearchResult:
    """Single offsets that fail alone, and ranges that were not searched to their end."""

    records: list[OffsetRange] = field(default_factory=list)
    unsearched: list[OffsetRange] = field(default_factory=list)


def cut(part: OffsetRange, parts: int = PARTS) -> list[OffsetRange]:
    """The range in up to so many pieces, of nearly equal length."""
    length = part.stop - part.start
    bounds = [part.start + length * at // parts for at in range(parts + 1)]
    return [part._replace(start=a, stop=b) for a, b in pairwise(bounds) if a < b]


def try_part(
    context: StageContext, place: BatchContext, excluded: Excluded, part: OffsetRange, *, is_real: bool = False
) -> BatchOutcome:
    """What becomes of the records of a range; raises what the job raises.

    Nothing is written, or with `is_real` only to sinks that may refuse it. And of these to those only that know a
    delivery again by its id: a trial writes no marks. The others would have it twice, or take the mark of a trial for
    that of the batch.
    """
    outputs = tuple(
        output
        if is_real and output.sink.may_refuse and output.sink.is_idempotent
        else replace(output, sink=NullSink.instead_of(output.sink))
        for output in context.stage.outputs
    )
    log, spot = context.log, (part.topic, part.partition)
    # Every other partition of the topic is read from its end to its end.
    ends = {(part.topic, number): end for number, end in log.ends(part.topic).items()}
    starts, stops = {**ends, spot: part.start}, {**ends, spot: part.stop}
    records = read_batch(context.spark, log, [part.topic], starts, stops)
    directory = context.checkpoint.begin_attempt(place.hash)
    trial = replace(place, strategy=Strategy.AT_LEAST_ONCE, directory=str(directory))
    plan = Plan(replace(context.stage, outputs=outputs), trial, excluded, context.max_record_bytes)
    return dry_run(plan, records, directory)


def dry_run(plan: Plan, records: DataFrame, directory: Path) -> BatchOutcome:
    """What a plan comes to that reports into this directory, of which nothing stays."""
    try:
        plan.run(records)
        outcome = gather([directory], plan.chain)
        outcome.kept = list(outcome.failures)  # the reports are deleted now
        return outcome
    finally:
        shutil.rmtree(directory, ignore_errors=True)
