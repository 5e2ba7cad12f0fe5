"""The graph of a flow: checked, cut into stages, drawn. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from towpath.errors import BadFlow
from towpath.flow import drawing
from towpath.flow.nodes import Each, Node, Output, Source, sources_of
from towpath.flow.shape import shape_of
from towpath.flow.sinks.sink import takes_once
from towpath.flow.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Stage:
    """What is read and loaded together: one Spark query, one position, one pilot.

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
        """The shape, as it is compared with that of the last run."""
        return shape_of(self)

    def fingerprint(self) -> str:
        text = json.dumps(self.topology(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    return drawing.mermaid([stage.topology() for stage in stages])
