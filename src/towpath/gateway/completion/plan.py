"""What a flow does with the uploads of its streams, checked before it starts; and the table `upload_pass`.

A stage reads an input of the stream itself, or a topic that an earlier stage has written something of it to. Where
the data of an upload ends for a stage is known in the first case when its senders have finished, in the second when
all stages that write to the topic have come to their own ends: then it is the end of the topic.

The table says where the data of an upload ends for each stage of its flow, and when the stage came there. A row is
made once and passed once. The input `>topic` stands for what other stages have written to that topic; the stage `""`
for all stages that read an input, and with the input `*` for everything.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from towpath.db import Database, Queries, Transaction
from towpath.errors import BadFlow
from towpath.flow.delivery.positions import Positions
from towpath.flow.flow import Flow
from towpath.flow.graph.nodes import ClosingStep
from towpath.flow.graph.stages import Stage
from towpath.flow.sinks.template import Template, is_of
from towpath.flow.sinks.topic.sink import TopicSink
from towpath.gateway.outlet.sinks import CollectSink, ResultSink
from towpath.gateway.outlet.store import Declared, ResultKind
from towpath.gateway.uploads.streams import Stream

EVERYTHING = "*"
ALL_STAGES = ""
WRITTEN = ">"


@dataclass(frozen=True, slots=True)
class ClosingPlan:
    """The streams of a flow, or those that have none."""

    flow: str
    streams: Mapping[str, StreamPlan]
    collections: Mapping[str, CollectedStream] = field(default_factory=dict)

    @classmethod
    def without_flow(cls, streams: Iterable[Stream]) -> ClosingPlan:
        """Uploads that end when their senders have finished."""
        return cls(
            "", {each.name: StreamPlan(_topics(each), StreamRoute(dict.fromkeys(each.inputs, ()))) for each in streams}
        )

    @classmethod
    def of(cls, flow: Flow, streams: Sequence[Stream]) -> ClosingPlan:
        """`BadFlow` when settings and flow do not promise the same."""
        stages = flow.stages()
        collections = _collections(flow, stages)
        _check_streams(flow, streams, stages)
        plans = {each.name: _stream_plan(flow, each, stages) for each in streams}
        return cls(flow.name, plans, collections)


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The uploads of one stream: their way through the stages, and what comes of them."""

    topics: Mapping[str, str]  # by input
    route: StreamRoute
    results: tuple[Declared, ...] = ()
    closings: tuple[ClosingStep, ...] = ()
    wait_for_replays_s: float | None = None


@dataclass(frozen=True, slots=True)
class CollectedStream:
    """Rows that are collected under one name: by which stages, and their columns."""

    stages: tuple[str, ...]
    schema: str | None


def _topics(stream: Stream) -> dict[str, str]:
    return {name: input.topic for name, input in stream.inputs.items()}


def _stream_plan(flow: Flow, stream: Stream, stages: Sequence[Stage]) -> StreamPlan:
    topics = _topics(stream)
    route = StreamRoute.of(stream.name, topics, map(StageRoute.of, stages))
    closings = tuple(step for step in flow.closings if step.stream == stream.name)
    results = tuple(_declared(flow, stream, query, stages, closings, route.order) for query in stream.results)
    if missing := sorted({step.result for step in closings} - set(stream.results)):
        raise BadFlow(
            f"flow {flow.name!r} gives {missing[0]!r} at the end of {stream.name!r}, which is none of its results in "
            f"the settings; add it: [gateway.streams.{stream.name}] results = {[*stream.results, missing[0]]}"
        )
    return StreamPlan(topics, route, results, closings, stream.wait_for_replays_s)


def _declared(
    flow: Flow,
    stream: Stream,
    query: str,
    stages: Sequence[Stage],
    closings: Sequence[ClosingStep],
    order: Sequence[str],
) -> Declared:
    loaded = {stage.name: sink for stage in stages for sink in _results(stage) if sink.name == query}
    step = next((each for each in closings if each.result == query), None)
    if loaded and step is not None:
        raise BadFlow(f"flow {flow.name!r} gives {query!r} both as records come and at the end; use two names")
    if step is not None:
        return Declared(query, ResultKind.CLOSING, (), step.columns)
    if not loaded:
        raise BadFlow(
            f"the settings promise the result {query!r} for stream {stream.name!r}, and flow {flow.name!r} gives none: "
            f"load it, flow.load(…, result({query!r})), or take it out of the settings"
        )
    names = sorted(loaded, key=lambda name: (order.index(name) if name in order else len(order), name))
    columns = next((sink.columns for sink in loaded.values() if sink.columns is not None), None)
    return Declared(query, ResultKind.STREAMED, tuple(names), columns)


