"""The table of moves of complaints and the page that people read are the same thing."""

from __future__ import annotations

import re
from pathlib import Path

from towpath.catalog.complaints.store import MOVES, SETTLING, ComplaintMove, ComplaintOutcome, ComplaintState

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "complaint-states.md"
ARROW = re.compile(r"^\s+(\S+) --> (\S+): (.+)$", re.MULTILINE)


def test_chart_shows_exactly_the_moves() -> None:
    block = PAGE.read_text(encoding="utf-8").split("```mermaid")[1].split("```")[0]
    shown = {(source, label, target) for source, target, label in ARROW.findall(block) if source != "[*]"}
    assert shown == {(source, move.value, arrow.target) for move, arrow in MOVES.items() for source in arrow.sources}


def test_every_move_has_an_arrow_and_every_state_is_reached() -> None:
    assert set(MOVES) == set(ComplaintMove)
    assert {arrow.target for arrow in MOVES.values()} | {ComplaintState.NEW} == set(ComplaintState)


def test_every_way_to_settle_has_its_outcome() -> None:
    assert set(SETTLING) == {move for move, arrow in MOVES.items() if arrow.target is ComplaintState.SETTLED}
    assert set(SETTLING.values()) == set(ComplaintOutcome)


def test_the_page_names_every_state_and_outcome() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| `{each}` |" in text for each in (*ComplaintState, *ComplaintOutcome))
