"""Rows of the ledger: where a batch may go from each state, sums of counts, and what is fixed about its units."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from towpath.blocks.rule import BlockAction, BlockBarrier, BlockMatch, BlockRule
from towpath.flow.delivery.ledger import MOVES, Batch, BatchSnapshot, BatchState, added
from towpath.flow.delivery.places import NAMES, RARE, counts_of, names_of
from towpath.flow.delivery.positions import Positions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "flow-states.md"
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

# States and moves


def test_states_are_stored_under_these_names() -> None:
    stored = ["snapshot", "decided", "ahead", "committed", "superseded"]
    assert [state.value for state in BatchState] == stored
    assert [state.name for state in BatchState] == [name.upper() for name in stored]


def test_a_batch_that_has_ended_goes_nowhere_and_every_other_one_can_end() -> None:
    """Written out, apart from the table in the code: what was decided, or begun for good, is not decided again."""
    assert {(state.value, target.value) for state, targets in MOVES.items() for target in targets} == {
        ("snapshot", "decided"),
        ("snapshot", "ahead"),
        ("snapshot", "committed"),
        ("snapshot", "superseded"),
        ("decided", "committed"),
        ("decided", "superseded"),
        ("ahead", "committed"),
        ("ahead", "superseded"),
    }
    assert set(MOVES) == set(BatchState)


def test_the_table_for_people_has_every_state() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Batches")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", section, re.MULTILINE)
    assert {name: {*re.findall(r"`(\w+)`", cells)} for name, cells in rows} == {
        state.value: {target.value for target in targets} for state, targets in MOVES.items()
    }


def test_a_batch_is_known_by_four_things() -> None:
    batch = Batch(
        "shop", "main", 2, 7, "ab" * 32, Positions(), None, BatchState.SNAPSHOT, 1, {}, {}, {}, NOW, None, None
    )
    assert batch.key == ("shop", "main", 2, 7)
    assert replace(batch, attempts=2, state=BatchState.COMMITTED, committed_at=NOW).key == batch.key


# Sums of counts


@pytest.mark.parametrize(
    ("one", "other", "total"),
    [
        ({}, {}, {}),
        ({"read": 3}, {}, {"read": 3}),
        ({}, {"read": 3}, {"read": 3}),
        ({"read": 3, "failed": {"9": 1}}, {"read": 4}, {"failed": {"9": 1}, "read": 7}),
        ({"failed": {"9": 1, "7": 2}}, {"failed": {"9": 5, "11": 1}}, {"failed": {"11": 1, "7": 2, "9": 6}}),
        # A number that was not told apart before stands under no name.
        ({"filtered": 4}, {"filtered": {"label": 2}}, {"filtered": {"": 4, "label": 2}}),
        ({"filtered": {"label": 2}}, {"filtered": 4}, {"filtered": {"": 4, "label": 2}}),
    ],
)
def test_added(one: dict[str, Any], other: dict[str, Any], total: dict[str, Any]) -> None:
    assert added(one, other) == total
    assert [*added(one, other)] == sorted(total), "in the order of their names"


def test_parts_are_in_the_order_of_their_names() -> None:
    total = added({"failed": {"9": 1, "7": 2}}, {"failed": {"11": 1}})
    assert isinstance(total["failed"], dict)
    assert [*total["failed"]] == ["11", "7", "9"]


# Counts as numbers


def test_counts_that_are_always_there_and_rarer_ones() -> None:
    assert NAMES == ("read", "loaded", "filtered", "failed")
    assert RARE == ("aggregated", "unmatched", "joining", "blocked", "duplicate", "forfeited")


def test_counts_are_one_number_each() -> None:
    totals = {"read": 9, "filtered": {"label": 1, "wanted": 2}, "failed": {"9": 2}, "blocked": 0, "duplicate": 4}
    assert counts_of(totals) == {"read": 9, "loaded": 0, "filtered": 3, "failed": 2, "duplicate": 4}
    assert counts_of({}) == {"read": 0, "loaded": 0, "filtered": 0, "failed": 0}
    assert counts_of({"outputs": 3, "joining": -2})["joining"] == -2
    assert "outputs" not in counts_of({"outputs": 3})


def test_a_table_has_the_rarer_columns_that_one_of_its_rows_has() -> None:
    assert names_of([]) == ("read", "loaded", "filtered", "failed")
    found = names_of([{"read": 1, "forfeited": 1}, {"read": 1, "aggregated": 2}])
    assert found == ("read", "loaded", "filtered", "failed", "aggregated", "forfeited")


# Units

RULE = BlockRule(3, BlockAction.IGNORE, BlockMatch.of(topic="clicks"), "noise")


def test_units_come_back_as_they_were_fixed() -> None:
    units = BatchSnapshot(4, {0: 17, 3: 5}, "id-of-marks", {"both": -7}, {"both/order": 9}, BlockBarrier((RULE,)))
    stored = units.to_value()
    assert stored["buckets"] == 4
    assert stored["marks"] == {"0": 17, "3": 5}
    assert stored["marks_id"] == "id-of-marks"
    assert (stored["watermarks"], stored["event_times"]) == ({"both": -7}, {"both/order": 9})
    assert BatchSnapshot.of_value(stored) == units
    assert BatchSnapshot.of_value(stored).blocks.rules == (RULE,)


def test_units_name_nothing_that_there_is_not() -> None:
    assert BatchSnapshot().to_value() == {"buckets": 1, "marks": {}, "marks_id": ""}


def test_units_of_older_rows() -> None:
    assert BatchSnapshot.of_value(None) == BatchSnapshot.of_value({}) == BatchSnapshot()
    older = BatchSnapshot.of_value({"buckets": 3, "marks": {"1": 8}})
    assert older == BatchSnapshot(3, {1: 8})
    assert (older.marks_id, older.watermarks, older.event_times) == ("", {}, {})
    assert not older.blocks
