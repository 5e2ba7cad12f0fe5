"""The graph of a stage, drawn from left to right: topics, steps, sinks. From its row, so without its code. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from towpath.actors.layout import Box, Layout, Link, lay_out
from towpath.web.console.filters import link, number, short

HEIGHT = 46.0  # of a node
LETTER, SMALL_LETTER = 8.0, 6.6  # widths; a bit more than most fonts have
PADDING = 26.0
GAP = 56.0  # between two columns
MARGIN = 12.0
MOST_LETTERS = 34

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Node:
    """A box: what it is called, what it is, and where it leads when it is pressed."""

    key: str
    name: str
    about: str
    kind: str  # source, step or sink: how it looks
    inputs: tuple[str, ...] = ()
    href: str = ""
    told: Sequence[str] = field(default_factory=tuple)  # what a pointer that rests on it is shown besides

    @property
    def width(self) -> float:
        return max(_width(short(self.name, MOST_LETTERS), LETTER), _width(self.about, SMALL_LETTER)) + PADDING


def flow_chart(title: str, topology: Mapping[str, Any], totals: Mapping[str, Any]) -> Markup:
    """A stage with what it has counted; nothing when its row does not say what it is made of."""
    nodes = nodes_of(topology, totals)
    return Markup() if not nodes else _Drawing(title, nodes).drawn()


def nodes_of(topology: Mapping[str, Any], totals: Mapping[str, Any]) -> list[Node]:
    """Sources, steps and outputs, inputs before those that use them."""
    steps: Sequence[Mapping[str, Any]] = topology.get("steps", ())
    sources = [step for step in steps if step.get("kind") == "source"]
    read = _count(totals.get("read", 0)) if len(sources) == 1 else None
    found = [_source(step, read) if step in sources else _step(step, totals) for step in steps]
    return found + [_output(output, totals) for output in topology.get("outputs", ())]


def _source(step: Mapping[str, Any], read: int | None) -> Node:
    topics = list(step.get("topics", ()))
    kind = "topic" if [step["name"]] == topics else f"topics {', '.join(topics)}"
    about = kind if read is None else f"{short(kind, MOST_LETTERS)}, {number(read)} read"
    href = f"/topics/{link(topics[0])}" if len(topics) == 1 else ""
    return Node(step["name"], step["name"], about, "source", href=href, told=_expected(step))


def _step(step: Mapping[str, Any], totals: Mapping[str, Any]) -> Node:
    filtered = _part(totals, "filtered", step["name"])
    about = step.get("kind", "step") + (f", {number(filtered)} filtered" if filtered else "")
    return Node(step["name"], step["name"], about, "step", tuple(step.get("inputs", ())), told=_expected(step))


def _output(output: Mapping[str, Any], totals: Mapping[str, Any]) -> Node:
    about = (
        f"{short(output.get('sink', ''), MOST_LETTERS)}, {number(_part(totals, 'delivered', output['name']))} delivered"
    )
    told = (str(output.get("sink", "")),)
    return Node(f"> {output['name']}", output["name"], about, "sink", (output["input"],), told=told)


def _expected(step: Mapping[str, Any]) -> list[str]:
    takes = [f"takes {step['takes']}"] if step.get("takes") else []
    return [f"expects {name}: {rule}" for name, rule in (step.get("expectations") or {}).items()] + takes


def _part(totals: Mapping[str, Any], name: str, part: str) -> int:
    found = totals.get(name, {})
    return _count(found.get(part, 0)) if isinstance(found, Mapping) else 0


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


class _Drawing:
    """Columns are the layers of the layout; what it calls a row is a column here, so that a flow reads as a line."""

    def __init__(self, title: str, nodes: Sequence[Node]) -> None:
        self._title = title
        self._nodes = {node.key: node for node in nodes}
        self._links = [
            Link(above, node.key) for node in nodes for above in dict.fromkeys(node.inputs) if above in self._nodes
        ]
        sinks = [node.key for node in nodes if node.kind == "sink"]
        half = HEIGHT / 2
        boxes = {key: Box(half, half) for key in self._nodes}
        self._layout: Layout = lay_out(nodes[0].key, boxes, self._links, sinks)
        self._columns = self._placed()
        lowest = min(self._layout.x[key] for key in self._nodes)
        self._shift = MARGIN + half - lowest

    def _placed(self) -> list[tuple[float, float]]:
        """Where each column begins, and how wide it is."""
        found, at = [], MARGIN
        for layer in range(0, max(self._layout.layer.values()) + 1, 2):
            widths = [self._nodes[key].width for key, of in self._layout.layer.items() if of == layer]
            found.append((at, max(widths, default=0.0)))
            at += found[-1][1] + GAP
        return found

    def drawn(self) -> Markup:
        begin, width = self._columns[-1]
        wide = begin + width + MARGIN
        places = [self._y(key) for key in self._nodes] + [
            place + self._shift for bends in self._layout.bends for _, place in bends
        ]
        high = max(places) + HEIGHT / 2 + MARGIN
        steps = " → ".join(node.name for node in self._nodes.values())
        return Markup('<svg class="graph" viewBox="0 0 {} {}" width="{}" height="{}" role="group">{}{}{}</svg>').format(
            _n(wide),
            _n(high),
            _n(wide),
            _n(high),
            Markup("<title>{}</title>").format(f"{self._title}: {steps}"),
            _TIP,
            Markup().join([*self._ways(), *(part for node in self._nodes.values() for part in self._node(node))]),
        )

    def _y(self, key: str) -> float:
        return self._layout.x[key] + self._shift

    def _box(self, key: str) -> tuple[float, float]:
        """Left and right edge."""
        begin, width = self._columns[self._layout.layer[key] // 2]
        own = self._nodes[key].width
        return begin + (width - own) / 2, begin + (width + own) / 2

    def _ways(self) -> Iterator[Markup]:
        for each, bends in zip(self._links, self._layout.bends, strict=True):
            points = [(self._box(each.source)[1], self._y(each.source))]
            points += [(self._between(row), place + self._shift) for row, place in bends[1:-1]]
            points.append((self._box(each.target)[0], self._y(each.target)))
            yield Markup('<path class="edge" d="{}" marker-end="url(#flow-tip)"/>').format(_curve(points))

    def _between(self, row: int) -> float:
        begin, width = self._columns[row // 2]
        return begin + width / 2 if row % 2 == 0 else begin + width + GAP / 2

    def _node(self, node: Node) -> Iterator[Markup]:
        left, right = self._box(node.key)
        y = self._y(node.key)
        said = "\n".join((node.name, *node.told))
        if node.href:
            yield Markup('<a href="{}">').format(node.href)
        yield Markup('<g><title>{}</title><rect class="node {}" x="{}" y="{}" width="{}" height="{}" rx="{}"/>').format(
            said,
            node.kind,
            _n(left),
            _n(y - HEIGHT / 2),
            _n(right - left),
            _n(HEIGHT),
            4 if node.kind == "step" else 22,
        )
        middle = _n((left + right) / 2)
        yield Markup('<text class="name" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            middle, _n(y - 3), short(node.name, MOST_LETTERS)
        )
        yield Markup('<text class="dim" x="{}" y="{}" text-anchor="middle">{}</text></g>').format(
            middle, _n(y + 14), node.about
        )
        if node.href:
            yield Markup("</a>")


_TIP = Markup(
    '<defs><marker id="flow-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="tip" d="M 0 0 L 10 5 L 0 10 z"/></marker></defs>'
)


def _curve(points: Sequence[Point]) -> str:
    path = f"M {_n(points[0][0])} {_n(points[0][1])}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = _n((x0 + x1) / 2)
        path += f" C {middle} {_n(y0)} {middle} {_n(y1)} {_n(x1)} {_n(y1)}"
    return path


def _width(text: str, letter: float) -> float:
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return (len(text) + wide) * letter


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
