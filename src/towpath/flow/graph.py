"""The graph of a flow: checked, cut into stages, drawn. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from towpath.errors import BadFlow
from towpath.flow.nodes import Each, Node, Output, Source, Step, sources_of


@dataclass(frozen=True, slots=True)
class Stage:
    """What is read and loaded together: one Spark query, one position, one pilot."""

    name: str
    sources: tuple[Source, ...]
    nodes: tuple[Node, ...]  # inputs before those that use them
    outputs: tuple[Output, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({name for source in self.sources for name in source.topics}))

    @property
    def callers(self) -> tuple[str, ...]:
        """The steps that call a user's function for each record."""
        return tuple(node.name for node in self.nodes if isinstance(node, Each))

    def topology(self) -> dict[str, object]:
        """The shape, as it is compared with that of the last run: what is read, by which steps, into what."""
        return {
            "topics": list(self.topics),
            "steps": [
                {
                    "name": node.name,
                    "kind": type(node).__name__.lower(),
                    "inputs": [above.name for above in node.inputs],
                }
                for node in self.nodes
            ],
            "outputs": [
                {"name": output.name, "input": output.input.name, "sink": str(output.sink)} for output in self.outputs
            ],
        }

    def fingerprint(self) -> str:
        text = json.dumps(self.topology(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def checked_stages(flow: str, nodes: Sequence[Node], outputs: Sequence[Output]) -> list[Stage]:
    """The stages of a flow, by name; `BadFlow` when something in it leads nowhere."""
    if not outputs:
        raise BadFlow(f"flow {flow!r} loads nothing; end it with flow.load(step, sink)")
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
        stage = Stage("+".join(sorted({name for source in sources for name in source.topics})), sources, ordered, loads)
        stages.append(stage)
    return sorted(stages, key=lambda stage: stage.name)


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

    topics_of = {id(node): [name for source in sources_of([node]) for name in source.topics] for node in nodes}
    for node in nodes:
        first, *others = topics_of[id(node)]
        for other in others:
            leader[find(other)] = find(first)
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        groups.setdefault(find(topics_of[id(node)][0]), []).append(node)
    return list(groups.values())


def mermaid(stages: Sequence[Stage]) -> str:
    """The flow as a mermaid chart: topics, steps and sinks."""
    lines = ["flowchart LR"]
    for number, stage in enumerate(stages):
        ids = {id(node): f"s{number}n{at}" for at, node in enumerate(stage.nodes)}
        for node in stage.nodes:
            lines.append(f"    {ids[id(node)]}{_shape(node)}")
            lines += [f"    {ids[id(above)]} --> {ids[id(node)]}" for above in node.inputs]
        for at, output in enumerate(stage.outputs):
            lines.append(f"    {ids[id(output.input)]} --> s{number}o{at}[({_escaped(str(output.sink))})]")
    return "\n".join(lines)


def _shape(node: Node) -> str:
    name = _escaped(node.name)
    match node:
        case Source():
            return f"[/{name}/]"
        case Step():
            return f"[{name}]"
        case Each():
            return f"([{name}])"


def _escaped(text: str) -> str:
    return '"' + text.replace('"', "#quot;") + '"'
