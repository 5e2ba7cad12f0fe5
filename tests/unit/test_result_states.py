"""The table of moves of results and the page that people read are the same thing."""

from __future__ import annotations

import re
from pathlib import Path

from towpath.gateway.outlet.store import MOVES, ResultState

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "upload-states.md"
ARROW = re.compile(r"^\s+(\w+) --> (\w+): .+$", re.MULTILINE)


def test_the_chart_shows_exactly_the_moves() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Results\n")[2]
    assert set(ARROW.findall(section)) == {(source, target) for source, targets in MOVES.items() for target in targets}
    assert all(f"| `{state}` |" in section for state in ResultState)
