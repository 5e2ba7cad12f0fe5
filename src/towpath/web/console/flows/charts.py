"""A stage as charts: its last hours, its graph of topics, steps and sinks, and its state machine. Pure.

The graph is drawn from left to right from the row of the stage, so without its code.

The state machine has the state that it is in lit. The moves are those of `MOVES`. Two states that lead to each other
are joined by one line with two tips. Any state may come to rest, which would be thirty arrows: there is one, from the
frame around all that work to the frame of rest.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from towpath.actors.graph.layout import Box, GraphLayout, GraphLink, lay_out
from towpath.flow.failures import MEANINGS, ErrorCode
from towpath.flow.stage import MOVES, RESTING, StageState
from towpath.flow.stage.history import EVERY_S, BatchHistory, LagPoint
from towpath.web.console.layout.charts import Bar, Point, TimeSpan, bar_chart, line_chart, px, series_class
from towpath.web.console.layout.filters import link, number, short

HOUR = timedelta(hours=1)
# What a chart shows: so many hours, in stretches of a width.
WINDOWS: Mapping[str, tuple[timedelta, timedelta]] = {
    "1": (HOUR, timedelta(minutes=1)),
    "6": (6 * HOUR, timedelta(minutes=5)),
    "24": (24 * HOUR, timedelta(minutes=20)),
}
SHORTEST_S = 5.0  # of the stretch that is not over yet: before that a rate would jump
BROKEN_S = 3 * EVERY_S  # two points of a line that are further apart are not joined: nobody looked

NODE_HEIGHT = 46.0  # of the graph
LETTER, SMALL_LETTER = 8.0, 6.6  # widths; a bit more than most fonts have
PADDING = 26.0
GAP = 56.0  # between two columns
MARGIN = 12.0
MOST_LETTERS = 34

MACHINE_WIDTH, MACHINE_HEIGHT = 840, 438
STATE_WIDTH, STATE_HEIGHT = 112, 38
RETRY_WIDTH = 740
ARC = 34  # how high the way back from `errors` to `extract` rises

_S = StageState
# The middle of each state. `retry` is a long box below all states that come to it.
PLACES: Mapping[StageState, tuple[int, int]] = {
    _S.CONFIGURE: (100, 84),
    _S.EXTRACT: (260, 84),
    _S.TRANSFORM: (420, 84),
    _S.LOAD: (580, 84),
    _S.ERRORS: (740, 84),
    _S.RESET: (180, 172),
    _S.HELD: (500, 172),
    _S.RETRY: (420, 260),
    _S.PAUSED: (260, 384),
    _S.STOPPED: (420, 384),
    _S.HALTED: (580, 384),
}

STATE_MEANINGS: Mapping[StageState, str] = {
    _S.CONFIGURE: "checks settings, topics, sinks and checkpoint",
    _S.EXTRACT: "waits for records, and fixes what the next batch reads",
    _S.TRANSFORM: "runs the steps and decides what failed",
    _S.LOAD: "writes every output",
    _S.ERRORS: "sends what failed to the error topic, then commits",
    _S.RETRY: "something failed; waits, then tries the same again",
    _S.HELD: "an outage; probes with one record, goes on by itself when that passes",
    _S.RESET: "moves its positions, because what it wanted to read is gone",
    _S.PAUSED: "rests until a person says resume",
    _S.STOPPED: "has ended in an orderly way; nobody runs it",
    _S.HALTED: "cannot go on without a person; the reason says why",
}

_FLOW_TIP = Markup(
    '<defs><marker id="flow-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="tip" d="M 0 0 L 10 5 L 0 10 z"/></marker></defs>'
)
_MACHINE_TIP = Markup(
    '<defs><marker id="pilot-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
    'markerUnits="userSpaceOnUse" '
    'orient="auto-start-reverse"><path class="tip" d="M 0 0 L 10 5 L 0 10 z"/></marker></defs>'
)


def rate_chart(past: BatchHistory, span: TimeSpan) -> Markup:
    """Records a second, by stretch; where no batch was committed, nothing was read."""
    return line_chart("Records a second", list(_rates(past, span)), span, unit="/s")


def lag_chart(points: Sequence[LagPoint], now: datetime, lag: int | None) -> Markup:
    """Over the last hour, with the lag at this moment, if it is known."""
    span = TimeSpan(now - HOUR, now)
    return line_chart("Records behind", list(_lags(points, span, lag)), span)


def error_chart(past: BatchHistory, span: TimeSpan) -> Markup:
    """Failures by code."""
    bars = [Bar(each.at, {code: float(count) for code, count in each.failed.items()}) for each in past.stretches]
    return bar_chart("Failed records", bars, span, past.width, past.codes)


@dataclass(frozen=True, slots=True)
class CodeCount:
    """How often an error code was met; `look` is its colour in the chart."""

    code: str
    meaning: str
    count: int
    total: int
    look: str


def code_counts(past: BatchHistory, totals: Mapping[str, Any]) -> list[CodeCount]:
    """Every code that a stage has met, with the colours that they have in the chart."""
    ever = totals.get("failed", {})
    ever = ever if isinstance(ever, Mapping) else {}
    codes = [*past.codes, *sorted((code for code in ever if code not in past.codes), key=int)]
    return [
        CodeCount(
            code,
            meaning_of(code),
            sum(each.failed.get(code, 0) for each in past.stretches),
            int(ever.get(code, 0)),
            series_class(number) if code in past.codes else "",
        )
        for number, code in enumerate(codes)
    ]


def meaning_of(code: str | int) -> str:
    """In words; of a code that another version knows, nothing."""
    try:
        return MEANINGS[ErrorCode(int(code))]
    except (KeyError, ValueError):
        return ""


def flow_chart(title: str, topology: Mapping[str, Any], totals: Mapping[str, Any]) -> Markup:
    """A stage with what it has counted; nothing when its row does not say what it is made of."""
    nodes = nodes_of(topology, totals)
    return Markup() if not nodes else _Drawing(title, nodes).drawn()


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


def nodes_of(topology: Mapping[str, Any], totals: Mapping[str, Any]) -> list[Node]:
    """Sources, steps and outputs, inputs before those that use them."""
    steps: Sequence[Mapping[str, Any]] = topology.get("steps", ())
    sources = [step for step in steps if step.get("kind") == "source"]
    read = _count(totals.get("read", 0)) if len(sources) == 1 else None
    found = [_source(step, read) if step in sources else _step(step, totals) for step in steps]
    return found + [_output(output, totals) for output in topology.get("outputs", ())]


def machine_chart(state: StageState, came_from: StageState | None = None) -> Markup:
    """The machine with `state` lit, and the line by which it came there marked, if it is known."""
    said = f"The pilot is in {state}: {STATE_MEANINGS[state]}. From there it can go to {_listed(MOVES[state])}."
    return Markup(
        '<svg class="machine" role="img" viewBox="0 0 {} {}" width="{}" height="{}"><title>{}</title>{}{}</svg>'
    ).format(
        MACHINE_WIDTH,
        MACHINE_HEIGHT,
        MACHINE_WIDTH,
        MACHINE_HEIGHT,
        said,
        _MACHINE_TIP,
        Markup().join(_parts(state, came_from)),
    )


@dataclass(frozen=True, slots=True)
class Joint:
    """A line between two states; `is_both`: each leads to the other."""

    source: StageState
    target: StageState
    is_both: bool


def joints() -> list[Joint]:
    """All lines between states at work, each pair once."""
    found: list[Joint] = []
    for source, targets in MOVES.items():
        for target in (each for each in StageState if each in targets):
            is_known = any((joint.source, joint.target) == (target, source) for joint in found)
            if source not in RESTING and target not in RESTING and not is_known:
                found.append(Joint(source, target, source in MOVES[target]))
    return found


def _rates(past: BatchHistory, span: TimeSpan) -> Iterator[Point]:
    read = {each.at: each.read for each in past.stretches}
    width_s = past.width.total_seconds()
    at = _whole(max(span.since, past.since), past.width)
    while at < span.until:
        lasted_s = min(width_s, (span.until - at).total_seconds())
        yield Point(min(at + past.width / 2, span.until), read.get(at, 0) / max(lasted_s, SHORTEST_S))
        at += past.width


def _lags(points: Sequence[LagPoint], span: TimeSpan, lag: int | None) -> Iterator[Point]:
    before: datetime | None = None
    for each in points:
        at = datetime.fromtimestamp(each.at, UTC)
        if at < span.since:
            continue
        if before is not None and (at - before).total_seconds() > BROKEN_S:
            yield Point(before, None)
        yield Point(at, float(each.lag))
        before = at
    if before is not None and (span.until - before).total_seconds() > BROKEN_S:
        yield Point(before, None)
    if lag is not None:
        yield Point(span.until, float(lag))


def _whole(at: datetime, width: timedelta) -> datetime:
    """The beginning of the stretch in which a time lies."""
    seconds = width.total_seconds()
    return datetime.fromtimestamp(at.timestamp() // seconds * seconds, UTC)


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
            GraphLink(above, node.key) for node in nodes for above in dict.fromkeys(node.inputs) if above in self._nodes
        ]
        sinks = [node.key for node in nodes if node.kind == "sink"]
        half = NODE_HEIGHT / 2
        boxes = {key: Box(half, half) for key in self._nodes}
        self._layout: GraphLayout = lay_out(nodes[0].key, boxes, self._links, sinks)
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
        high = max(places) + NODE_HEIGHT / 2 + MARGIN
        steps = " → ".join(node.name for node in self._nodes.values())
        return Markup('<svg class="graph" viewBox="0 0 {} {}" width="{}" height="{}" role="group">{}{}{}</svg>').format(
            px(wide),
            px(high),
            px(wide),
            px(high),
            Markup("<title>{}</title>").format(f"{self._title}: {steps}"),
            _FLOW_TIP,
            Markup().join([*self._edges(), *(part for node in self._nodes.values() for part in self._node(node))]),
        )

    def _y(self, key: str) -> float:
        return self._layout.x[key] + self._shift

    def _box(self, key: str) -> tuple[float, float]:
        """Left and right edge."""
        begin, width = self._columns[self._layout.layer[key] // 2]
        own = self._nodes[key].width
        return begin + (width - own) / 2, begin + (width + own) / 2

    def _edges(self) -> Iterator[Markup]:
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
            px(left),
            px(y - NODE_HEIGHT / 2),
            px(right - left),
            px(NODE_HEIGHT),
            4 if node.kind == "step" else 22,
        )
        middle = px((left + right) / 2)
        yield Markup('<text class="name" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            middle, px(y - 3), short(node.name, MOST_LETTERS)
        )
        yield Markup('<text class="dim" x="{}" y="{}" text-anchor="middle">{}</text></g>').format(
            middle, px(y + 14), node.about
        )
        if node.href:
            yield Markup("</a>")


def _curve(points: Sequence[tuple[float, float]]) -> str:
    path = f"M {px(points[0][0])} {px(points[0][1])}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = px((x0 + x1) / 2)
        path += f" C {middle} {px(y0)} {middle} {px(y1)} {px(x1)} {px(y1)}"
    return path


def _width(text: str, letter: float) -> float:
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return (len(text) + wide) * letter


def _parts(state: StageState, came_from: StageState | None) -> Iterator[Markup]:
    yield _frame(14, 14, 812, 292, "at work")
    yield _frame(174, 338, 492, 84, "at rest")
    yield _line("M 420 306 V 337")
    yield _label(430, 326, "from any state: by a person, at the end, or when it cannot go on")
    yield _line(f"M 174 384 H 30 V {PLACES[_S.CONFIGURE][1]} H {PLACES[_S.CONFIGURE][0] - STATE_WIDTH // 2}")
    yield _label(40, 376, "resumed or started")
    for joint in joints():
        is_lit = {joint.source, joint.target} == {state, came_from}
        yield _line(_path(joint), is_both=joint.is_both, is_lit=is_lit)
    yield _label(500, PLACES[_S.EXTRACT][1] - ARC - 21, "committed, next batch", anchor="middle")
    for each in StageState:
        yield from _node(each, is_lit=each is state)


def _frame(x: int, y: int, width: int, height: int, name: str) -> Markup:
    return Markup(
        '<rect class="pen" x="{}" y="{}" width="{}" height="{}" rx="12"/><text class="dim" x="{}" y="{}">{}</text>'
    ).format(x, y, width, height, x + 12, y + 18, name)


def _node(state: StageState, *, is_lit: bool) -> Iterator[Markup]:
    x, y = PLACES[state]
    width = RETRY_WIDTH if state is _S.RETRY else STATE_WIDTH
    tone = "bad" if state is _S.HALTED else "wait" if state in (_S.RETRY, _S.HELD, _S.PAUSED, _S.RESET) else "good"
    lit = f" lit {tone}" if is_lit else ""
    yield Markup('<g class="state{}"><title>{}</title>').format(lit, f"{state}: {STATE_MEANINGS[state]}")
    yield Markup('<rect class="node{}" x="{}" y="{}" width="{}" height="{}" rx="9"/>').format(
        lit, x - width // 2, y - STATE_HEIGHT // 2, width, STATE_HEIGHT
    )
    name = f"● {state}" if is_lit else str(state)
    yield Markup('<text{} x="{}" y="{}" text-anchor="middle">{}</text></g>').format(
        Markup(' class="lit"') if is_lit else "", x, y + 5, name
    )


def _path(joint: Joint) -> str:
    """Straight from edge to edge; to `retry` straight down, and from `errors` back to `extract` above the others."""
    (x0, y0), (x1, y1) = PLACES[joint.source], PLACES[joint.target]
    half, side = STATE_HEIGHT // 2, STATE_WIDTH // 2
    if _S.RETRY in (joint.source, joint.target):
        x, top = (x0, y0) if joint.target is _S.RETRY else (x1, y1)
        down, up = top + half, PLACES[_S.RETRY][1] - half
        return f"M {x} {down} V {up}" if joint.target is _S.RETRY else f"M {x} {up} V {down}"
    if (joint.source, joint.target) == (_S.ERRORS, _S.EXTRACT):
        return f"M {x0} {y0 - half} C {x0} {y0 - half - ARC} {x1} {y1 - half - ARC} {x1} {y1 - half}"
    if y0 == y1:
        return f"M {x0 + side} {y0} H {x1 - side}"
    inward = 20 if x1 > x0 else -20
    return f"M {x0 + inward} {y0 + half} L {x1 - inward} {y1 - half}"


def _line(path: str, *, is_both: bool = False, is_lit: bool = False) -> Markup:
    begin = Markup(' marker-start="url(#pilot-tip)"') if is_both else ""
    lit = " lit" if is_lit else ""
    return Markup('<path class="edge{}" d="{}" marker-end="url(#pilot-tip)"{}/>').format(lit, path, begin)


def _label(x: int, y: int, text: str, anchor: str = "start") -> Markup:
    return Markup('<text class="dim" x="{}" y="{}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _listed(states: frozenset[StageState]) -> str:
    return ", ".join(each for each in StageState if each in states)
