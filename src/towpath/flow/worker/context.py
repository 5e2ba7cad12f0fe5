"""What a segment knows of its batch: names and settings, and what has come back through the re-entry topic.

A record that came back is counted, searched and reported where it lies, in the re-entry topic. But steps see it, and
names are made of it, as it was read for the first time: a replay is the same delivery, and never newer than what came
after it. Batches without such records have no `Reentry`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from towpath.blocks.rule import OPEN, BlockBarrier
from towpath.core.crash import Armed
from towpath.flow.delivery.ids import Strategy
from towpath.flow.failures import ErrorCode, RecordFailure, bounded
from towpath.flow.records.reentry import STAGE, TICK, FirstReading, Sent, first_reading, said_by, sent_as
from towpath.flow.sinks.sink import Deliveries, WriterContext
from towpath.flow.worker.records import RecordColumns
from towpath.settings import Settings


@dataclass(frozen=True, slots=True)
class BatchContext:
    """The batch that a segment belongs to; the same on every attempt, except for the nonce."""

    flow: str
    stage: str
    hash: str
    directory: str  # for reports; driver and workers share it
    nonce: str  # tells this attempt's faults from texts that look like one
    settings: Settings = field(repr=False)
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # make coordinates unique for ever
    incarnations: Mapping[str, int] = field(default_factory=dict)  # how often a name was given to another topic
    reentry: Reentry | None = None  # None: nothing in this batch has come back
    generation: int = 1
    batch_id: int = 0
    strategy: Strategy = Strategy.AT_LEAST_ONCE
    launch: int = 0
    marks_since: Mapping[int, int] = field(default_factory=dict)
    outages: int = 0
    crash: Armed | None = None  # where to die, in tests
    blocks: BlockBarrier = OPEN  # the block rules that were fixed with the batch

    def place(self, output: str, unit: str) -> WriterContext:
        """What a sink gets to open the writer of a unit."""
        return WriterContext(
            self.flow,
            self.stage,
            output,
            self.hash,
            unit,
            self.settings,
            self.generation,
            self.batch_id,
            self.strategy,
            self.launch,
            self.marks_since,
            self.outages,
        )


OTHERS = "re-entry of another stage"
CALLED_BACK = "called back by the desk"
_OLD = "\n"  # between the name of a topic and the id that it had once


@dataclass(frozen=True, slots=True)
class Reentry:
    """Which re-entries a stage takes, and under which coordinates. `answers`: also for those that are for no stage."""

    topic: str
    stage: str
    stages: frozenset[str]
    answers: bool
    ids: Mapping[str, Sequence[str]]  # of the topics that the stage reads, oldest first
    recalled: frozenset[Sent] = frozenset()

    def sort(self, records: RecordColumns) -> tuple[dict[int, str], dict[int, RecordFailure]]:
        """The places of records that are passed over, with the reason, and failures of those that no stage can take.

        A tick that no operator of this stage has taken is of an earlier generation, and passed over too.
        """
        passed: dict[int, str] = {}
        failed: dict[int, RecordFailure] = {}
        for at, topic in enumerate(records.topics):
            if topic != self.topic:
                continue
            said = said_by(records.headers(at))
            if TICK in said:
                verdict = records.verdicts.get(at)
                if said.get(STAGE) != self.stage or verdict is None or verdict.by is None:
                    passed[at] = OTHERS
            elif self._is_of_other(said):
                passed[at] = OTHERS
            elif self.recalled and sent_as(said) in self.recalled:
                passed[at] = CALLED_BACK
            elif isinstance(found := self._read(said), RecordFailure):
                failed[at] = found
        return passed, failed

    def _is_of_other(self, said: Mapping[str, str]) -> bool:
        wanted = said.get(STAGE)
        return wanted != self.stage and (wanted in self.stages or not self.answers)

    def _read(self, said: Mapping[str, str]) -> FirstReading | RecordFailure:
        try:
            found = first_reading(said)
        except (KeyError, ValueError) as error:
            return self._failure(f"it does not say where it was read for the first time: {error}")
        if found.stage not in self.stages:
            return self._failure(f"the flow has no stage {found.stage!r}; it has {', '.join(sorted(self.stages))}")
        if found.topic_id not in self.ids.get(found.topic, ()):
            return self._failure(f"stage {self.stage!r} has never read {found.topic!r} with the id {found.topic_id!r}")
        return found

    def _failure(self, why: str) -> RecordFailure:
        return RecordFailure(ErrorCode.NOT_VALID, self.topic, "BadReentry", bounded(why))

    def first_readings(self, records: RecordColumns) -> dict[int, FirstReading]:
        """By place, of the records that this stage takes."""
        found = {
            at: self._read(said_by(records.headers(at)))
            for at, topic in enumerate(records.topics)
            if topic == self.topic
        }
        return {at: each for at, each in found.items() if isinstance(each, FirstReading)}

    def as_first_read(self, records: RecordColumns) -> RecordColumns:
        """The same records with the coordinates and the time of their first reading."""
        columns = dict(records.columns)
        topics, partitions, offsets = list(records.topics), list(records.partitions), list(records.offsets)
        times = columns["timestamp"].cast(pa.int64()).to_pylist()
        keys = list(records.topics)
        for at, each in self.first_readings(records).items():
            topics[at], partitions[at], offsets[at] = each.topic, each.partition, each.offset
            keys[at] = self._key(each.topic, each.topic_id)
            times[at] = times[at] if each.timestamp_ms is None else each.timestamp_ms * 1000
        columns["topic"] = pa.array(topics, pa.string())
        columns["partition"] = pa.array(partitions, pa.int32())
        columns["offset"] = pa.array(offsets, pa.int64())
        columns["timestamp"] = pa.array(times, pa.int64()).cast(columns["timestamp"].type)
        return _FirstRead(columns, keys)

    def missing(self, output: str, deliveries: Deliveries) -> Deliveries:
        """Those that the output does not have yet: what comes back may be for other outputs, or for a part only."""
        chunk = deliveries.source
        readings = self.first_readings(chunk.records).items()
        done = {at: each.delivered for at, each in readings if each.delivered.concerns(output)}
        if not done:
            return deliveries
        rows = enumerate(zip(chunk.inputs, chunk.ordinals(), strict=True))
        return deliveries.only(
            [row for row, (input, at) in rows if input not in done or not done[input].has(output, at)]
        )

    @property
    def old_ids(self) -> dict[str, str]:
        """Ids that topics had once, by what stands for them among the keys of records."""
        return {self._key(name, id): id for name, ids in self.ids.items() for id in ids[:-1]}

    @property
    def old_incarnations(self) -> dict[str, int]:
        return {self._key(name, id): at for name, ids in self.ids.items() for at, id in enumerate(ids[:-1])}

    def _key(self, topic: str, id: str) -> str:
        return topic if id == self.ids[topic][-1] else f"{topic}{_OLD}{id}"

    @staticmethod
    def shown(coordinates: str) -> str:
        """Coordinates that begin with such a key, as people see them."""
        topic, is_old, rest = coordinates.partition(_OLD)
        return topic + rest[rest.index(":") :] if is_old else coordinates


class _FirstRead(RecordColumns):
    def __init__(self, columns: dict[str, pa.Array], keys: list[str]) -> None:
        super().__init__(columns)
        self._keys = keys

    @property
    def topic_keys(self) -> list[str]:
        return self._keys
