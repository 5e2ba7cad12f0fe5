"""What block rules catch is counted once, whenever a gateway or the driver of a flow dies by SIGKILL."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.recovery.flow_acts import GOOD, orders
from tests.recovery.gateway_acts import LINES, send_all
from tests.recovery.stage import ROOT
from tests.support.flows import World
from tests.support.sending_clients import gateway_sections, taken_records

import towpath
from towpath.blocks.rule import BlockAction, BlockMatch
from towpath.core.crash import CrashPoint as P
from towpath.runtime import Runtime
from towpath.testing.processes import ChildProcess


def block(runtime: Runtime, where: str) -> int:
    match = BlockMatch.of(where=where)
    return runtime.blocks.add(BlockAction.IGNORE, match, until="2100-01-01", who="ann", why="noise").rule.number


@pytest.mark.parametrize("point", [P.CHUNK_PLANNED, P.CHUNK_SENT, P.CHUNK_SETTLE_BEFORE_COMMIT, P.CHUNK_SETTLED])
def test_gateway_killed_at(point: P, tmp_path: Path) -> None:
    """In the third chunk, in which there are lines that a rule keeps out."""
    database = {"url": f"sqlite:///{tmp_path}/towpath.db", "synchronous": "normal"}
    sections: dict[str, Any] = {**gateway_sections(tmp_path), "database": database, "log": {"url": "embedded"}}
    upload = str(uuid4())
    told = {"sections": sections, "upload": upload}
    with towpath.connect(**sections) as runtime:
        number = block(runtime, "value.fare >= 2 and value.fare <= 4")
    log = tmp_path / "children.log"
    with ChildProcess("tests.recovery.gateway_acts", told, log=log, crash_at=f"{point}:3", cwd=ROOT) as child:
        child.wait_killed()
    with towpath.connect(**sections) as runtime:
        done = send_all(runtime.gateway, upload)
        sender = runtime.gateway.status(done.upload, owner=None).sender("main")
        assert (sender.line, sender.refused, sender.blocked) == (len(LINES), 1, 3)
        assert runtime.blocks.show(number).caught == 3
        lines = [int(dict(record.headers)["line"] or 0) for record in taken_records(runtime)]
        assert lines == [1, 2, *range(6, len(LINES) + 1)]


@pytest.mark.part("kills")
@pytest.mark.parametrize("point", [P.BATCH_SNAPSHOT, P.BATCH_LOADED, P.BATCH_COMMITTED])
def test_driver_killed_at(point: P, embedded: World) -> None:
    """The rule is withdrawn before the next driver comes: what was fixed with the batch counts all the same."""
    number = block(embedded.runtime, "value.n < 3")
    embedded.send("orders", [{"n": n, "kind": GOOD} for n in range(10)])
    order = {"settings": embedded.settings(), "home": str(embedded.home)}
    log = embedded.home / "child.log"
    with ChildProcess("tests.recovery.flow_acts", order, log=log, crash_at=point, cwd=ROOT) as child:
        child.wait_killed(200)  # it starts a Spark of its own
    embedded.runtime.blocks.withdraw(number, who="ann", why="over")
    flow = orders(embedded.home)
    embedded.run_when_free(flow)
    assert embedded.counts(flow) == Counter(read=10, loaded=7, delivered=14, blocked=3, caught=3)
    assert embedded.runtime.blocks.show(number).caught == 3
