"""What stands before the outputs of a stage. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.flow.nodes import Each, Node, Output


def root_of(output: Output) -> Node:
    """The node at which the last segment before an output begins: each steps belong to the segment."""
    node = output.input
    while isinstance(node, Each):
        node = node.inputs[0]
    return node


def chain_of(output: Output) -> list[Each]:
    """The each steps before an output, first to last."""
    chain: list[Each] = []
    node = output.input
    while isinstance(node, Each):
        chain.insert(0, node)
        node = node.inputs[0]
    return chain


def common(chains: Sequence[Sequence[Each]]) -> list[Each]:
    """The each steps with which all chains begin: they are called once for all outputs."""
    shared = []
    for steps in zip(*chains, strict=False):
        if any(step is not steps[0] for step in steps):
            break
        shared.append(steps[0])
    return shared


def template_fields(output: Output) -> list[str]:
    templates = (output.sink.target, output.sink.id, output.sink.routing)
    return [field for template in templates if template is not None for field in template.fields]
