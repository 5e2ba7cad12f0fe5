"""The tables of moves of cases and groups and the page that people read are the same thing."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

from towpath.desk.cases import model as case_state
from towpath.desk.cases.model import FIRST, LIVE, CaseState
from towpath.desk.groups import model as group_state
from towpath.desk.groups.model import GroupState
from towpath.flow.delivery.places import RecordPlace

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "desk-states.md").read_text(encoding="utf-8")
ARROW = re.compile(r"^\s+(\S+) --> (\S+): .+$", re.MULTILINE)
ROW = re.compile(r"^\| `([a-z]+)` \|", re.MULTILINE)
PARTS = {"case": PAGE.split("## A case")[1].split("## A group")[0], "group": PAGE.split("## A group")[1]}


@pytest.mark.parametrize(("part", "moves"), [("case", case_state.MOVES), ("group", group_state.MOVES)])
def test_chart_shows_exactly_the_moves(part: str, moves: dict[StrEnum, frozenset[StrEnum]]) -> None:
    shown = {(source, target) for source, target in ARROW.findall(PARTS[part]) if source != "[*]"}
    assert shown == {(source.value, target.value) for source, targets in moves.items() for target in targets}


@pytest.mark.parametrize(("part", "first"), [("case", FIRST), ("group", {GroupState.NEW})])
def test_chart_shows_where_it_begins(part: str, first: set[StrEnum]) -> None:
    assert {target for source, target in ARROW.findall(PARTS[part]) if source == "[*]"} == {
        each.value for each in first
    }


@pytest.mark.parametrize(("part", "states"), [("case", CaseState), ("group", GroupState)])
def test_every_state_is_described_in_order(part: str, states: type[StrEnum]) -> None:
    assert ROW.findall(PARTS[part]) == [state.value for state in states]


def test_what_is_settled_goes_nowhere() -> None:
    assert {state for state in CaseState if state.is_settled} == set(CaseState) - LIVE
    assert {state.value for state in CaseState if state.is_settled} == {"resolved", "abandoned", "resent"}


def test_every_state_but_resolved_is_a_place() -> None:
    """A record that is resolved is loaded or filtered: the ledger says which."""
    assert {state.value for state in CaseState} - {"resolved"} <= {place.value for place in RecordPlace}
