"""The table of moves and the chart that people read are the same thing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from towpath.errors import UnknownState
from towpath.queue.states import BY_HAND, MOVES, TERMINAL, MessageMove, MessageState, OnOwnerDeath

CHART = Path(__file__).resolve().parents[2] / "docs" / "reference" / "states.md"
ARROW = re.compile(r"^\s+(\S+) --> (\S+): (.+)$", re.MULTILINE)


def arrows_of_chart() -> set[tuple[str, str, str]]:
    """Source, label and target of each arrow of the chart, one for each label."""
    block = CHART.read_text(encoding="utf-8").split("```mermaid")[1].split("```")[0]
    return {
        (source, label.strip(), target)
        for source, target, labels in ARROW.findall(block)
        if source != "[*]"
        for label in labels.split(" / ")
    }


def test_chart_shows_exactly_the_moves() -> None:
    moves = {(source, move.value, arrow.target) for move, arrow in MOVES.items() for source in arrow.sources}
    assert arrows_of_chart() == moves


def test_every_move_has_an_arrow() -> None:
    assert set(MOVES) == set(MessageMove)


def test_every_state_can_be_left_and_reached() -> None:
    assert {source for arrow in MOVES.values() for source in arrow.sources} == set(MessageState)
    assert {arrow.target for arrow in MOVES.values()} == set(MessageState)


def test_terminal_states_are_left_by_a_person_only() -> None:
    leaving = {move for move, arrow in MOVES.items() if set(arrow.sources) & TERMINAL}
    assert leaving == {MessageMove.REQUEUE}
    assert set(MessageState) - TERMINAL == {MessageState.NEW, MessageState.ACK}


def test_by_hand_leads_where_it_says() -> None:
    assert {state: MOVES[move].target for state, move in BY_HAND.items()} == {state: state for state in BY_HAND}
    assert set(MessageState) - set(BY_HAND) == {MessageState.ACK}


@pytest.mark.parametrize("text", ["ERR", "err", "Err"])
def test_state_is_found_by_name(text: str) -> None:
    assert MessageState.named(text) is MessageState.ERR


@pytest.mark.parametrize("text", ["", "NEWER", " NEW", "nil"])
def test_unknown_state_says_what_is_allowed(text: str) -> None:
    with pytest.raises(UnknownState) as caught:
        MessageState.named(text)
    assert caught.value.state == text
    assert caught.value.allowed == tuple(MessageState)


def test_what_becomes_of_a_message_whose_owner_died_is_stored_under_these_names() -> None:
    """Rows of inboxes have them, and the SQL that frees messages asks for them."""
    assert {each.name: each.value for each in OnOwnerDeath} == {"AGAIN": "again", "ERR": "err", "DEAD": "dead"}
