"""The moves of rules and the page that people read are the same thing."""

from __future__ import annotations

import re
from pathlib import Path

from towpath.desk.corrections.model import MOVES, RuleState

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "correction-states.md"
ARROW = re.compile(r"^\s+(\S+) --> (\S+): (.+)$", re.MULTILINE)


def test_chart_shows_exactly_the_moves() -> None:
    block = PAGE.read_text(encoding="utf-8").split("```mermaid")[1].split("```")[0]
    shown = {(source, target) for source, target, _ in ARROW.findall(block) if source != "[*]"}
    assert shown == {(source, target) for source, targets in MOVES.items() for target in targets}


def test_every_state_has_a_line_and_is_reached() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| `{state}` |" in text for state in RuleState)
    assert {target for targets in MOVES.values() for target in targets} | {RuleState.SUGGESTED} == set(RuleState)
