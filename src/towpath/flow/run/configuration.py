"""The work of the states `configure` and `reset`: everything is checked before a query starts, and positions are fixed.

A *generation* is one checkpoint with explicit starting positions. A new one begins when a stage runs for the first
time, when a topic that it reads was deleted and made again, when positions are no longer there, and when a person says
so.

The end of a batch of which an input was deleted and made again while it was open.

What the batch was to read of the old topic is gone, unless it was decided or loaded already. It is not begun anew: of
its other inputs, topics may have a part. It is ended under its own name, with its marks, without what is gone: that is
told as a gap. Then the stage begins a new generation, behind this batch.

Spark's query is not asked for the records: it would read what lies at the old offsets of the new topic.

Keeps late writers of a generation from topics, before the next one begins.

A reset gives up the open batch, and what it was to read is read again or passed over. A task of that batch may still be
at work, or wake up later: nobody will look for its marks, so those do not keep it from writing. Hence, in this order:

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
from towpath.flow.stage.states import StageCommand
from towpath.flow.stage.store import StageRow
from towpath.flow.topics import producer_of
from towpath.log.spark.source import read_batch
from towpath.log.topic import Topic


class _Still:
    """A helm that stays where it is: the stage is at its reset, whatever the batch comes to."""

    def __init__(self, pilot: StageMachine) -> None:
        self.pilot = pilot

    def reach(self, state: StageState, batch_id: int | None = None) -> None:
        pass


def finish_open_batch(ground: StageContext, helm: StageController) -> None:
    """End it where that can be done. What keeps state in Spark, or has no marks, is not ended like this."""
    if not ground.flow.delivery.has_marks or ground.stage.is_stateful:
        return
    with ground.database.read() as tx:
        batch = ground.ledger.open_batch(tx, ground.row.flow, ground.row.name)
    if batch is None or batch.generation != ground.row.generation or not _replaced(ground, batch):
        return
    judge = OutageDetector.from_value(ground.row.judge, ground.settings.flow)
    still = cast(StageController, _Still(helm.pilot))
    run = BatchRun(ground, still, judge, batch.batch_id, _left(ground, batch), secrets.token_hex(8), is_leftover=True)
    try:
        outcome = run.run()
    except Outage as outage:  # here nobody probes: it is waited for as for any sink that takes nothing
        raise SinkError(outage.code, outage.where, str(outage)) from outage
    if outcome is not None:
        data = {"batch_id": batch.batch_id, "took_s": run.took_s, **outcome.to_counts()}
        ground.events.publish(Event(EventKind.BATCH_COMMITTED, ground.name, data=data))


def _replaced(ground: StageContext, batch: Batch) -> bool:
    """Whether all topics of the batch are there, and one of them is another one."""
    names = {each.topic for each in batch.positions}
    return names <= ground.found.keys() and any(
        ground.found[each.topic].id != each.topic_id for each in batch.positions
    )


def _left(ground: StageContext, batch: Batch) -> DataFrame:
    """What the batch reads of topics that are the same."""
    ranges = [each for each in batch.positions if ground.found[each.topic].id == each.topic_id]
    topics = sorted({each.topic for each in ranges})
    ends = {(name, number): end for name in topics for number, end in ground.log.ends(name).items()}
    starts = {(each.topic, each.partition): each.start for each in ranges}
    stops = {(each.topic, each.partition): each.stop for each in ranges}
    return read_batch(ground.spark, ground.log, topics, {**ends, **starts}, {**ends, **stops})


def fence_off(ground: StageContext) -> None:
    """End the present generation for topics. May be done again and again."""
    if not ground.flow.delivery.has_marks or not ground.row.generation:
        return
    row = ground.row
    with ground.database.read() as tx:
        batch = ground.ledger.open_batch(tx, row.flow, row.name)
    if batch is None:
        return
    MarkTopic(ground.log, ground.topics.marks).fence(row.flow, row.name, row.generation + 1)
    crash.here(CrashPoint.GENERATION_FENCED)
    ground.close()  # its own producer is among them
    for name in producers_of(ground, batch):
        ground.log.producer(name).close()


def producers_of(ground: StageContext, batch: Batch) -> Iterator[str]:
    """The names under which a batch may have transactions open."""
    yield producer_of(batch.flow, batch.stage)
    for output in ground.stage.outputs:
        if isinstance(output.sink, TopicSink):
            for unit in units_of(batch):
                yield producer_of(batch.flow, batch.stage, output.name, unit)


def units_of(batch: Batch) -> list[str]:
    """The names of all units that a batch may have, whether its stage shuffles or not."""
    buckets = BatchSnapshot.of_value(batch.units).buckets
    return [
        *(f"{each.topic}/{each.partition}" for each in batch.positions if not each.is_empty),
        *(f"{number}of{buckets}" for number in range(buckets)),
    ]


EARLIEST, LATEST = "earliest", "latest"
BEYOND = "the topic ends before the position: it has lost records, or is an older copy; what came since is not read"


class StageConfiguration:
    """Checks a stage and gives it its generation."""

    def __init__(self, ground: StageContext, helm: StageController) -> None:
        self._ground = ground
        self._helm = helm

    def run(self) -> None:
        ground = self._ground
        ground.topics.ensure(ground.log)
        ground.look()
        for output in ground.stage.outputs:
            output.sink.check(ground.settings)
        ground.is_deterministic = check_plan(ground.spark, ground.stage, ground.settings)
        self._tell_change()
        if ground.row.generation == 0:
            self._begin({name: self._as_configured(topic) for name, topic in ground.found.items()})
        elif self._replaced():
            self._helm.move(StageState.RESET)
            return
        ground.checkpoint.make()
        ground.check_checkpoint()
        self._helm.move(StageState.EXTRACT)

    def reset(self) -> None:
        """Move the positions by the rules of code 5: what is gone is skipped, and written down as a gap."""
        ground = self._ground
        ground.look()
        self._check_state()
        finish_open_batch(ground, self._helm)
        self._check_open_batch()
        fence_off(ground)
        self._check_open_batch()  # from now on nobody adds to it
        before = ground.last_stops()
        starts = {}
        for name, topic in ground.found.items():
            if self._is_replaced(topic):
                starts[name] = self._as_configured(topic)
                continue
            ends, kept = ground.log.ends(name), ground.log.starts(name)
            for id, number in before:
                if id == topic.id and number not in ends:  # gone without its topic: waited for, not forgotten
                    raise UnknownPartition(name, number, len(ends))
            starts[name] = {
                number: min(max(before.get((topic.id, number), 0), kept[number]), ends[number]) for number in ends
            }
        tell_gaps(ground, self._gone_back(before, starts), BEYOND)
        self._begin(starts, self._passed_over(before, starts))
        self._helm.move(StageState.CONFIGURE)

    def _check_state(self) -> None:
        """A new generation remembers nothing. Where that matters, a person has to want it."""
        ground = self._ground
        if not ground.stage.is_stateful or not ground.checkpoint.has_commits:
            return
        others = [name for name, topic in ground.found.items() if self._is_replaced(topic)]
        what = f"{', '.join(others)} was made again since" if others else "records are gone that it has not read"
        raise FlowHalted(
            f"stage {ground.stage.name!r} of flow {ground.flow.name!r} keeps state of what it has read, and {what}. To "
            f"begin anew, with nothing remembered: towpath flow reset {ground.flow.name} {ground.stage.name}"
        )

    def _check_open_batch(self) -> None:
        """A part of a batch that is in outputs would come again with the new generation: a person has to know."""
        ground, row = self._ground, self._ground.row
        if not ground.flow.delivery.has_marks:
            return
        with ground.database.read() as tx:
            batch = ground.ledger.open_batch(tx, row.flow, row.name)
        if batch is None or not any(mark[:4] == batch.key for mark in ground.marks_since(batch)):
            return
        raise FlowHalted(
            f"batch {batch.batch_id} of {ground.name} is not done, and topics have a part of it; meanwhile an input "
            f"was made again or has lost records. What it reads of other inputs would be delivered twice. To accept "
            f"that: towpath flow reset {ground.flow.name}"
        )

    def reset_to(self, wish: StageCommand) -> None:
        """A person has chosen where to go on: `{"to": "earliest"}` or `{"to": "latest"}`."""
        ground = self._ground
        ground.topics.ensure(ground.log)
        ground.look()
        check_reset(wish.arguments)
        fence_off(ground)
        to = wish.arguments.get("to", EARLIEST)
        starts = {name: self._at(topic, to) for name, topic in ground.found.items() if name != ground.topics.reentry}
        reentry = ground.found[ground.topics.reentry]
        before = ground.last_stops()
        ends = ground.log.ends(reentry.name)
        starts[reentry.name] = {number: min(before.get((reentry.id, number), 0), ends[number]) for number in ends}
        self._begin(starts, self._passed_over(before, starts), BY_HAND, wish)

    def _passed_over(self, before: Mapping[Spot, int], starts: Mapping[str, Mapping[int, int]]) -> list[OffsetRange]:
        """What lies between where the stage was and where it goes on; nothing where it goes back."""
        ids = {name: topic.id for name, topic in self._ground.found.items()}
        return [
            OffsetRange(name, ids[name], number, before[ids[name], number], start)
            for name, by_partition in starts.items()
            for number, start in by_partition.items()
            if before.get((ids[name], number), start) < start
        ]

    def _gone_back(self, before: Mapping[Spot, int], starts: Mapping[str, Mapping[int, int]]) -> list[OffsetRange]:
        """Where the stage stood beyond the end. This is told, but is no row: new records will have these offsets."""
        ids = {name: topic.id for name, topic in self._ground.found.items()}
        return [
            OffsetRange(name, ids[name], number, start, before[ids[name], number])
            for name, by_partition in starts.items()
            for number, start in by_partition.items()
            if before.get((ids[name], number), start) > start
        ]

    def _begin(
        self,
        starts: Mapping[str, Mapping[int, int]],
        gaps: Sequence[OffsetRange] = (),
        why: str = EXPIRED,
        wish: StageCommand | None = None,
    ) -> None:
        ground, row = self._ground, self._ground.row
        found = ground.found
        starting = Positions.of(
            OffsetRange(name, found[name].id, number, start, start)
            for name, by_partition in starts.items()
            for number, start in by_partition.items()
        )
        topics = {name: with_incarnation(row.topics.get(name, []), topic.id) for name, topic in found.items()}
        directory = str(ground.checkpoint_of(row.generation + 1).spark)

        def begun(tx: Transaction) -> StageRow:
            note_gaps(tx, ground, gaps, why)
            ground.ledger.supersede_open(tx, row.flow, row.name)
            return ground.stages.new_generation(
                tx, row, ground.owner, checkpoint=directory, starting=starting, topics=topics
            )

        tell_gaps(ground, gaps, why)
        if wish is not None:
            ground.row = self._helm.begin_anew("reset", wish, begun)
        else:
            with ground.database.transaction() as tx:
                row = begun(tx)
            ground.row = row
        crash.here(CrashPoint.GENERATION_BEGUN)
        ground.checkpoint.make()
        ground.checkpoint.forget_older()

    def _as_configured(self, topic: Topic) -> dict[int, int]:
        ground = self._ground
        if topic.name == ground.topics.reentry:
            return self._at(topic, EARLIEST)
        return self._at(topic, ground.flow.starting or ground.settings.flow.starting)

    def _at(self, topic: Topic, where: str) -> dict[int, int]:
        log = self._ground.log
        return log.ends(topic.name) if where == LATEST else log.starts(topic.name)

    def _replaced(self) -> bool:
        """Whether the checkpoint reads other topics than the stage."""
        ground = self._ground
        return ground.row.topics.keys() != ground.found.keys() or any(map(self._is_replaced, ground.found.values()))

    def _is_replaced(self, topic: Topic) -> bool:
        known = self._ground.row.topics.get(topic.name)
        return not known or known[-1] != topic.id

    def _tell_change(self) -> None:
        """A changed shape is announced, and the new one is what the next run is compared with."""
        ground, row = self._ground, self._ground.row
        found = FlowComparer(ground.database, ground.log, ground.flow).one(ground.stage, row)
        if found.refused is not None:
            raise FlowHalted(found.refused)
        if row.topology == found.shape and row.version == ground.flow.version:
            return
        with ground.database.transaction() as tx:
            if found.changes:
                data = {"before": row.topology, "after": found.shape, "changes": list(found.changes)}
                ground.event_log.record(tx, Event(EventKind.FLOW_CHANGED, ground.name, data=data))
            ground.stages.save_topology(tx, row.flow, row.name, ground.owner, found.shape, ground.flow.version)
        ground.row = replace(row, topology=found.shape, version=ground.flow.version)


def check_reset(arguments: Mapping[str, Any]) -> None:
    if (to := arguments.get("to", EARLIEST)) not in (EARLIEST, LATEST):
        raise BadValue(f"a stage is reset to {EARLIEST} or {LATEST}, not to {to!r}")
