"""The kills of `test_flow_kills`, many of them, in an order by chance and at whatever moment the flow has come to."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.recovery.kill_rig import BATCH, Rig, open_rig

from towpath.flow.worker.breadcrumb import SUFFIX
from towpath.testing.clock import wait_until

KILLS = 15
WAIT_S = 180


def kill_worker(rig: Rig) -> None:
    """One that is in the middle of a task; by then it may have come to its end."""

    def working() -> list[Path]:
        return list((rig.home / "flows").rglob(f"*{SUFFIX}"))

    noted = wait_until(working, WAIT_S, "a worker at work")
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(noted[0].stem.rpartition("-")[2]), signal.SIGKILL)


def kill_elasticsearch(rig: Rig) -> None:
    rig.elasticsearch.kill()
    rig.elasticsearch.start()


def kill_kafka(rig: Rig) -> None:
    rig.kafka.kill()
    rig.kafka.start()


def cut_network(rig: Rig) -> None:
    before = rig.machine.last_error
    rig.cut()
    wait_until(lambda: rig.machine.last_error != before, WAIT_S, "the driver has noticed")
    rig.mend()


def kill_driver(rig: Rig) -> None:
    rig.kill_driver()
    rig.start_driver()


ACTS: list[Callable[[Rig], None]] = [kill_worker, kill_elasticsearch, kill_kafka, cut_network, kill_driver]


@pytest.mark.part("kills")
@pytest.mark.realtime
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [random.randrange(1 << 32)])  # its name tells it
def test_kills_in_any_order(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    with open_rig(tmp_path) as rig:
        for _ in range(KILLS):
            rig.send(chance.randint(BATCH, 3 * BATCH))
            wait_until(lambda: any(each.committed_at is None for each in rig.batches()), WAIT_S, "a batch at work")
            chance.choice(ACTS)(rig)
        rig.check()
