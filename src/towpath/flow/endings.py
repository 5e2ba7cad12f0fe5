"""What stands before the outputs of a stage. Pure.

An output is reached by one way, or by several where there are alternatives. A *way* begins at a root, a node whose rows
come from the JVM or straight from topics, and goes through `each` steps; where one of these has several outputs, it
goes on with one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from towpath.flow.nodes import AnyOf, Branch, Each, Node, Output, Source


@dataclass(frozen=True, slots=True)
class Way:
    """From a root through each steps; a name between them is the output of the one before it that is taken."""

    root: Node
    hops: tuple[Each | str, ...] = ()

    @property
    def calls(self) -> list[Each]:
        return [hop for hop in self.hops if isinstance(hop, Each)]


def ways_to(node: Node) -> list[Way]:
    """The ways by which rows come to a node, as far as they lead through Python."""
    match node:
        case AnyOf():
            return [way for above in node.inputs for way in ways_to(above)]
        case Each():
            return [Way(way.root, (*way.hops, node)) for way in ways_to(node.inputs[0])]
        case Branch(fork=Each()):
            return [Way(way.root, (*way.hops, node.output)) for way in ways_to(node.fork)]
    return [Way(node)]


def common(ways: Sequence[Way]) -> list[Each]:
    """The each steps with which all ways begin: they are called once for all outputs."""
    shared: list[Each] = []
    for hops in zip(*(way.hops for way in ways), strict=False):
        first = hops[0]
        if isinstance(first, str) or any(hop is not first for hop in hops):
            break
        shared.append(first)
    return shared


def passes_all(node: Node, outputs: Sequence[Output]) -> bool:
    """Whether nothing comes to an output that has not come by this node."""

    def avoids(at: Node) -> bool:
        if at is node:
            return False
        return isinstance(at, Source) or any(map(avoids, at.inputs))

    return not any(avoids(output.input) for output in outputs)


def template_fields(output: Output) -> list[str]:
    templates = (output.sink.target, output.sink.id, output.sink.routing)
    return [field for template in templates if template is not None for field in template.fields]
