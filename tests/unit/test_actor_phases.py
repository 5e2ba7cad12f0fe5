"""The table of moves of an instance and the chart that people read are the same thing."""

from __future__ import annotations

import re
from pathlib import Path

from towpath.actors.instance import AT_REST, LIVE, MOVES, Phase, PhaseMove

CHART = Path(__file__).resolve().parents[2] / "docs" / "reference" / "actor-states.md"
ARROW = re.compile(r"^\s+(\S+) --> (\S+): (.+)$", re.MULTILINE)


def test_chart_shows_exactly_the_moves() -> None:
    block = CHART.read_text(encoding="utf-8").split("```mermaid")[1].split("```")[0]
    arrows = {
        (source, label.strip(), target)
        for source, target, labels in ARROW.findall(block)
        if source != "[*]"
        for label in labels.split(" / ")
    }
    assert arrows == {(source, move.value, arrow.target) for move, arrow in MOVES.items() for source in arrow.sources}


def test_every_phase_is_told() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", CHART.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name, _ in rows] == list(Phase)


def test_every_move_has_an_arrow_and_every_phase_can_be_left() -> None:
    assert set(MOVES) == set(PhaseMove)
    assert {source for arrow in MOVES.values() for source in arrow.sources} == set(Phase)
    assert {arrow.target for arrow in MOVES.values()} == set(Phase) - {Phase.IDLE}


def test_a_phase_is_live_or_at_rest() -> None:
    assert sorted([*LIVE, *AT_REST]) == sorted(Phase)
