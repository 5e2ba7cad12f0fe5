"""Ticks of a join on columns that come back, and what was kept under other rules: never the end of the job."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.column_join import Joining, Row, order, pairs

from towpath.flow.documents.reader import MAX_DEPTH
from towpath.flow.failures import ErrorCode
from towpath.flow.stateful.join import JOINED
from towpath.flow.stateful.keeper import Tick
from towpath.flow.worker.records import RecordVerdict

CAME_BACK = (JOINED, b'[["orders", 0, 1]]')


@pytest.mark.parametrize(
    "value", [b"oops", b"[1]", b"null", b"", b"{}", b'{"unmatched": 5}', b'{"unmatched": ["a"]}', b'{"unmatched": {}}']
)
def test_a_tick_that_somebody_has_spoiled_fails(value: bytes) -> None:
    joining = Joining.of(unmatched="deliver")
    joining.run(order(1, 7, 0))
    said = joining.tick(100, CAME_BACK, value=value)
    assert said.failure is not None
    assert (said.failure.code, said.failure.exception, said.by) == (ErrorCode.NOT_VALID, "BadTick", "both")
    assert said.given is None
    assert joining.kept == 1, "what waits now is for another tick"


def test_a_tick_without_a_value_fails_too() -> None:
    joining = Joining.of(unmatched="deliver")
    tick = joining.keeper.woken(_tick(None), {}, 100)
    assert tick.failure is not None
    assert joining.keeper.woken(_tick(b'{"unmatched": []}'), {}, 100).given == [], "somebody wants none of them"


def test_what_was_kept_while_names_could_stand_twice_is_joined_and_leaves() -> None:
    """The flow refuses them now; what is in the state was taken."""
    joining = Joining.of(unmatched="deliver")
    keeper = joining.keeper
    joining.keeper = replace(keeper, source=replace(keeper.source, duplicates="keep"))
    for offset, id in ((1, 7), (2, 8)):
        text = b'{"id": %d, "at": 0, "o": 0, "o": %d}' % (id, offset)
        joining.run(Row("orders", offset, text))
    joining.keeper = keeper
    assert pairs(joining.run(Row("payments", 1, {"id": 7, "at": 0, "p": 1}))) == [(1, 1)]
    verdict = joining.tick(100)
    assert pairs([verdict]) == [(2, None)]
    assert joining.tick(100, verdict.header or ("", b""), value=verdict.value or b"").given == verdict.given


def test_what_is_nested_as_deep_as_can_be_leaves_with_its_text() -> None:
    joining = Joining.of(unmatched="deliver", max_bytes=10_000)
    deep = b'{"id": 7, "at": 0, "x": ' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}"
    joining.run(Row("orders", 1, deep))
    assert joining.kept == 1
    verdict = joining.tick(100)
    assert RecordVerdict.decode(verdict.encode()).given == verdict.given
    assert json.loads(verdict.value or b"") == {"unmatched": [{"order": json.loads(deep), "payment": None}]}


def _tick(value: bytes | None) -> Tick:
    return Tick("x.reentry", 0, 0, 0, 0, value, (CAME_BACK,))
