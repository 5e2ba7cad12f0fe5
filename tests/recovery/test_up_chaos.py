"""A short `make chaos-up`: half of everything is killed three times, and all of it comes back with nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from soak.up.drill import Drill
from soak.up.plan import Plan

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_everything_comes_back_and_every_record_is_in_its_one_place(tmp_path: Path) -> None:
    # On a busy machine Spark may need longer to start than the kills leave it: no batch is asked for in between.
    plan = Plan(seconds=45, seed=11, pause_s=(10, 15), least_batches=0, records_per_s=10)
    said: list[str] = []
    verdict = Drill(plan, tmp_path, said.append).run()
    assert verdict.problems == []
    assert int(verdict.rows["strikes"]) >= 3
    assert verdict.rows["killed"]
