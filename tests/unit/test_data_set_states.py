"""The table of moves of data sets and the page that people read are the same thing, and its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from towpath.catalog.data_sets.store import MOVES, DataSetMove, DataSetState

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "data-set-states.md"
ARROW = re.compile(r"^\s+(\S+) --> (\S+): (.+)$", re.MULTILINE)


def test_chart_shows_exactly_the_moves() -> None:
    block = PAGE.read_text(encoding="utf-8").split("```mermaid")[1].split("```")[0]
    shown = {(source, label, target) for source, target, label in ARROW.findall(block) if source != "[*]"}
    assert shown == {(source, move.value, arrow.target) for move, arrow in MOVES.items() for source in arrow.sources}


def test_every_move_has_an_arrow_and_every_state_is_reached() -> None:
    assert set(MOVES) == set(DataSetMove)
    assert {arrow.target for arrow in MOVES.values()} | {DataSetState.MAKING} == set(DataSetState)


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    exec(PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0], {})
    assert "state=<DataSetState.READY" in capsys.readouterr().out
    assert list((tmp_path / "crawls").iterdir()) == []
