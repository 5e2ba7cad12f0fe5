"""A flow as a chart for mermaid: topics, steps and sinks. From the shapes of its stages, so without its code. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Shape = Mapping[str, Any]

# How each kind of node looks; a step where the kind is another one.
_LOOKS = {
    "source": "[/{}/]",
    "each": "([{}])",
    "fork": "{{{{{}}}}}",
    "branch": "{{{{{}}}}}",
    "anyof": "{{{{{}}}}}",
}


def mermaid(shapes: Sequence[Shape]) -> str:
    """All stages in one chart. A shape is what `shape_of` gives, and what the row of a stage keeps."""
    lines = ["flowchart LR"]
    for number, shape in enumerate(shapes):
        lines += _stage(f"s{number}", shape)
    return "\n".join(lines)


def _stage(prefix: str, shape: Shape) -> Iterator[str]:
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
