"""Trying records in a stage without side effects: nothing is loaded, told, marked or committed.

The records stand in a DataFrame as if they lay in the re-entry topic, so that steps see them as they were read for the
first time, and it is known of each what became of it. The sinks are replaced by one that takes everything and keeps
nothing; so what a sink would refuse is not seen.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from towpath.errors import CannotRehearse
from towpath.flow.delivery.ids import Strategy
from towpath.flow.failures import RecordFailure
from towpath.flow.flow import Flow
from towpath.flow.graph.nodes import AnyOf, Branch, Each, Fork, Node, Step
from towpath.flow.graph.stages import Stage
from towpath.flow.plan.plan import Plan
from towpath.flow.run.outcome import BatchOutcome
from towpath.flow.run.poison_search import dry_run, job_failure, steps_of
from towpath.flow.sinks.sink import NullSink
from towpath.flow.stage.classifier import is_step_failure, is_worker_death
from towpath.flow.topics import FlowTopics
from towpath.flow.worker.context import BatchContext, Reentry
from towpath.log.record import NewRecord
from towpath.log.spark.columns import SCHEMA
from towpath.settings import Settings

PARTS = 16  # into which records are cut of which one ends the job

_Again = Callable[[Node], Node]


class RehearsedRecord(NamedTuple):
    """What would become of one record: it fails, a step filters it, or it would be loaded."""

    failure: RecordFailure | None = None
    filtered_by: str | None = None


@dataclass(frozen=True, slots=True)
class StageRehearsal:
    """Tries records in one stage. `topics` are the ids under which the stage has seen its topics, oldest first."""

    spark: SparkSession
    settings: Settings
    flow: Flow
    stage: Stage
    topics: Mapping[str, Sequence[str]]
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))  # tells what its workers say from texts like it

    def run(self, records: Sequence[NewRecord]) -> list[RehearsedRecord | None]:
        """What would become of each record, in their order; None: there was no time left to find out.

        They are records for the re-entry topic. When one of them ends the whole job it is looked for, as long as the
        settings say for a batch (`flow.search_s`).
        """
        deadline = time.monotonic() + self.settings.flow.search_s
        found: dict[int, RehearsedRecord] = {}
        waiting = [list(range(len(records)))] if records else []
        while waiting:
            part = waiting.pop(0)
            if found and time.monotonic() > deadline:
                break
            try:
                found.update(zip(part, self._tried([records[at] for at in part]), strict=True))
            except Exception as error:
                if not is_worker_death(error) and not is_step_failure(error, self.nonce):
                    raise
                if len(part) == 1:
                    found[part[0]] = RehearsedRecord(job_failure(error, steps_of(self.stage)))
                else:
                    waiting[:0] = list(_cut(part))
        return [found.get(at) for at in range(len(records))]

    def _tried(self, records: Sequence[NewRecord]) -> Iterator[RehearsedRecord]:
        outcome = self._outcome(records)
        failures = {one.offset: one.failure for one in outcome.failures}
        for offset in range(len(records)):
            if offset in failures:
                yield RehearsedRecord(failures[offset])
            else:
                yield RehearsedRecord(filtered_by=outcome.returned.filtered_by(f"0/{offset}"))

    def _outcome(self, records: Sequence[NewRecord]) -> BatchOutcome:
        """A plan that leaves records out is run again and reads them all first, as in a running stage."""
        for reads_first in (False, True):
            outcome = self._planned(records, reads_first=reads_first)
            if outcome.read == len(records) and outcome.is_balanced:
                return outcome
        raise CannotRehearse(
            f"stage {self.stage.name} of {self.flow.name} does not add up: of {len(records)} records it has read "
            f"{outcome.read}, and {outcome.to_counts()} came out"
        )

    def _planned(self, records: Sequence[NewRecord], *, reads_first: bool) -> BatchOutcome:
        frame = self._frame(records)
        directory = Path(self.settings.flow.directory).absolute() / self.flow.name / f"rehearsal-{secrets.token_hex(8)}"
        directory.mkdir(parents=True)
        most = self.flow.max_record_bytes or self.settings.flow.max_record_bytes
        plan = Plan(self.stage, self._place(directory), {}, most, reads_first=reads_first)
        return dry_run(plan, frame, directory)

    def _place(self, directory: Path) -> BatchContext:
        stages = frozenset(stage.name for stage in self.flow.stages())
        back = Reentry(self._back, self.stage.name, stages, True, self.topics)
        return BatchContext(
            self.flow.name,
            self.stage.name,
            directory.name,
            str(directory),
            self.nonce,
            self.settings,
            {name: ids[-1] for name, ids in self.topics.items()},
            {name: len(ids) - 1 for name, ids in self.topics.items()},
            reentry=back,
            strategy=Strategy.AT_LEAST_ONCE,
        )

    @property
    def _back(self) -> str:
        return FlowTopics.of(self.flow.name).reentry

    def _frame(self, records: Sequence[NewRecord]) -> DataFrame:
        now = datetime.now(UTC)
        rows = [
            (self._back, 0, offset, now, record.key, record.value, [*record.headers])
            for offset, record in enumerate(records)
        ]
        return self.spark.createDataFrame(rows, SCHEMA)


def rehearsed_stage(flow: Flow, name: str, topic: str, *, passes_effects: bool = False) -> Stage:
    """The stage of a flow that takes the records of a case, with sinks that keep nothing.

    `CannotRehearse` when it keeps state, or has steps with effects outside; with `passes_effects` these are passed
    over: they give what they are given.
    """
    stage = _stage_of(flow, name, topic)
    if stage.is_stateful:
        raise CannotRehearse(f"stage {stage.name} of {flow.name} keeps state: what it does depends on other records")
    effects = [node.name for node in stage.nodes if isinstance(node, Each) and node.effects]
    if effects and not passes_effects:
        raise CannotRehearse(
            f"{', '.join(effects)} of {flow.name} has effects outside (effects=True) and is not tried; pass over such "
            "steps to try the others"
        )
    outputs = tuple(replace(output, sink=NullSink.instead_of(output.sink)) for output in stage.outputs)
    stage = replace(stage, outputs=outputs)
    return _with_stand_ins(stage) if effects else stage


def _stage_of(flow: Flow, name: str, topic: str) -> Stage:
    stages = {stage.name: stage for stage in flow.stages()}
    found = stages.get(name) or next((stage for stage in stages.values() if topic in stage.topics), None)
    if found is None or topic not in found.topics:
        raise CannotRehearse(f"flow {flow.name} has no stage that reads {topic}; its stages: {', '.join(stages)}")
    return found


def _with_stand_ins(stage: Stage) -> Stage:
    """The same graph, in which steps with effects give what they are given."""
    made: dict[int, Node] = {}

    def again(node: Node) -> Node:
        if id(node) not in made:
            made[id(node)] = _stood_in(node, again)
        return made[id(node)]

    nodes = tuple(again(node) for node in stage.nodes)
    outputs = tuple(replace(output, input=again(output.input)) for output in stage.outputs)
    return replace(stage, nodes=nodes, outputs=outputs)


def _stood_in(node: Node, again: _Again) -> Node:
    match node:
        case Each():
            inputs = tuple(again(above) for above in node.inputs)
            if not node.effects:
                return replace(node, inputs=inputs)
            if node.outputs:
                raise CannotRehearse(
                    f"{node.name} has effects and several outputs: nobody knows where a record would go"
                )
            return replace(node, inputs=inputs, function=_as_given, wants_record=False, effects=False)
        case Step() | Fork() | AnyOf():
            return replace(node, inputs=tuple(again(above) for above in node.inputs))
        case Branch():
            fork = again(node.fork)
            assert isinstance(fork, Fork | Each)  # noqa: S101 - it is the same node, made again
            return replace(node, fork=fork)
        case _:
            return node


def _as_given(document: dict[str, object]) -> dict[str, object]:
    return document


def _cut(part: Sequence[int]) -> Iterator[list[int]]:
    size = -(-len(part) // PARTS)
    for begin in range(0, len(part), size):
        yield list(part[begin : begin + size])
