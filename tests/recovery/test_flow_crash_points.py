"""The driver of a flow dies by SIGKILL between every two acts of a batch; the next one goes on from what is there."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from tests.recovery.flow_acts import FILTERED, GOOD, RAISING, UNMET, orders
from tests.support.flows import World

from towpath.core.crash import CrashPoint
from towpath.testing.processes import ChildProcess

ROOT = Path(__file__).parents[2]
START_S = 200  # a child has to start Spark on a machine that has much to do
KINDS = [GOOD, GOOD, FILTERED, UNMET, RAISING]
RECORDS = [(n, KINDS[n % len(KINDS)]) for n in range(50)]

FLOW_POINTS = frozenset(
    {
        CrashPoint.GENERATION_BEGUN,
        CrashPoint.BATCH_FIXED,
        CrashPoint.BATCH_SNAPSHOT,
        CrashPoint.BATCH_LOADED,
        CrashPoint.ERRORS_SENT,
        CrashPoint.BATCH_COMMITTED,
    }
)


@pytest.mark.part("kills")
@pytest.mark.parametrize("point", sorted(FLOW_POINTS))
def test_driver_killed_at(point: CrashPoint, embedded: World) -> None:
    embedded.send("orders", [{"n": n, "kind": kind} for n, kind in RECORDS])
    order = {"settings": embedded.settings(), "home": str(embedded.home)}
    log = embedded.home / "child.log"
    with ChildProcess("tests.recovery.flow_acts", order, log=log, crash_at=point, cwd=ROOT) as child:
        child.wait_killed(START_S)
    flow = orders(embedded.home)
    embedded.run_when_free(flow)

    expected = [n for n, kind in RECORDS if kind == GOOD]
    assert numbers_in_table(embedded.home) == expected
    assert numbers_in_files(embedded.home) == expected
    assert embedded.counts(flow) == Counter(read=50, loaded=20, filtered=10, failed=20, delivered=40), (
        "what was committed before the crash is not counted again"
    )
    errors = Counter((each.partition, each.offset) for each in embedded.errors(flow))
    assert len(errors) == 20
    assert set(errors.values()) == {1}, "what failed is told once"
    assert all(batch.state == "committed" for batch in embedded.batches(flow))


def numbers_in_table(home: Path) -> list[int]:
    with sqlite3.connect(home / "out.db") as connection:
        return sorted(json.loads(text)["n"] for (text,) in connection.execute("select document from orders"))


def numbers_in_files(home: Path) -> list[int]:
    found = [path for path in (home / "out").rglob("*.jsonl") if not path.name.startswith(".")]
    lines = [line for path in found for line in path.read_text().splitlines()]
    return sorted(json.loads(line)["n"] for line in lines)
