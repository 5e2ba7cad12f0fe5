"""The state machine of a stage, drawn, with the state that it is in lit. Pure.

The moves are those of `MOVES`. Two states that lead to each other are joined by one line with two tips. Any state may
come to rest, which would be thirty arrows: there is one, from the frame around all that work to the frame of rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from towpath.flow.pilot import MOVES, RESTING, PilotState

WIDTH, HEIGHT = 840, 438
NODE_WIDTH, NODE_HEIGHT = 112, 38
RETRY_WIDTH = 740
ARC = 34  # how high the way back from `errors` to `extract` rises

_P = PilotState

# The middle of each state. `retry` is a long box below all states that come to it.
PLACES: Mapping[PilotState, tuple[int, int]] = {
    _P.CONFIGURE: (100, 84),
    _P.EXTRACT: (260, 84),
    _P.TRANSFORM: (420, 84),
    _P.LOAD: (580, 84),
    _P.ERRORS: (740, 84),
    _P.RESET: (180, 172),
    _P.HELD: (500, 172),
    _P.RETRY: (420, 260),
    _P.PAUSED: (260, 384),
    _P.STOPPED: (420, 384),
    _P.HALTED: (580, 384),
}

MEANINGS: Mapping[PilotState, str] = {
    _P.CONFIGURE: "checks settings, topics, sinks and checkpoint",
    _P.EXTRACT: "waits for records, and fixes what the next batch reads",
    _P.TRANSFORM: "runs the steps and decides what failed",
    _P.LOAD: "writes every output",
    _P.ERRORS: "sends what failed to the error topic, then commits",
    _P.RETRY: "something failed; waits, then tries the same again",
    _P.HELD: "an outage; probes with one record, goes on by itself when that passes",
    _P.RESET: "moves its positions, because what it wanted to read is gone",
    _P.PAUSED: "rests until a person says resume",
    _P.STOPPED: "has ended in an orderly way; nobody runs it",
    _P.HALTED: "cannot go on without a person; the reason says why",
}


@dataclass(frozen=True, slots=True)
class Joint:
    """A line between two states; `is_both`: each leads to the other."""

    source: PilotState
    target: PilotState
    is_both: bool


def joints() -> list[Joint]:
    """All lines between states at work, each pair once."""
    found: list[Joint] = []
    for source, targets in MOVES.items():
        for target in (each for each in PilotState if each in targets):
            is_known = any((joint.source, joint.target) == (target, source) for joint in found)
            if source not in RESTING and target not in RESTING and not is_known:
                found.append(Joint(source, target, source in MOVES[target]))
    return found


def pilot_chart(state: PilotState, came_from: PilotState | None = None) -> Markup:
    """The machine with `state` lit, and the line by which it came there marked, if it is known."""
    said = f"The pilot is in {state}: {MEANINGS[state]}. From there it can go to {_listed(MOVES[state])}."
    return Markup(
        '<svg class="machine" role="img" viewBox="0 0 {} {}" width="{}" height="{}"><title>{}</title>{}{}</svg>'
    ).format(WIDTH, HEIGHT, WIDTH, HEIGHT, said, _TIP, Markup().join(_parts(state, came_from)))


_TIP = Markup(
    '<defs><marker id="pilot-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
    'markerUnits="userSpaceOnUse" '
    'orient="auto-start-reverse"><path class="tip" d="M 0 0 L 10 5 L 0 10 z"/></marker></defs>'
)


def _parts(state: PilotState, came_from: PilotState | None) -> Iterator[Markup]:
    yield _frame(14, 14, 812, 292, "at work")
    yield _frame(174, 338, 492, 84, "at rest")
    yield _line("M 420 306 V 337")
    yield _label(430, 326, "from any state: by a person, at the end, or when it cannot go on")
    yield _line(f"M 174 384 H 30 V {PLACES[_P.CONFIGURE][1]} H {PLACES[_P.CONFIGURE][0] - NODE_WIDTH // 2}")
    yield _label(40, 376, "resumed or started")
    for joint in joints():
        is_lit = {joint.source, joint.target} == {state, came_from}
        yield _line(_way(joint), is_both=joint.is_both, is_lit=is_lit)
    yield _label(500, PLACES[_P.EXTRACT][1] - ARC - 21, "committed, next batch", anchor="middle")
    for each in PilotState:
        yield from _node(each, is_lit=each is state)


def _frame(x: int, y: int, width: int, height: int, name: str) -> Markup:
    return Markup(
        '<rect class="pen" x="{}" y="{}" width="{}" height="{}" rx="12"/><text class="dim" x="{}" y="{}">{}</text>'
    ).format(x, y, width, height, x + 12, y + 18, name)


def _node(state: PilotState, *, is_lit: bool) -> Iterator[Markup]:
    x, y = PLACES[state]
    width = RETRY_WIDTH if state is _P.RETRY else NODE_WIDTH
    tone = "bad" if state is _P.HALTED else "wait" if state in (_P.RETRY, _P.HELD, _P.PAUSED, _P.RESET) else "good"
    lit = f" lit {tone}" if is_lit else ""
    yield Markup('<g class="state{}"><title>{}</title>').format(lit, f"{state}: {MEANINGS[state]}")
    yield Markup('<rect class="node{}" x="{}" y="{}" width="{}" height="{}" rx="9"/>').format(
        lit, x - width // 2, y - NODE_HEIGHT // 2, width, NODE_HEIGHT
    )
    name = f"● {state}" if is_lit else str(state)
    yield Markup('<text{} x="{}" y="{}" text-anchor="middle">{}</text></g>').format(
        Markup(' class="lit"') if is_lit else "", x, y + 5, name
    )


def _way(joint: Joint) -> str:
    """Straight from edge to edge; to `retry` straight down, and from `errors` back to `extract` above the others."""
    (x0, y0), (x1, y1) = PLACES[joint.source], PLACES[joint.target]
    half, side = NODE_HEIGHT // 2, NODE_WIDTH // 2
    if _P.RETRY in (joint.source, joint.target):
        x, top = (x0, y0) if joint.target is _P.RETRY else (x1, y1)
        down, up = top + half, PLACES[_P.RETRY][1] - half
        return f"M {x} {down} V {up}" if joint.target is _P.RETRY else f"M {x} {up} V {down}"
    if (joint.source, joint.target) == (_P.ERRORS, _P.EXTRACT):
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


def _listed(states: frozenset[PilotState]) -> str:
    return ", ".join(each for each in PilotState if each in states)
