"""What the last batches of a stage came to, by time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.flow_world import FLOW, TOPIC, FlowWorld

from towpath.core.clock import to_datetime
from towpath.flow.stage import history as past
from towpath.flow.stage.history import BatchHistory, BatchHistoryStore
from towpath.runtime import Runtime

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def read(runtime: Runtime, stage: str = TOPIC, width: timedelta = HOUR) -> BatchHistory:
    since = to_datetime(runtime.database.now()) - HOUR
    with runtime.database.read() as tx:
        return BatchHistoryStore(runtime.database).read(tx, FLOW, stage, since, width)


def test_batches_add_up_by_time(desk_runtime: Runtime) -> None:
    world = FlowWorld(desk_runtime)
    world.batch()
    world.batch({"read": 5, "loaded": 1, "failed": {"7": 3, "12": 1}})
    world.batch({"read": 1, "loaded": 1})
    world.batch(commits=False)
    found = read(desk_runtime)
    assert sum(each.batches for each in found.stretches) == 3
    assert sum(each.read for each in found.stretches) == 16
    assert found.codes == ["7", "12"]
    assert sum(each.failed.get("7", 0) for each in found.stretches) == 5
    assert all(timedelta(0) <= each.at - found.since + HOUR <= 2 * HOUR for each in found.stretches)


def test_a_stretch_begins_at_a_whole_multiple_of_its_width(desk_runtime: Runtime) -> None:
    """So that a page that asks again a moment later draws the same bars."""
    FlowWorld(desk_runtime).batch()
    (found,) = read(desk_runtime, width=MINUTE).stretches
    assert found.at.second == found.at.microsecond == 0


def test_another_stage_has_its_own(desk_runtime: Runtime) -> None:
    FlowWorld(desk_runtime).batch()
    assert read(desk_runtime, "other").stretches == []


def test_a_long_ledger_is_read_from_its_end_and_says_so(desk_runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    world = FlowWorld(desk_runtime)
    for _ in range(4):
        last = world.batch()
    monkeypatch.setattr(past, "MOST_BATCHES", 2)
    found = read(desk_runtime)
    assert sum(each.batches for each in found.stretches) == 2
    assert last.committed_at is not None
    assert found.since <= last.committed_at
    assert found.since > to_datetime(desk_runtime.database.now()) - MINUTE
