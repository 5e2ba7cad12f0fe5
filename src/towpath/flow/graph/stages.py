"""The stages of a flow: its graph checked and cut, the shape of each stage as JSON, and a chart of all of them. Pure.

A shape is kept in the row of its stage and compared with that of the next run; the chart is drawn from shapes alone,
so it needs none of the flow's code. What a function does is not in a shape; to announce such a change, give the flow
another `version`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from towpath.errors import BadFlow
from towpath.flow.delivery.ids import Strategy
from towpath.flow.documents.schema import Schema
from towpath.flow.graph.nodes import Each, Node, Output, Source
from towpath.flow.sinks.sink import takes_once


@dataclass(frozen=True, slots=True)
class Stage:
    """What is read and loaded together: one Spark query, one position, one state machine.

    All that is kept of it goes by `name`, the one under which it began.
    """

    name: str
    sources: tuple[Source, ...]
    nodes: tuple[Node, ...]  # inputs before those that use them
    outputs: tuple[Output, ...]
    called: str = ""  # after its topics, as they are now
    delivery: Strategy = Strategy.EXACTLY_ONCE

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({name for source in self.sources for name in source.topics}))

    @property
    def callers(self) -> tuple[str, ...]:
        """The steps that call a user's function for each record."""
        return tuple(node.name for node in self.nodes if isinstance(node, Each))

    @property
    def is_stateful(self) -> bool:
        """Whether the stage keeps state in Spark: its tasks are those of the state then, not of its partitions."""
        return any(source.is_stateful for source in self.sources)

    def topology(self) -> dict[str, Any]:
        """The shape: what is read, by which steps, into what, and what is promised about it."""
        return {
            "topics": list(self.topics),
            "called": self.called,
            "delivery": str(self.delivery),
            "steps": [_node_shape(node) for node in self.nodes],
            "outputs": [_output_shape(output) for output in self.outputs],
        }

    def fingerprint(self) -> str:
        text = json.dumps(self.topology(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


Shape = Mapping[str, Any]


def checked_stages(
    flow: str,
    nodes: Sequence[Node],
    outputs: Sequence[Output],
    delivery: Strategy = Strategy.EXACTLY_ONCE,
    names_before: Mapping[str, str] | None = None,
) -> list[Stage]:
    """The stages of a flow, by name; `BadFlow` when something in it leads nowhere."""
    if not outputs:
        raise BadFlow(f"flow {flow!r} loads nothing; end it with flow.load(step, sink)")
    for output in outputs if delivery.has_marks else ():
        if not takes_once(output.sink):
            raise BadFlow(
                f"flow {flow!r} is {delivery}, and {output.sink}, the sink of {output.name!r}, says that it may take a "
                f"delivery twice (is_idempotent). Mend the sink, or promise less: Flow({flow!r}, "
                f'delivery="{Strategy.AT_LEAST_ONCE}")'
            )
    used = _used(outputs)
    for node in nodes:
        if id(node) not in used:
            raise BadFlow(f"flow {flow!r}: what {node.name!r} gives is not used; load it or take it out")
    stages: list[Stage] = []
    for group in _groups(nodes, outputs):
        members = set(map(id, group))
        ordered = tuple(node for node in nodes if id(node) in members)
        sources = tuple(node for node in ordered if isinstance(node, Source))
        loads = tuple(output for output in outputs if id(output.input) in members)
        called = "+".join(sorted({name for source in sources for name in source.topics}))
        stages.append(Stage(called, sources, ordered, loads, called, delivery))
    return sorted(_with_first_names(flow, stages, names_before or {}), key=lambda stage: stage.name)


def mermaid(shapes: Sequence[Shape]) -> str:
    """All stages in one chart for mermaid: topics, steps and sinks. A shape is what `Stage.topology` gives."""
    lines = ["flowchart LR"]
    for number, shape in enumerate(shapes):
        lines += _chart_lines(f"s{number}", shape)
    return "\n".join(lines)


# How each kind of node looks; a step where the kind is another one.
_LOOKS = {
    "source": "[/{}/]",
    "each": "([{}])",
    "fork": "{{{{{}}}}}",
    "branch": "{{{{{}}}}}",
    "anyof": "{{{{{}}}}}",
}


def _with_first_names(flow: str, stages: Sequence[Stage], names_before: Mapping[str, str]) -> list[Stage]:
    """The stages under the names under which they began; `names_before` has for a name the one before it."""
    named = [replace(stage, name=_first_name(flow, stage.called, names_before)) for stage in stages]
    called = {stage.called for stage in stages}
    for new, old in names_before.items():
        if new not in called and new not in names_before.values():
            raise BadFlow(
                f"flow {flow!r}: renamed({old!r}, {new!r}), but no stage is called {new!r}; the flow has "
                f"{', '.join(sorted(called))}"
            )
    names = [stage.name for stage in named]
    for name in names:
        if names.count(name) > 1:
            raise BadFlow(f"flow {flow!r}: two stages would go on as {name!r}; only one can")
    return named


def _first_name(flow: str, name: str, names_before: Mapping[str, str]) -> str:
    met = [name]
    while (name := names_before.get(name, "")) != "":
        if name in met:
            raise BadFlow(f"flow {flow!r}: {' was '.join([*met, name])}; a stage cannot have been renamed in a circle")
        met.append(name)
    return met[-1]


def _used(outputs: Sequence[Output]) -> set[int]:
    found: set[int] = set()

    def visit(node: Node) -> None:
        found.add(id(node))
        for above in node.inputs:
            visit(above)

    for output in outputs:
        visit(output.input)
    return found


def _groups(nodes: Sequence[Node], outputs: Sequence[Output]) -> list[list[Node]]:
    """Nodes that share a source, or a topic, belong to one stage: a record is read once."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    topics_of = {id(node): [name for source in _sources_of(node) for name in source.topics] for node in nodes}
    for node in nodes:
        first, *others = topics_of[id(node)]
        for other in others:
            leader[find(other)] = find(first)
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        groups.setdefault(find(topics_of[id(node)][0]), []).append(node)
    return list(groups.values())


def _sources_of(node: Node) -> list[Source]:
    """The sources that a node is made from, each once, in the order in which they are met."""
    found: dict[int, Source] = {}

    def visit(node: Node) -> None:
        if isinstance(node, Source):
            found.setdefault(id(node), node)
        for above in node.inputs:
            visit(above)

    visit(node)
    return list(found.values())


def _node_shape(node: Node) -> dict[str, Any]:
    takes = getattr(node, "takes", None)
    said = {
        "name": node.name,
        "kind": type(node).__name__.lower(),
        "inputs": [above.name for above in node.inputs],
        "expectations": dict(getattr(node, "expectations", ())),
        "takes": "" if takes is None else str(takes),
        "deterministic": getattr(node, "deterministic", None),
    }
    return {**said, **_source_shape(node)} if isinstance(node, Source) else said


def _source_shape(source: Source) -> dict[str, Any]:
    schema = source.schema
    return {
        "topics": list(source.topics),
        "duplicates": source.duplicates,
        "dedupe": _dedupe(source),
        "stateful": None if source.stateful is None else str(source.stateful),
        "join": None if source.join is None else str(source.join),
        "extra": None if schema is None else schema.extra,
        "columns": None if schema is None else _columns(schema),
        "rules": None if schema is None or schema.rules is None else _digest(schema.rules.schema),
    }


def _dedupe(source: Source) -> Any:
    if source.dedupes:
        return {topic: str(dedupe) for topic, dedupe in source.dedupes.items()}
    return None if source.dedupe is None else str(source.dedupe)


def _columns(schema: Schema) -> dict[str, str]:
    return {field.name: field.kind.ddl + ("" if field.nullable else " not null") for field in schema.struct.fields}


def _output_shape(output: Output) -> dict[str, Any]:
    sink = output.sink
    return {
        "name": output.name,
        "called": output.called,
        "input": output.input.name,
        "sink": str(sink),
        "id": None if sink.id is None else sink.id.text,
    }


def _digest(value: object) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _chart_lines(prefix: str, shape: Shape) -> Iterator[str]:
    steps: Sequence[Shape] = shape.get("steps", ())
    ids = {step["name"]: f"{prefix}n{at}" for at, step in enumerate(steps)}
    for step in steps:
        look = _LOOKS.get(step.get("kind", ""), "[{}]")
        yield f"    {ids[step['name']]}{look.format(_escaped(step['name']))}"
        for above in step.get("inputs", ()):
            if above in ids:
                yield f"    {ids[above]} --> {ids[step['name']]}"
    for at, output in enumerate(shape.get("outputs", ())):
        if output["input"] in ids:
            yield f"    {ids[output['input']]} --> {prefix}o{at}[({_escaped(output['sink'])})]"


def _escaped(text: str) -> str:
    return '"' + text.replace('"', "#quot;") + '"'
