"""Actors drawn: as text, for mermaid, and as an SVG in which everything has its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.actors import Asker, Counter

from towpath.actors.definition import define
from towpath.actors.graph.layout import Box, GraphLink, lay_out
from towpath.actors.graph.render import lines, mermaid, svg
from towpath.actors.graph.shape import shape_of

SVG = "{http://www.w3.org/2000/svg}"
ASKER = shape_of(define(Asker))


def test_as_text() -> None:
    drawn = list(lines("asker", "Asks.", ASKER))
    assert drawn[:13] == [
        "asker: Asks.",
        "",
        "▶ Ask (fail)",
        "  ├─ answered ─▶ Heard",
        "  └─ timed out ─▶ Nothing",
        "○ Heard (retry)",
        "  ├──▶ End",
        "  └──▶ Failed",
        "○ Nothing (fail)  Nobody has answered.",
        "  └──▶ End",
        "■ End",
        "■ Failed",
        "",
    ]
    assert [line.split()[0] for line in drawn[13:15]] == ["(fail)", "(retry)"]


def test_for_mermaid() -> None:
    assert mermaid(ASKER).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> Ask",
        "    Ask --> Heard: answered",
        "    Ask --> Nothing: timed out",
        "    Heard --> End",
        "    Heard --> Failed",
        "    Nothing --> End",
        "    End --> [*]",
        "    Failed --> [*]",
    ]


# SVG


class Drawn:
    """An SVG, read back."""

    def __init__(self, text: str) -> None:
        self.root = ET.fromstring(text)  # noqa: S314 - our own
        _, _, self.width, self.height = map(float, self.root.attrib["viewBox"].split())
        self.states = {self._name(group): self._box(group) for group in self.root.iter(f"{SVG}g")}
        self.paths = [each.attrib["d"] for each in self.all("path", "move")]
        self.labels = [each.text or "" for each in self.all("text", "label")]

    def all(self, tag: str, kind: str) -> list[ET.Element]:
        return [each for each in self.root.iter(f"{SVG}{tag}") if kind in each.attrib.get("class", "").split()]

    @staticmethod
    def _name(group: ET.Element) -> str:
        return group.find(f"{SVG}text").text or ""  # type: ignore[union-attr]

    @staticmethod
    def _box(group: ET.Element) -> tuple[float, float, float, float]:
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        x, y, width, height = (float(rect.attrib[each]) for each in ("x", "y", "width", "height"))
        return x, y, x + width, y + height

    def tips(self) -> list[tuple[float, float]]:
        return [(float(x), float(y)) for x, y in (path.split()[-2:] for path in self.paths)]


def state(name: str, *, resume: str = "retry", is_terminal: bool = False) -> dict[str, Any]:
    return {"name": name, "about": f"{name} <&>", "resume": resume, "is_terminal": is_terminal, "template": {}}


def shape(names: Sequence[str], moves: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    ends = [state("End", is_terminal=True), state("Failed", is_terminal=True)]
    states = [state(name, resume=("retry", "restart", "fail")[n % 3]) for n, name in enumerate(names)]
    return {"first": names[0], "states": [*states, *ends], "moves": [list(move) for move in moves]}


def test_states_and_moves() -> None:
    drawn = Drawn(svg("asker", "Asks.", ASKER))
    assert list(drawn.states) == ["Ask", "Heard", "Nothing", "End", "Failed"]
    assert len(drawn.paths) == 1 + 5, "the entry, and each move"
    assert sorted(drawn.labels) == ["answered", "timed out"]
    assert len(drawn.all("text", "legend")) == 2
    assert len(drawn.all("path", "mark")) == 3 + 2, "of each state that runs, and of each line of the legend"
    assert [len(drawn.all("rect", kind)) for kind in ("good", "bad")] == [2, 2], "ends have a double line"
    tops = {name: box[1] for name, box in drawn.states.items()}
    assert tops["Ask"] < tops["Heard"] == tops["Nothing"] < tops["End"] == tops["Failed"]
    assert "prefers-color-scheme: dark" in (drawn.root.find(f"{SVG}style").text or "")  # type: ignore[union-attr]


def test_a_state_that_follows_itself() -> None:
    drawn = Drawn(svg("counter", "Counts.", shape_of(define(Counter))))
    assert len(drawn.paths) == 1 + 2


def test_two_moves_between_the_same_states_are_one_arrow() -> None:
    twice = [("A", "B", "answered"), ("A", "B", "timed out"), ("A", "B", ""), ("A", "A", "after a sleep")]
    drawn = Drawn(svg("x", "X.", shape(["A", "B"], twice)))
    assert sorted(drawn.labels) == ["after a sleep", "answered, timed out, at once"]


def test_what_comes_after_an_end_is_not_drawn() -> None:
    drawn = Drawn(svg("x", "X.", shape(["A"], [("End", "A", ""), ("Failed", "A", ""), ("A", "End", "")])))
    assert len(drawn.paths) == 1 + 1


def test_names_are_only_text() -> None:
    text = svg('<script>alert("x")</script>', "a & b\x00\x1b", shape(["<b>&\"'"], []))
    assert "<script>" not in text
    drawn = Drawn(text)
    assert drawn.root.find(f"{SVG}title").text == '<script>alert("x")</script>'  # type: ignore[union-attr]
    assert next(iter(drawn.states)) == "<b>&\"'"


NAMES = [f"{letter}tate{letter}" for letter in "ABCDEFGH"]
MOVES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 9), st.sampled_from(["", "answered", "timed out", "after a sleep"])),
    max_size=24,
)


@given(count=st.integers(1, 8), moves=MOVES)
@example(4, [(0, 2, ""), (0, 3, ""), (1, 1, "answered"), (0, 1, ""), (0, 4, ""), (1, 2, ""), (1, 5, "")])
def test_everything_has_its_place(count: int, moves: list[tuple[int, int, str]]) -> None:
    """Whatever leads where, also in circles: no state lies on another, and arrows end at the states they lead to."""
    names = NAMES[:count]
    targets = [*names, "End", "Failed"]
    named = [(names[a % count], targets[b % len(targets)], label) for a, b, label in moves]
    drawn = Drawn(svg("x", "X.", shape(names, named)))
    boxes = drawn.states
    for one, other in combinations(boxes.values(), 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    for left, top, right, bottom in boxes.values():
        assert 0 <= left < right <= drawn.width
        assert 0 <= top < bottom <= drawn.height
    arrows = {(a, b) for a, b, _ in named}
    assert len(drawn.paths) == 1 + len(arrows)
    ended = sorted(name for x, y in drawn.tips()[1:] for name, box in boxes.items() if _touches(box, x, y))
    assert ended == sorted(b for _, b in arrows)
    for path in drawn.paths:
        numbers = [float(each) for each in re.findall(r"-?[0-9.]+", path)]
        assert all(0 <= x <= drawn.width for x in numbers[::2])
        assert all(0 <= y <= drawn.height for y in numbers[1::2])


def _touches(box: tuple[float, float, float, float], x: float, y: float) -> bool:
    left, top, right, bottom = box
    return left - 1 <= x <= right + 3 and top - 1 <= y <= bottom + 1


def test_lines_do_not_cross_without_need() -> None:
    boxes = {name: Box(20, 20) for name in "abcdef"}
    links = [GraphLink("a", "b"), GraphLink("a", "c"), GraphLink("b", "f"), GraphLink("c", "e"), GraphLink("b", "d")]
    x = lay_out("a", boxes, links, ["d", "e", "f"]).x
    assert (x["b"] < x["c"]) == (x["f"] < x["e"])
    assert (x["b"] < x["c"]) == (x["d"] < x["e"])
