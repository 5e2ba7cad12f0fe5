"""The table of a peer's moves and the chart that people read are the same thing."""

from __future__ import annotations

import re
from pathlib import Path

from towpath.supervision.election.election import MOVES, PeerRole, RoleMove

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "supervision-states.md"
ARROW = re.compile(r"^\s+(\S+) --> (\S+): (.+)$", re.MULTILINE)


def section() -> str:
    return PAGE.read_text(encoding="utf-8").split("## Roles of a peer")[1]


def test_chart_shows_exactly_the_moves() -> None:
    chart = section().split("```mermaid")[1].split("```")[0]
    arrows = {(source, label, target) for source, target, label in ARROW.findall(chart) if source != "[*]"}
    assert arrows == {(source, move.value, arrow.target) for move, arrow in MOVES.items() for source in arrow.sources}


def test_every_role_is_told() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section(), re.MULTILINE)
    assert [name for name, _ in rows] == list(PeerRole)


def test_every_move_has_an_arrow_and_every_role_can_be_left() -> None:
    assert set(MOVES) == set(RoleMove)
    assert {source for arrow in MOVES.values() for source in arrow.sources} == set(PeerRole)
    assert {arrow.target for arrow in MOVES.values()} == set(PeerRole)
