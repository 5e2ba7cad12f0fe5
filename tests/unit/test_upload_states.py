"""The tables of moves of uploads and senders and the page that people read are the same thing."""

from __future__ import annotations

import re
from pathlib import Path

from towpath.gateway.uploads.model import ENDED, MOVES, SENDER_MOVES, SenderMove, SenderState, UploadMove, UploadState

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "upload-states.md"
ARROW = re.compile(r"^\s+(\S+) --> (\S+): (.+)$", re.MULTILINE)


def shown(chart: int) -> set[tuple[str, str, str]]:
    block = PAGE.read_text(encoding="utf-8").split("```mermaid")[chart].split("```")[0]
    return {(source, label, target) for source, target, label in ARROW.findall(block) if source != "[*]"}


def test_the_chart_of_uploads_shows_exactly_the_moves() -> None:
    assert shown(1) == {(source, move.value, arrow.target) for move, arrow in MOVES.items() for source in arrow.sources}


def test_the_chart_of_senders_shows_exactly_the_moves() -> None:
    assert shown(2) == {
        (source, move.value, arrow.target) for move, arrow in SENDER_MOVES.items() for source in arrow.sources
    }


def test_every_move_has_an_arrow_and_every_state_is_reached() -> None:
    assert set(MOVES) == set(UploadMove)
    assert {arrow.target for arrow in MOVES.values()} | {UploadState.RECEIVING} == set(UploadState)
    assert set(SENDER_MOVES) == set(SenderMove)
    assert {arrow.target for arrow in SENDER_MOVES.values()} | {SenderState.RECEIVING} == set(SenderState)


def test_nothing_leaves_an_end() -> None:
    assert not {source for arrow in MOVES.values() for source in arrow.sources} & set(ENDED)


def test_every_state_is_explained() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| `{state}` |" in text for state in (*UploadState, *SenderState))
