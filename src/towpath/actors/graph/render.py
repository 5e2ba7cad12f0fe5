"""An actor drawn as SVG, as a chart for mermaid, and as lines of text. From its shape, so without its code."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from math import copysign
from typing import Any

from towpath.actors.actor import End, Resume
from towpath.actors.graph.layout import Box, GraphLink, lay_out

STYLE = """
.towpath-actor { --ink: #1f2933; --soft: #52606d; --paper: #ffffff; --box: #f1f5f9; --line: #64748b;
  --good: #15803d; --bad: #b91c1c; --mark: #1d4ed8; background: var(--paper); }
@media (prefers-color-scheme: dark) { .towpath-actor { --ink: #e5e9f0; --soft: #b3bdca; --paper: #14181f;
  --box: #232a35; --line: #8492a6; --good: #4ade80; --bad: #f87171; --mark: #93c5fd; } }
.towpath-actor text { fill: var(--ink); font: 14px system-ui, sans-serif; }
.towpath-actor .box { fill: var(--box); stroke: var(--line); stroke-width: 1.2; }
.towpath-actor .inner { fill: none; }
.towpath-actor .good { stroke: var(--good); }
.towpath-actor .bad { stroke: var(--bad); }
.towpath-actor .move { fill: none; stroke: var(--line); stroke-width: 1.4; }
.towpath-actor .tip, .towpath-actor .dot { fill: var(--line); }
.towpath-actor .label { fill: var(--soft); font-size: 12px; stroke: var(--paper); stroke-width: 4px;
  paint-order: stroke; }
.towpath-actor .mark { fill: none; stroke: var(--mark); stroke-width: 1.6; stroke-linecap: round;
  stroke-linejoin: round; }
.towpath-actor .legend { fill: var(--soft); font-size: 12px; }
"""
# Only where a state is lit, so that other pictures stay as they are.
LIT_STYLE = """.towpath-actor { --lit: #fde68a; --edge: #b45309; }
@media (prefers-color-scheme: dark) { .towpath-actor { --lit: #78350f; --edge: #fbbf24; } }
.towpath-actor .lit { fill: var(--lit); stroke: var(--edge); stroke-width: 2.4; }
"""
# Each in a square of 12 by 12 around its middle.
MARKS: Mapping[str, str] = {
    Resume.RETRY: "M 3.4 -3.4 A 4.8 4.8 0 1 0 4.8 0.8 M 4.2 -6.2 L 3.6 -3 L 0.4 -3.6",  # an arrow that comes round
    Resume.RESTART: "M -4.5 -5 L -4.5 5 M 4.5 -4.5 L -2 0 L 4.5 4.5 Z",  # back to the bar at the beginning
    Resume.FAIL: "M -4 -4 L 4 4 M 4 -4 L -4 4",  # a cross
}
RESUMES: Mapping[str, str] = {
    Resume.RETRY: "runs again if its process dies",
    Resume.RESTART: "begins the run anew if its process dies",
    Resume.FAIL: "fails if its process dies",
}
NODE_HEIGHT = 38.0
ROW = 50.0  # from a row of states to the row of labels below it, and from there to the next states
TOP = 46.0  # to the middle of the first state
MARGIN = 20.0
LETTER, SMALL_LETTER = 8.4, 6.6  # widths; a bit more than most fonts have
MARK_ROOM = 20.0
LOOP = 26.0
PORT = 14.0  # between two moves that meet a state
LEGEND_LINE = 22.0
NARROWEST = 330.0
AT_ONCE = "at once"  # beside others that are not
Point = tuple[float, float]


def svg(name: str, about: str, shape: Mapping[str, Any], lit: str | None = None, *, has_style: bool = True) -> str:
    """A picture that stands for itself, in light and in dark; the state that an instance is in can be `lit`.

    Without its style it is for a page that has one for its classes.
    """
    return "\n".join(_Picture(name, about, shape, lit, has_style).drawn()) + "\n"


def mermaid(shape: Mapping[str, Any], lit: str | None = None) -> str:
    """The states and moves as a chart for mermaid, the state that is `lit` marked."""
    chart = ["stateDiagram-v2", f"    [*] --> {shape['first']}"]
    for source, target, label in shape["moves"]:
        chart.append(f"    {source} --> {target}" + (f": {label}" if label else ""))
    chart += [f"    {state['name']} --> [*]" for state in shape["states"] if state["is_terminal"]]
    if lit in {state["name"] for state in shape["states"]}:
        chart += ["    classDef lit fill:#fde68a,stroke:#b45309,color:#1f2933", f"    class {lit} lit"]
    return "\n".join(chart)


def lines(name: str, about: str, shape: Mapping[str, Any]) -> Iterator[str]:
    """Each state with the moves out of it."""
    yield f"{name}: {about}"
    yield ""
    for state in shape["states"]:
        yield _title(state, is_first=state["name"] == shape["first"])
        moves = [(target, label) for source, target, label in shape["moves"] if source == state["name"]]
        for number, (target, label) in enumerate(moves, 1):
            branch = "└─" if number == len(moves) else "├─"
            yield f"  {branch}{f' {label} ─' if label else '─'}▶ {target}"
    yield ""
    for resume in resumes_in(shape):
        yield f"({resume}) {RESUMES[resume]}"
    yield "Every state can also fail: when its code raises, and when the run is aborted."


def resumes_in(shape: Mapping[str, Any]) -> list[str]:
    """The policies that the states declare, each once."""
    return list(dict.fromkeys(state["resume"] for state in shape["states"] if not state["is_terminal"]))


def _title(state: Mapping[str, Any], *, is_first: bool) -> str:
    if state["is_terminal"]:
        return f"■ {state['name']}"
    about = f"  {state['about']}" if state["about"] else ""
    return f"{'▶' if is_first else '○'} {state['name']} ({state['resume']}){about}"


class _Picture:
    def __init__(self, name: str, about: str, shape: Mapping[str, Any], lit: str | None, has_style: bool) -> None:
        self._name, self._about, self._shape, self._lit, self._has_style = name, about, shape, lit, has_style
        self._states: dict[str, Mapping[str, Any]] = {state["name"]: state for state in shape["states"]}
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for source, target, label in shape["moves"]:
            if target in self._states and not self._states[source]["is_terminal"]:  # nothing comes after an end
                found[source, target].append(label)
        self._labels = {ends: _joined(labels) for ends, labels in found.items()}
        self._links = [
            GraphLink(source, target, _width(label, SMALL_LETTER))
            for (source, target), label in self._labels.items()
            if source != target
        ]
        self._boxes = {each: self._box(each) for each in self._states}
        ends = [each for each, state in self._states.items() if state["is_terminal"]]
        self._layout = lay_out(shape["first"], self._boxes, self._links, ends)
        edges = [
            (self._layout.x[each] - box.left, self._layout.x[each] + box.right) for each, box in self._boxes.items()
        ]
        for link, bends in zip(self._links, self._layout.bends, strict=True):
            edges += [(bend - link.label_width / 2, bend + link.label_width / 2) for _, bend in bends]
        self._shift = MARGIN - min(left for left, _ in edges)
        self._width = max(max(right for _, right in edges) + self._shift + MARGIN, NARROWEST)
        self._bottom = self._y(max(self._layout.layer.values())) + NODE_HEIGHT / 2

    # Measures

    def _box(self, name: str) -> Box:
        half = self._half(name)
        if (name, name) not in self._labels:
            return Box(half, half)
        return Box(half, half + LOOP + _width(self._labels[name, name], SMALL_LETTER) + 4)

    def _half(self, name: str) -> float:
        ends = max(
            sum(link.source == name for link in self._links) + sum(link.target == name for link in self._links), 1
        )
        text = _width(name, LETTER) + (0 if self._states[name]["is_terminal"] else MARK_ROOM)
        return max(text + 26, ends * PORT + 10, 64.0) / 2

    def _x(self, name: str) -> float:
        return self._layout.x[name] + self._shift

    def _y(self, row: float) -> float:
        return TOP + row * ROW

    # Parts

    def drawn(self) -> Iterator[str]:
        resumes = resumes_in(self._shape)
        height = self._bottom + MARGIN + LEGEND_LINE * len(resumes) + MARGIN / 2
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="towpath-actor" role="img" '
            f'viewBox="0 0 {self._width:.0f} {height:.0f}" width="{self._width:.0f}" height="{height:.0f}">'
        )
        yield f"<title>{_text(self._name)}</title><desc>{_text(self._about)}</desc>"
        if self._has_style:
            yield f"<style>{STYLE}{LIT_STYLE if self._lit in self._states else ''}</style>"
        yield (
            f'<defs><marker id="{self._tip}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto"><path class="tip" d="M 0 0 L 10 5 L 0 10 z"/></marker></defs>'
        )
        yield from self._entry()
        labels = list(self._moves())
        yield from (move for move, _ in labels)
        for each in self._states:
            yield from self._state(each)
        yield from (label for _, label in labels if label)
        for number, resume in enumerate(resumes):
            y = self._bottom + MARGIN + LEGEND_LINE * (number + 0.5)
            yield _mark(resume, MARGIN + 6, y)
            yield f'<text class="legend" x="{MARGIN + 20:.0f}" y="{y + 4:.0f}">{_text(RESUMES[resume])}</text>'
        yield "</svg>"

    @property
    def _tip(self) -> str:
        return _text(f"tip-{self._name}")

    def _entry(self) -> Iterator[str]:
        first = self._shape["first"]
        x, y = self._x(first) - self._half(first) + 14, self._y(self._layout.layer[first]) - NODE_HEIGHT / 2
        yield f'<circle class="dot" cx="{x:.1f}" cy="{y - 18:.1f}" r="4"/>'
        yield self._path([(x, y - 16), (x, y - 1)])

    def _state(self, name: str) -> Iterator[str]:
        state, half = self._states[name], self._half(name)
        x, y = self._x(name), self._y(self._layout.layer[name])
        kind = "" if not state["is_terminal"] else " good" if name == End.__name__ else " bad"
        lit = " lit" if name == self._lit else ""
        yield f"<g><title>{_text(self._told(state))}</title>"
        yield _rectangle(f"box{kind}{lit}", x - half, y - NODE_HEIGHT / 2, 2 * half, NODE_HEIGHT)
        if state["is_terminal"]:
            yield _rectangle(f"box inner{kind}", x - half + 4, y - NODE_HEIGHT / 2 + 4, 2 * half - 8, NODE_HEIGHT - 8)
        else:
            yield _mark(state["resume"], x + half - 15, y)
        middle = x if state["is_terminal"] else x - MARK_ROOM / 2
        yield f'<text x="{middle:.1f}" y="{y + 5:.1f}" text-anchor="middle">{_text(name)}</text></g>'

    def _told(self, state: Mapping[str, Any]) -> str:
        """What a pointer that rests on it is shown."""
        about = f"{state['name']}: {state['about']}" if state["about"] else state["name"]
        return about if state["is_terminal"] else f"{about}\n{RESUMES[state['resume']]}"

    def _moves(self) -> Iterator[tuple[str, str]]:
        """Each arrow with its label, which is drawn later, so that nothing runs across it."""
        ports = self._ports()
        for number, (link, bends) in enumerate(zip(self._links, self._layout.bends, strict=True)):
            leads_down = self._layout.layer[link.source] < self._layout.layer[link.target]
            upper, lower = (link.source, link.target) if leads_down else (link.target, link.source)
            points = [
                (ports[number, upper], self._y(self._layout.layer[upper]) + NODE_HEIGHT / 2),
                *((x + self._shift, self._y(row)) for row, x in bends),
                (ports[number, lower], self._y(self._layout.layer[lower]) - NODE_HEIGHT / 2),
            ]
            label = _label(self._labels[link.source, link.target], *points[1], "middle")
            yield self._path(points if leads_down else points[::-1]), label
        for (source, target), text in self._labels.items():
            if source == target:
                x, y = self._x(source) + self._half(source), self._y(self._layout.layer[source])
                turn = f"{x + LOOP:.1f} {y - 16:.1f} {x + LOOP:.1f} {y + 16:.1f}"
                around = f"M {x:.1f} {y - 9:.1f} C {turn} {x + 2:.1f} {y + 9:.1f}"
                yield self._arrow(around), _label(text, x + LOOP, y, "start")

    def _ports(self) -> dict[tuple[int, str], float]:
        """Where each move meets its states: side by side, in the order of where they come from."""
        sides: dict[tuple[str, bool], list[tuple[float, int]]] = defaultdict(list)
        for number, (link, bends) in enumerate(zip(self._links, self._layout.bends, strict=True)):
            leads_down = self._layout.layer[link.source] < self._layout.layer[link.target]
            upper, lower = (link.source, link.target) if leads_down else (link.target, link.source)
            sides[upper, True].append((bends[0][1], number))
            sides[lower, False].append((bends[-1][1], number))
        ports = {}
        for (name, _), met in sides.items():
            for place, (_, number) in enumerate(sorted(met)):
                ports[number, name] = self._x(name) + (place - (len(met) - 1) / 2) * PORT
        return ports

    def _path(self, points: Sequence[Point]) -> str:
        """A smooth line through all points, which leaves and arrives upright."""
        (_, top), (_, bottom) = points[0], points[-1]
        upright = (0.0, (bottom - top) / (len(points) - 1))
        bends = [_slope(*three) for three in zip(points, points[1:], points[2:], strict=False)]
        path = [f"M {points[0][0]:.1f} {points[0][1]:.1f}"]
        for ((x0, y0), (dx0, dy0)), ((x1, y1), (dx1, dy1)) in pairwise(
            zip(points, (upright, *bends, upright), strict=True)
        ):
            out, to = f"{x0 + dx0 / 3:.1f} {y0 + dy0 / 3:.1f}", f"{x1 - dx1 / 3:.1f} {y1 - dy1 / 3:.1f}"
            path.append(f"C {out} {to} {x1:.1f} {y1:.1f}")
        return self._arrow(" ".join(path))

    def _arrow(self, path: str) -> str:
        return f'<path class="move" d="{path}" marker-end="url(#{self._tip})"/>'


def _slope(before: Point, at: Point, after: Point) -> Point:
    """How a line goes through a point: never so steep that it swings out beyond its points, and out of the picture."""
    to, on = at[0] - before[0], after[0] - at[0]
    x = 0.0 if to * on <= 0 else copysign(min(abs(to + on) / 2, 3 * abs(to), 3 * abs(on)), to)
    return x, (after[1] - before[1]) / 2


def _joined(labels: Sequence[str]) -> str:
    """The label of an arrow that stands for several moves."""
    return ", ".join(dict.fromkeys(label or AT_ONCE for label in labels)) if any(labels) else ""


def _width(text: str, letter: float) -> float:
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return (len(text) + wide) * letter


def _text(text: str) -> str:
    """For a place in XML, where control characters may not stand at all."""
    return escape("".join(each for each in text if each >= " " or each in "\n\t"))


def _rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="8"/>'


def _label(text: str, x: float, y: float, anchor: str) -> str:
    if not text:
        return ""
    return f'<text class="label" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{_text(text)}</text>'


def _mark(resume: str, x: float, y: float) -> str:
    return f'<path class="mark" transform="translate({x:.1f} {y:.1f})" d="{MARKS[resume]}"/>'
