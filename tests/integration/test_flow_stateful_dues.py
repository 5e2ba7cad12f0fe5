"""When shards are due: kept with the commit of a batch, by generation, on both databases."""

from __future__ import annotations

import pytest
from tests.support.quiet import Quiet

from towpath.flow.delivery.positions import Positions
from towpath.flow.run.timers import Shard, TimerStore
from towpath.flow.stage.store import StageRow, StageStore

FLOW, STAGE, ME = "page-views", "main", "me"


def stage_of(quiet: Quiet, generations: int = 1) -> StageRow:
    stages = StageStore(quiet.database)
    with quiet.database.transaction() as tx:
        stages.ensure(tx, FLOW, STAGE, {})
        stage = stages.take(tx, FLOW, STAGE, ME)
        stages.save_machine(tx, FLOW, STAGE, ME, stage.machine.started(1))
        for _ in range(generations):
            stage = stages.new_generation(tx, stage, ME, checkpoint="/c", starting=Positions.of([]), topics={})
    return stage


def read(quiet: Quiet, stage: StageRow, now_ms: int = 1_000) -> dict[Shard, int]:
    """As a process finds it that has just started."""
    dues = TimerStore(quiet.database)
    dues.read(stage)
    return dues.at(lambda operator: now_ms)


def test_the_last_word_of_each_shard_is_kept(quiet: Quiet) -> None:
    stage, dues = stage_of(quiet), TimerStore(quiet.database)
    dues.read(stage)
    with quiet.database.transaction() as tx:
        dues.save(tx, stage, {"0/3": [5, 1_000, 1_001], "0/200": [2_000], "1/3": [7]})
    with quiet.database.transaction() as tx:
        dues.save(tx, stage, {"1/3": [], "0/9": []})
    for found in (dues.at(lambda operator: 1_000), read(quiet, stage)):
        assert found == {Shard(0, 3): 2}
    assert dues.at(lambda operator: 4_000) == {Shard(0, 3): 3, Shard(0, 200): 1}
    assert dues.at(lambda operator: 4_000 * operator) == {}, "each operator has its own time"


def test_what_is_not_committed_is_not_so(quiet: Quiet) -> None:
    stage, dues = stage_of(quiet), TimerStore(quiet.database)
    dues.read(stage)
    with pytest.raises(ZeroDivisionError), quiet.database.transaction() as tx:
        dues.save(tx, stage, {"0/3": [5]})
        _ = 1 / 0
    assert dues.at(lambda operator: 1_000) == {}
    with quiet.database.transaction() as tx:
        dues.save(tx, stage, {"0/3": [5]})
    assert read(quiet, stage) == {Shard(0, 3): 1}


def test_a_new_generation_has_nothing_due(quiet: Quiet) -> None:
    stage, dues = stage_of(quiet), TimerStore(quiet.database)
    with quiet.database.transaction() as tx:
        dues.save(tx, stage, {"0/3": [5]})
        after = StageStore(quiet.database).new_generation(
            tx, stage, ME, checkpoint="/d", starting=Positions.of([]), topics={}
        )
    assert read(quiet, stage) == {Shard(0, 3): 1}
    assert read(quiet, after) == {}
    assert read(quiet, stage) == {}, "what belonged to the state before is gone"
