"""Which records a block rule is for; and the chart of its states is the table of its moves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.blocks.rule import (
    MOVES,
    REFUSED_LINE,
    BlockAction,
    BlockBarrier,
    BlockMatch,
    BlockMove,
    BlockRule,
    BlockState,
    OneRecord,
)
from towpath.errors import BadBlock, BadExpression
from towpath.flow.delivery.ledger import BatchSnapshot
from towpath.gateway.lines.lines import LineRefusal, refused_value
from towpath.gateway.uploads.model import SenderPlan

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "block-states.md"
ARROW = re.compile(r"^\s+(\S+) --> (\S+): (.+)$", re.MULTILINE)

RECORD = OneRecord("orders", b"user-7", b'{"n": 5, "country": "DE"}', (("sender", b"main"), ("line", b"3")))


def rule(number: int = 1, action: BlockAction = BlockAction.IGNORE, **match: str) -> BlockRule:
    return BlockRule(number, action, BlockMatch.of(**match), "noise")


def is_caught(record: OneRecord, **match: str) -> bool:
    found = BlockRule(1, BlockAction.IGNORE, BlockMatch.of(**match), "noise")
    return bool(BlockBarrier((found,)).caught_in_topics(record))


@pytest.mark.parametrize(
    "match",
    [
        {"topic": "orders"},
        {"key": "user-7"},
        {"prefix": "user-"},
        {"sender": "main"},
        {"where": "value.n > 4"},
        {"where": "headers.line = '3' and key like 'user%'"},
        {"topic": "orders", "key": "user-7", "sender": "main", "where": "value.country = 'DE'"},
    ],
)
def test_all_that_is_said_fits(match: dict[str, str]) -> None:
    assert is_caught(RECORD, **match)


@pytest.mark.parametrize(
    "match",
    [
        {"topic": "order"},
        {"key": "user-"},
        {"prefix": "user-70"},
        {"sender": "other"},
        {"where": "value.n > 5"},
        {"where": "value.missing = 1"},
        {"topic": "orders", "key": "user-8"},
        {"topic": "orders", "prefix": "user", "where": "value.country = 'FR'"},
    ],
)
def test_one_part_that_does_not_fit_is_enough(match: dict[str, str]) -> None:
    assert not is_caught(RECORD, **match)


@pytest.mark.parametrize("value", [None, b"", b"no JSON", b"[1, 2]"])
def test_an_expression_is_not_true_of_what_is_no_document(value: bytes | None) -> None:
    record = OneRecord("orders", None, value)
    assert not is_caught(record, where="value.n = 5")
    assert not is_caught(record, prefix="a")
    assert is_caught(record, topic="orders")


def test_the_rule_with_the_lowest_number_decides() -> None:
    rules = (rule(2, topic="orders"), rule(3, BlockAction.REFUSE, key="user-7"))
    assert [each.number for each in BlockBarrier(rules).caught_in_topics(RECORD).values()] == [2]


def test_what_the_gateway_has_refused_passes() -> None:
    """It is on its way to the desk: a rule must not take the case away."""
    value = refused_value(LineRefusal("blocked", "rule 1"), b"a,b", 1, "u", "main")
    assert value.startswith(REFUSED_LINE)
    assert not is_caught(OneRecord("orders", None, value), topic="orders")


def test_what_comes_back_from_the_desk_passes() -> None:
    barrier = BlockBarrier((rule(where="value.n = 5"),))
    assert barrier.caught_in_topics(RECORD, but="orders") == {}


def test_which_rules_are_asked_where() -> None:
    rules = [rule(1, stream="s"), rule(2, user="bob"), rule(3, topic="orders"), rule(4, key="k"), rule(5, stream="t")]
    barrier = BlockBarrier(tuple(rules))
    assert [each.number for each in barrier.for_topics(["orders"]).rules] == [3, 4]
    assert [each.number for each in barrier.for_topics(["others"]).rules] == [4]
    assert [each.number for each in barrier.for_sender("s", "bob", "orders").rules] == [1, 2, 3, 4]
    assert [each.number for each in barrier.for_sender("s", "ann", "others").rules] == [1, 4]


@pytest.mark.parametrize(
    ("match", "why"),
    [
        ({}, "say which records"),
        ({"key": ""}, "1000"),
        ({"topic": "x" * 301}, "300"),
        ({"key": "a", "prefix": "a"}, "both"),
        ({"key": "a\x00"}, "database"),
        ({"where": "attempts > 1"}, "attempts"),
    ],
)
def test_what_is_no_rule(match: dict[str, str], why: str) -> None:
    with pytest.raises(BadBlock, match=why):
        BlockMatch.of(**match)


def test_what_is_no_expression() -> None:
    with pytest.raises(BadExpression):
        BlockMatch.of(where="value.n >")


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=20)


@given(st.dictionaries(st.sampled_from(["topic", "sender", "key", "stream", "user"]), NAMES, min_size=1))
def test_rules_are_kept_with_a_batch_as_they_are(match: dict[str, str]) -> None:
    barrier = BlockBarrier((rule(7, BlockAction.REFUSE, **match, where="value.n = 1"),))
    kept = json.loads(json.dumps(BatchSnapshot(4, blocks=barrier).to_value()))
    assert BatchSnapshot.of_value(kept).blocks == barrier


def test_rows_without_rules_are_as_before() -> None:
    """So that rows of older versions are known again."""
    assert "blocks" not in BatchSnapshot(4).to_value()
    assert SenderPlan.from_json(SenderPlan(1, 2, 3, 4, 5, "x").to_json()) == SenderPlan(1, 2, 3, 4, 5, "x")
    assert "blocked" not in SenderPlan(1, 2, 3, 4, 5, "x").to_json()
    counted = SenderPlan(1, 2, 3, 4, 5, "x", blocked=2, caught={7: 2})
    assert SenderPlan.from_json(counted.to_json()) == counted


def test_chart_shows_exactly_the_moves() -> None:
    block = PAGE.read_text(encoding="utf-8").split("```mermaid")[1].split("```")[0]
    shown = {(source, label, target) for source, target, label in ARROW.findall(block) if source != "[*]"}
    assert shown == {(source, move.value, arrow.target) for move, arrow in MOVES.items() for source in arrow.sources}


def test_every_move_has_an_arrow_and_every_state_is_reached() -> None:
    assert set(MOVES) == set(BlockMove)
    assert {arrow.target for arrow in MOVES.values()} | {BlockState.ACTIVE} == set(BlockState)