def _results(stage: Stage) -> list[ResultSink]:
    return [output.sink for output in stage.outputs if isinstance(output.sink, ResultSink)]


def _collections(flow: Flow, stages: Sequence[Stage]) -> dict[str, CollectedStream]:
    found: dict[str, CollectedStream] = {}
    for stage in stages:
        for sink in (output.sink for output in stage.outputs):
            if isinstance(sink, CollectSink):
                before = found.get(sink.name, CollectedStream((), sink.schema))
                if before.schema != sink.schema:
                    raise BadFlow(f"flow {flow.name!r} collects {sink.name!r} with two schemas; give both the same")
                found[sink.name] = CollectedStream(tuple(dict.fromkeys((*before.stages, stage.name))), sink.schema)
    for step in flow.closings:
        for name in step.collected:
            if name not in found:
                raise BadFlow(
                    f"step {step.name!r} is given {name!r}, which the flow does not collect; it collects "
                    f"{', '.join(sorted(found)) or 'nothing'}"
                )
            if found[name].schema is None:
                raise BadFlow(f"step {step.name!r} is given {name!r}: say its columns, collect({name!r}, schema=…)")
    return found


def _check_streams(flow: Flow, streams: Sequence[Stream], stages: Sequence[Stage]) -> None:
    known = {each.name for each in streams}
    for step in flow.closings:
        if step.stream not in known:
            raise BadFlow(
                f"step {step.name!r} runs at the end of the stream {step.stream!r}, which is none of this flow: say "
                f"[gateway.streams.{step.stream}] flow = {flow.name!r} in the settings"
            )
    promised = {query for each in streams for query in each.results}
    loaded = {sink.name for stage in stages for sink in _results(stage)}
    if unknown := sorted(loaded - promised):
        raise BadFlow(
            f"flow {flow.name!r} loads the result {unknown[0]!r}, which no stream of it promises: name it in the "
            f"settings, [gateway.streams.…] flow = {flow.name!r}, results = [{unknown[0]!r}]"
        )


@dataclass(frozen=True, slots=True)
class StreamRoute:
    """The stages that the data of a stream goes through."""

    direct: Mapping[str, tuple[str, ...]]  # by input: the stages that read its topic
    written: tuple[InnerTopic, ...] = ()
    order: tuple[str, ...] = ()  # all of them, writers before readers

    @classmethod
    def of(cls, stream: str, topics: Mapping[str, str], stages: Iterable[StageRoute]) -> StreamRoute:
        """`topics` has the topic of each input. `BadFlow` when stages write to each other in a circle."""
        known = {stage.name: stage for stage in stages}
        direct = {
            input: tuple(sorted(name for name, stage in known.items() if topic in stage.reads))
            for input, topic in topics.items()
        }
        order = _reached(stream, {name for names in direct.values() for name in names}, known)
        written = (
            InnerTopic(topic, name, tuple(other for other in order if known[other].may_write(topic)))
            for name in order
            for topic in known[name].reads
        )
        return cls(direct, tuple(each for each in written if each.writers), tuple(order))


class InnerTopic(NamedTuple):
    """A topic between stages: who reads it, and who writes to it."""

    topic: str
    stage: str
    writers: tuple[str, ...]


