"""The worked example under SIGKILL: whatever is killed, and whenever, the documents are those of the oracle."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples.harvest.home import Home
from examples.harvest.oracle import Oracle
from examples.harvest.station import opened
from examples.harvest.web.server import SmallWeb
from tests.recovery.harvest import Rig

SITES = ("boote.test", "canal.test")
KILLS, KILLS_PER_RUN = 20, 7
SEED = "HARVEST_SEED"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    seed = int(os.environ.get(SEED, random.randrange(10**6)))
    sys.stdout.write(f"{SEED}={seed}\n")
    home = Home(tmp_path / "harvest")
    with SmallWeb() as web, opened(home) as runtime:
        made = Rig(home, web, runtime, random.Random(seed), Oracle(web.sites))
        try:
            yield made
        finally:
            made.close()


@pytest.mark.part("kills")
@pytest.mark.realtime
@pytest.mark.timeout(1000)  # a minute on a machine with nothing else to do
def test_each_part_is_killed_once(rig: Rig) -> None:
    run_id = rig.start(1, SITES)
    rig.kill_part("crawl", run_id, rig.chance.uniform(0.2, 1.5))
    rig.kill_java("process", run_id, rig.chance.uniform(0, 5))
    rig.kill_station()
    rig.kill_part("load", run_id, rig.chance.uniform(1, 8))
    rig.wait(run_id)
    assert len(rig.kills) >= 3
    rig.check()


@pytest.mark.part("kills")
@pytest.mark.realtime
@pytest.mark.timeout(1800)
def test_anything_is_killed_at_any_time(rig: Rig) -> None:
    """Day 1, day 2, one site again, and so on, until so many kills are done; each run comes to its end all the same."""
    plans = [(1, tuple(rig.web.sites)), (2, tuple(rig.web.sites)), (2, ("canal.test",)), (2, ("boote.test",))]
    runs = 0
    while len(rig.kills) < KILLS:
        day, sites = plans[runs % len(plans)]
        run_id = rig.start(day, sites)
        most = min(KILLS, len(rig.kills) + KILLS_PER_RUN)
        next_at = time.monotonic() + rig.chance.uniform(0.5, 6)
        while rig.run(run_id) is None:
            if time.monotonic() > next_at and len(rig.kills) < most:
                rig.kill_anything()
                next_at = time.monotonic() + rig.chance.uniform(0.5, 20)
            time.sleep(0.05)
        rig.wait(run_id)
        runs += 1
    sys.stdout.write(f"{len(rig.kills)} kills in {runs} runs: {rig.kills}\n")
    rig.check()
