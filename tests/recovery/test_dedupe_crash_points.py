"""What was seen is known after a SIGKILL, whether the batch that saw it was committed or not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.support.flows import World
from tests.support.numbered import Sent, loaded, orders, send

from towpath.crash import CrashPoint
from towpath.testing.processes import ChildProcess

ROOT = Path(__file__).parents[2]
NAMES = ["a1", "a2", "a3", "a4", "b1", "b2"]
# Before anything was done; when outputs have it and the state is not committed; when Spark alone does not know.
POINTS = (CrashPoint.BATCH_SNAPSHOT, CrashPoint.BATCH_LOADED, CrashPoint.BATCH_COMMITTED)


@pytest.mark.parametrize("point", POINTS)
def test_driver_killed_at(point: CrashPoint, embedded: World) -> None:
    """The batch that dies has new ones and repeats; so has the one after it, which needs the state of both before."""
    flow = orders(embedded.home)
    send(embedded, [Sent("a", 1, "a1"), Sent("b", 1, "b1"), Sent("a", 1, "again")])
    embedded.run(flow)
    send(embedded, [Sent("a", 2, "a2"), Sent("b", 1, "again"), Sent("a", 3, "a3"), Sent("a", 2, "again")])
    order = {"settings": embedded.settings(), "home": str(embedded.home)}
    log = embedded.home / "child.log"
    with ChildProcess("tests.recovery.numbered_acts", order, log=log, crash_at=point, cwd=ROOT) as child:
        child.wait_killed(timeout_s=150)
    send(embedded, [Sent("a", 3, "again"), Sent("a", 1, "again"), Sent("a", 4, "a4"), Sent("b", 2, "b2")])
    embedded.run_when_free(flow)

    assert loaded(embedded.home) == NAMES
    assert embedded.counts(flow) == Counter(read=11, loaded=6, delivered=6, duplicate=5)
    assert [batch.state for batch in embedded.batches(flow)] == ["committed"] * 3