class StageRoute(NamedTuple):
    """What a stage reads and writes; a topic that is written may have fields of the document in its name."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[Template, ...]

    @classmethod
    def of(cls, stage: Stage) -> StageRoute:
        written = [output.sink.target for output in stage.outputs if isinstance(output.sink, TopicSink)]
        return cls(stage.name, stage.topics, tuple(written))

    def may_write(self, topic: str) -> bool:
        return any(is_of(template, topic) for template in self.writes)


def _reached(stream: str, first: Collection[str], known: Mapping[str, StageRoute]) -> list[str]:
    """The stages that data comes to which these read, writers before readers."""
    before: dict[str, set[str]] = {}
    left = sorted(first)
    while left:
        name = left.pop()
        before.setdefault(name, set())
        for reader, stage in known.items():
            if any(known[name].may_write(topic) for topic in stage.reads):
                left += [reader] if reader not in before else []
                before.setdefault(reader, set()).add(name)
    try:
        return list(TopologicalSorter({name: sorted(before[name]) for name in sorted(before)}).static_order())
    except CycleError as error:
        raise BadFlow(
            f"stream {stream!r}: the end of an upload cannot be told, because stages write to each other in a circle: "
            f"{' → '.join(error.args[1])}"
        ) from error


class StageReached(NamedTuple):
    """Where a stage is: what it has committed, by topic and partition, and the id of each topic that it reads."""

    stops: Mapping[tuple[str, int], int]
    topic_ids: Mapping[str, str]

    @classmethod
    def of(cls, committed: Positions | None, starting: Positions) -> StageReached:
        """A stage that has committed nothing in its generation is where that begins."""
        ranges = starting if committed is None else committed
        stops = {(each.topic, each.partition): each.start if committed is None else each.stop for each in ranges}
        return cls(stops, {each.topic: each.topic_id for each in ranges})


NOWHERE = StageReached({}, {})


def has_come_to(reached: StageReached, topic: str, ends: TopicEnds) -> bool:
    """Whether a stage has committed all that lies before these ends.

    Of a topic that was made again nothing can be read that was in it before: the stage has passed over it.
    """
    id = reached.topic_ids.get(topic)
    if id is not None and ends.topic_id and id != ends.topic_id:
        return True
    return all(stop == 0 or reached.stops.get((topic, number), -1) >= stop for number, stop in ends.stops.items())


def latest(ends: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """The end of what several senders have sent."""
    numbers = {number for each in ends for number in each}
    return {number: max(each.get(number, 0) for each in ends) for number in sorted(numbers)}


class TopicEnds(NamedTuple):
    """Where data ends in a topic, by partition. A topic that was made again has another id."""

    topic_id: str
    stops: Mapping[int, int]

    def to_json(self) -> str:
        return json.dumps({"id": self.topic_id, "stops": {str(number): stop for number, stop in self.stops.items()}})

    @classmethod
    def from_json(cls, text: str) -> TopicEnds:
        value = json.loads(text)
        return cls(value["id"], {int(number): stop for number, stop in value["stops"].items()})


NO_ENDS = TopicEnds("", {})

NO_ENDS = TopicEnds("", {})


class PassStore:
    """Fixes and marks ends of uploads, inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.gateway.completion", "passes", database.dialect)

    def add(self, tx: Transaction, upload: str, input: str, stage: str, ends: TopicEnds = NO_ENDS) -> bool:
        """Fix the end of an input at a stage; False when that was done before, which stays as it is."""
        values = {"upload": upload, "input": input, "stage": stage, "positions": ends.to_json()}
        return tx.run(self._sql["add_pass"], values) > 0

    def mark(self, tx: Transaction, upload: str, input: str, stage: str) -> bool:
        """The stage has come there; False when that was known."""
        return bool(tx.rows(self._sql["mark_passed"], {"upload": upload, "input": input, "stage": stage}))

    def of_upload(self, tx: Transaction, upload: str) -> list[StagePass]:
        rows = tx.rows(self._sql["passes_of_upload"], {"upload": upload})
        return [
            StagePass(upload, input, stage, TopicEnds.from_json(positions), at) for input, stage, positions, at in rows
        ]

    def has_passed(self, tx: Transaction, upload: str, input: str) -> bool:
        """Whether all stages that read the input have come to its end."""
        return bool(tx.rows(self._sql["has_passed"], {"upload": upload, "input": input}))

    def under_way(self, tx: Transaction, streams: Collection[str]) -> list[str]:
        """The uploads of these streams that have an end which some stage may not have come to."""
        return [id for (id,) in tx.rows(self._sql["under_way"], {"streams": json.dumps(sorted(streams))})]

    def ready(self, tx: Transaction, streams: Collection[str]) -> list[tuple[str, int]]:
        """The uploads of these streams that are closing and that all stages have come to the end of, and since when."""
        return [(id, at) for id, at in tx.rows(self._sql["ready"], {"streams": json.dumps(sorted(streams))})]


class StagePass(NamedTuple):
    """The end of an input at a stage."""

    upload: str
    input: str
    stage: str
    ends: TopicEnds
    passed_us: int | None

    @property
    def is_passed(self) -> bool:
        return self.passed_us is not None
