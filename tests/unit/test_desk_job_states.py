"""The moves of bulk jobs, items and edits, and the charts that people read, are the same thing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from towpath.desk.actions.job_store import ITEM_MOVES, MOVES, ItemState, JobState
from towpath.desk.edits import EDIT_MOVES, EditState

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "desk-job-states.md"
ARROW = re.compile(r"^\s+(\S+) --> (\S+)$", re.MULTILINE)
SETS: dict[str, tuple[type[StrEnum], Mapping[Any, frozenset[Any]]]] = {
    "Jobs": (JobState, MOVES),
    "Items": (ItemState, ITEM_MOVES),
    "Edits": (EditState, EDIT_MOVES),
}


def section(name: str) -> str:
    return PAGE.read_text(encoding="utf-8").split(f"## {name}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("name", SETS)
def test_chart_shows_exactly_the_moves(name: str) -> None:
    _, moves = SETS[name]
    drawn = {(source, target) for source, target in ARROW.findall(section(name)) if source != "[*]"}
    assert drawn == {(source, target) for source, targets in moves.items() for target in targets}


@pytest.mark.parametrize("name", SETS)
def test_every_state_is_told(name: str) -> None:
    states, moves = SETS[name]
    assert re.findall(r"^\| `(\w+)` \| .+ \|$", section(name), re.MULTILINE) == list(states)
    assert set(moves) == set(states)
