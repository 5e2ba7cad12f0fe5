"""The work of the states `configure` and `reset`: everything is checked before a query starts, and positions are fixed.

A *generation* is one checkpoint with explicit starting positions. A new one begins when a stage runs for the first
time, when a topic that it reads was deleted and made again, when positions are no longer there, and when a person says
so.

**An input was deleted and made again while a batch was open** (`finish_open_batch`). What the batch was to read of the
old topic is gone, unless it was decided or loaded already. It is not begun anew: of its other inputs, topics may have a
part. It is ended under its own name, with its marks, without what is gone: that is told as a gap. Then the stage begins
a new generation, behind this batch. Spark's query is not asked for the records: it would read what lies at the old
offsets of the new topic.

**Late writers are kept from topics before the next generation begins** (`fence_off`). A reset gives up the open batch,
and what it was to read is read again or passed over. A task of that batch may still be at work, or wake up later:
nobody will look for its marks, so those do not keep it from writing. Hence, in this order:

1. a fence goes into the marks topic: who opens a producer from now on and then looks for its marks finds it, and gives
   up (`MarkTopic.parts`);
2. the producer of every unit of the open batch is opened: who had opened it before cannot commit any more.

After that no topic gets anything of the batch, and its marks are all that there will ever be. Batches before it are
committed: a late task of theirs finds its mark.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pyspark.sql import DataFrame

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.errors import BadValue, FlowHalted, SinkError, UnknownPartition
from towpath.flow.delivery.ids import with_incarnation
from towpath.flow.delivery.ledger import Batch, BatchSnapshot
from towpath.flow.delivery.marks import MarkTopic
from towpath.flow.delivery.positions import OffsetRange, Positions, Spot
from towpath.flow.plan.plan import check_plan
from towpath.flow.run.batch import BY_HAND, EXPIRED, BatchRun, note_gaps, tell_gaps
from towpath.flow.run.context import StageContext
from towpath.flow.run.outage import Outage, OutageDetector
from towpath.flow.sinks.topic.sink import TopicSink
from towpath.flow.stage import StageMachine, StageState
from towpath.flow.stage.comparison import FlowComparer
from towpath.flow.stage.controller import StageController
from towpath.flow.stage.history import EARLIEST, LATEST
from towpath.flow.stage.states import StageCommand
from towpath.flow.stage.store import StageRow
from towpath.flow.topics import producer_of
from towpath.log.spark.source import read_batch
from towpath.log.topic import Topic

Starts = Mapping[str, Mapping[int, int]]  # by topic and partition
BEYOND = "the topic ends before the position: it has lost records, or is an older copy; what came since is not read"


class StageConfiguration:
    """Checks a stage and gives it its generation."""

    def __init__(self, context: StageContext, controller: StageController) -> None:
        self._context = context
        self._controller = controller

    def run(self) -> None:
        context = self._context
        context.topics.ensure(context.log)
        context.look()
        for output in context.stage.outputs:
            output.sink.check(context.settings)
        context.is_deterministic = check_plan(context.spark, context.stage, context.settings)
        self._tell_change()
        if context.row.generation == 0:
            self._begin({name: self._as_configured(topic) for name, topic in context.found.items()})
        elif self._replaced():
            self._controller.move(StageState.RESET)
            return
        context.checkpoint.make()
        context.check_checkpoint()
        self._controller.move(StageState.EXTRACT)

    def reset(self) -> None:
        """Move the positions by the rules of code 5: what is gone is skipped, and written down as a gap."""
        context = self._context
        context.look()
        self._check_state()
        finish_open_batch(context, self._controller)
        self._check_open_batch()
        fence_off(context)
        self._check_open_batch()  # from now on nobody adds to it
        before = context.last_stops()
        starts = {}
        for name, topic in context.found.items():
            if self._is_replaced(topic):
                starts[name] = self._as_configured(topic)
                continue
            ends, kept = context.log.ends(name), context.log.starts(name)
            for id, number in before:
                if id == topic.id and number not in ends:  # gone without its topic: waited for, not forgotten
                    raise UnknownPartition(name, number, len(ends))
            starts[name] = {
                number: min(max(before.get((topic.id, number), 0), kept[number]), ends[number]) for number in ends
            }
        passed_over, gone_back = self._moves(before, starts)
        tell_gaps(context, gone_back, BEYOND)
        self._begin(starts, passed_over)
        self._controller.move(StageState.CONFIGURE)

    def _check_state(self) -> None:
        """A new generation remembers nothing. Where that matters, a person has to want it."""
        context = self._context
        if not context.stage.is_stateful or not context.checkpoint.has_commits:
            return
        others = [name for name, topic in context.found.items() if self._is_replaced(topic)]
        what = f"{', '.join(others)} was made again since" if others else "records are gone that it has not read"
        raise FlowHalted(
            f"stage {context.stage.name!r} of flow {context.flow.name!r} keeps state of what it has read, and {what}. "
            f"To begin anew, with nothing remembered: towpath flow reset {context.flow.name} {context.stage.name}"
        )

    def _check_open_batch(self) -> None:
        """A part of a batch that is in outputs would come again with the new generation: a person has to know."""
        context, row = self._context, self._context.row
        if not context.flow.delivery.has_marks:
            return
        with context.database.read() as tx:
            batch = context.ledger.open_batch(tx, row.flow, row.name)
        if batch is None or not any(mark[:4] == batch.key for mark in context.marks_since(batch)):
            return
        raise FlowHalted(
            f"batch {batch.batch_id} of {context.name} is not done, and topics have a part of it; meanwhile an input "
            f"was made again or has lost records. What it reads of other inputs would be delivered twice. To accept "
            f"that: towpath flow reset {context.flow.name}"
        )

    def reset_to(self, wish: StageCommand) -> None:
        """A person has chosen where to go on: `{"to": "earliest"}` or `{"to": "latest"}`."""
        context = self._context
        context.topics.ensure(context.log)
        context.look()
        check_reset(wish.arguments)
        fence_off(context)
        to = wish.arguments.get("to", EARLIEST)
        starts = {name: self._at(topic, to) for name, topic in context.found.items() if name != context.topics.reentry}
        reentry = context.found[context.topics.reentry]
        before = context.last_stops()
        ends = context.log.ends(reentry.name)
        starts[reentry.name] = {number: min(before.get((reentry.id, number), 0), ends[number]) for number in ends}
        passed_over, _ = self._moves(before, starts)
        self._begin(starts, passed_over, BY_HAND, wish)

    def _moves(self, before: Mapping[Spot, int], starts: Starts) -> tuple[list[OffsetRange], list[OffsetRange]]:
        """What the stage passes over from where it was to where it goes on, and what it goes back by.

        It goes back where it stood beyond the end. That is told, but is no row: new records will have these offsets.
        """
        passed_over, gone_back = [], []
        for name, by_partition in starts.items():
            id = self._context.found[name].id
            for number, start in by_partition.items():
                was = before.get((id, number), start)
                if was < start:
                    passed_over.append(OffsetRange(name, id, number, was, start))
                elif was > start:
                    gone_back.append(OffsetRange(name, id, number, start, was))
        return passed_over, gone_back

    def _begin(
        self,
        starts: Starts,
        gaps: Sequence[OffsetRange] = (),
        why: str = EXPIRED,
        wish: StageCommand | None = None,
    ) -> None:
        context, row = self._context, self._context.row
        found = context.found
        starting = Positions.of(
            OffsetRange(name, found[name].id, number, start, start)
            for name, by_partition in starts.items()
            for number, start in by_partition.items()
        )
        topics = {name: with_incarnation(row.topics.get(name, []), topic.id) for name, topic in found.items()}
        directory = str(context.checkpoint_of(row.generation + 1).spark)

        def begin(tx: Transaction) -> StageRow:
            note_gaps(tx, context, gaps, why)
            context.ledger.supersede_open(tx, row.flow, row.name)
            return context.stages.new_generation(
                tx, row, context.owner, checkpoint=directory, starting=starting, topics=topics
            )

        tell_gaps(context, gaps, why)
        if wish is not None:
            context.row = self._controller.begin_anew("reset", wish, begin)
        else:
            with context.database.transaction() as tx:
                row = begin(tx)
            context.row = row
        crash.here(CrashPoint.GENERATION_BEGUN)
        context.checkpoint.make()
        context.checkpoint.forget_older()

    def _as_configured(self, topic: Topic) -> dict[int, int]:
        context = self._context
        if topic.name == context.topics.reentry:
            return self._at(topic, EARLIEST)
        return self._at(topic, context.flow.starting or context.settings.flow.starting)

    def _at(self, topic: Topic, where: str) -> dict[int, int]:
        log = self._context.log
        return log.ends(topic.name) if where == LATEST else log.starts(topic.name)

    def _replaced(self) -> bool:
        """Whether the checkpoint reads other topics than the stage."""
        context = self._context
        return context.row.topics.keys() != context.found.keys() or any(map(self._is_replaced, context.found.values()))

    def _is_replaced(self, topic: Topic) -> bool:
        known = self._context.row.topics.get(topic.name)
        return not known or known[-1] != topic.id

    def _tell_change(self) -> None:
        """A changed shape is announced, and the new one is what the next run is compared with."""
        context, row = self._context, self._context.row
        found = FlowComparer(context.database, context.log, context.flow).one(context.stage, row)
        if found.refused is not None:
            raise FlowHalted(found.refused)
        if row.topology == found.shape and row.version == context.flow.version:
            return
        with context.database.transaction() as tx:
            if found.changes:
                data = {"before": row.topology, "after": found.shape, "changes": list(found.changes)}
                context.event_log.record(tx, Event(EventKind.FLOW_CHANGED, context.name, data=data))
            context.stages.save_topology(tx, row.flow, row.name, context.owner, found.shape, context.flow.version)
        context.row = replace(row, topology=found.shape, version=context.flow.version)


def check_reset(arguments: Mapping[str, Any]) -> None:
    if (to := arguments.get("to", EARLIEST)) not in (EARLIEST, LATEST):
        raise BadValue(f"a stage is reset to {EARLIEST} or {LATEST}, not to {to!r}")


def finish_open_batch(context: StageContext, controller: StageController) -> None:
    """End the open batch where that can be done. What keeps state in Spark, or has no marks, is not ended like this."""
    if not context.flow.delivery.has_marks or context.stage.is_stateful:
        return
    with context.database.read() as tx:
        batch = context.ledger.open_batch(tx, context.row.flow, context.row.name)
    if batch is None or batch.generation != context.row.generation or not _has_replaced_topic(context, batch):
        return
    detector = OutageDetector.from_value(context.row.judge, context.settings.flow)
    fixed = cast(StageController, _FixedController(controller.machine))
    records, nonce = _remaining_records(context, batch), secrets.token_hex(8)
    run = BatchRun(context, fixed, detector, batch.batch_id, records, nonce, is_leftover=True)
    try:
        outcome = run.run()
    except Outage as outage:  # here nobody probes: it is waited for as for any sink that takes nothing
        raise SinkError(outage.code, outage.where, str(outage)) from outage
    if outcome is not None:
        data = {"batch_id": batch.batch_id, "took_s": run.took_s, **outcome.to_counts()}
        context.events.publish(Event(EventKind.BATCH_COMMITTED, context.name, data=data))


class _FixedController:
    """A controller that stays where it is: the stage is at its reset, whatever the batch comes to."""

    def __init__(self, machine: StageMachine) -> None:
        self.machine = machine

    def reach(self, state: StageState, batch_id: int | None = None) -> None:
        pass


def _has_replaced_topic(context: StageContext, batch: Batch) -> bool:
    """Whether all topics of the batch are there, and one of them is another one."""
    names = {each.topic for each in batch.positions}
    return names <= context.found.keys() and any(
        context.found[each.topic].id != each.topic_id for each in batch.positions
    )


def _remaining_records(context: StageContext, batch: Batch) -> DataFrame:
    """What the batch reads of topics that are the same."""
    ranges = [each for each in batch.positions if context.found[each.topic].id == each.topic_id]
    topics = sorted({each.topic for each in ranges})
    ends = {(name, number): end for name in topics for number, end in context.log.ends(name).items()}
    starts = {(each.topic, each.partition): each.start for each in ranges}
    stops = {(each.topic, each.partition): each.stop for each in ranges}
    return read_batch(context.spark, context.log, topics, {**ends, **starts}, {**ends, **stops})


def fence_off(context: StageContext) -> None:
    """End the present generation for topics. May be done again and again."""
    if not context.flow.delivery.has_marks or not context.row.generation:
        return
    row = context.row
    with context.database.read() as tx:
        batch = context.ledger.open_batch(tx, row.flow, row.name)
    if batch is None:
        return
    MarkTopic(context.log, context.topics.marks).fence(row.flow, row.name, row.generation + 1)
    crash.here(CrashPoint.GENERATION_FENCED)
    context.close()  # its own producer is among them
    for name in producers_of(context, batch):
        context.log.producer(name).close()


def producers_of(context: StageContext, batch: Batch) -> Iterator[str]:
    """The names under which a batch may have transactions open."""
    yield producer_of(batch.flow, batch.stage)
    for output in context.stage.outputs:
        if isinstance(output.sink, TopicSink):
            for unit in _all_units(batch):
                yield producer_of(batch.flow, batch.stage, output.name, unit)


def _all_units(batch: Batch) -> list[str]:
    """The names of all units that a batch may have, whether its stage shuffles or not."""
    buckets = BatchSnapshot.of_value(batch.units).buckets
    return [
        *(f"{each.topic}/{each.partition}" for each in batch.positions if not each.is_empty),
        *(f"{number}of{buckets}" for number in range(buckets)),
    ]
