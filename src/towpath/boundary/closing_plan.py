"""What a flow does with the uploads of its streams: worked out, and checked, before it starts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from towpath.boundary.passing import StageWays, Ways
from towpath.boundary.result_state import ResultKind
from towpath.boundary.result_store import Declared
from towpath.boundary.streams import Stream
from towpath.boundary.upload_sinks import CollectSink, ResultSink
from towpath.errors import BadFlow
from towpath.flow.closing_step import ClosingStep
from towpath.flow.flow import Flow
from towpath.flow.graph import Stage


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The uploads of one stream: their way through the stages, and what comes of them."""

    topics: Mapping[str, str]  # by input
    ways: Ways
    results: tuple[Declared, ...] = ()
    closings: tuple[ClosingStep, ...] = ()
    wait_for_replays_s: float | None = None


@dataclass(frozen=True, slots=True)
class Collection:
    """Rows that are collected under one name: by which stages, and their columns."""

    stages: tuple[str, ...]
    schema: str | None


@dataclass(frozen=True, slots=True)
class ClosingPlan:
    """The streams of a flow, or those that have none."""

    flow: str
    streams: Mapping[str, StreamPlan]
    collections: Mapping[str, Collection] = field(default_factory=dict)

    @classmethod
    def without_flow(cls, streams: Iterable[Stream]) -> ClosingPlan:
        """Uploads that end when their senders have finished."""
        return cls("", {each.name: StreamPlan(_topics(each), Ways(dict.fromkeys(each.inputs, ()))) for each in streams})

    @classmethod
    def of(cls, flow: Flow, streams: Sequence[Stream]) -> ClosingPlan:
        """`BadFlow` when settings and flow do not promise the same."""
        stages = flow.stages()
        collections = _collections(flow, stages)
        _check_streams(flow, streams, stages)
        plans = {each.name: _stream_plan(flow, each, stages) for each in streams}
        return cls(flow.name, plans, collections)


def _topics(stream: Stream) -> dict[str, str]:
    return {name: input.topic for name, input in stream.inputs.items()}


def _stream_plan(flow: Flow, stream: Stream, stages: Sequence[Stage]) -> StreamPlan:
    topics = _topics(stream)
    ways = Ways.of(stream.name, topics, map(StageWays.of, stages))
    closings = tuple(step for step in flow.closings if step.stream == stream.name)
    results = tuple(_declared(flow, stream, query, stages, closings, ways.order) for query in stream.results)
    if missing := sorted({step.result for step in closings} - set(stream.results)):
        raise BadFlow(
            f"flow {flow.name!r} gives {missing[0]!r} at the end of {stream.name!r}, which is none of its results in "
            f"the settings; add it: [gateway.streams.{stream.name}] results = {[*stream.results, missing[0]]}"
        )
    return StreamPlan(topics, ways, results, closings, stream.wait_for_replays_s)


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


def _collections(flow: Flow, stages: Sequence[Stage]) -> dict[str, Collection]:
    found: dict[str, Collection] = {}
    for stage in stages:
        for sink in (output.sink for output in stage.outputs):
            if isinstance(sink, CollectSink):
                before = found.get(sink.name, Collection((), sink.schema))
                if before.schema != sink.schema:
                    raise BadFlow(f"flow {flow.name!r} collects {sink.name!r} with two schemas; give both the same")
                found[sink.name] = Collection(tuple(dict.fromkeys((*before.stages, stage.name))), sink.schema)
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
