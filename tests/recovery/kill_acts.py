"""The driver that the kill tests kill: one flow from Kafka to Elasticsearch, in a process of its own, until SIGTERM.

python -m tests.recovery.kill_acts '{"settings": {…}, "home": "…", "url": "…"}'
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, cast

import towpath
from towpath import Flow, index, topic
from towpath.errors import NotTheOnlyOne
from towpath.flow.run.flow_run import FlowRun
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until
from towpath.testing.processes import leave_with_parent

FLOW, TOPIC, INDEX = "orders", "orders", "orders"
GOOD, NOT_JSON, RAISING, REFUSED = "good", "not JSON", "raising", "refused"
ARMED, REACHED = "gate-armed", "gate-reached"
POSTED_AT_ONCE = 50  # documents, so that a task has posted some before it is at its end
WAIT_S = 60


def orders(home: Path, url: str) -> Flow:
    """Documents are known by the places of their records. The index takes only days in `day`.

    Nothing is decided beforehand, so that a worker is in the middle of loading while it is in the function.
    """
    flow = Flow(FLOW)
    directory = str(home)

    @flow.each(topic(TOPIC), schema="n int, kind string, day string", deterministic=True)
    def priced(order: dict[str, Any]) -> dict[str, Any]:
        wait_in_gate(Path(directory))
        if order["kind"] == RAISING:
            raise ValueError("no price")
        return {**order, "price": 2 * order["n"]}

    flow.load(priced, index(INDEX, url=url, max_items=POSTED_AT_ONCE), name="index")
    return flow


def wait_in_gate(home: Path) -> None:
    """The first worker that comes to an armed gate says who it is, and waits there until it is let go."""
    mine = home / f"gate-{os.getpid()}"
    try:
        (home / ARMED).rename(mine)
    except FileNotFoundError:
        return
    mine.write_text(str(os.getpid()))
    mine.rename(home / REACHED)
    deadline = time.monotonic() + WAIT_S
    while (home / REACHED).exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def main() -> None:
    order = json.loads(sys.argv[1])
    leave_with_parent()
    logging.basicConfig()
    with towpath.connect(**order["settings"]) as runtime:
        flow = orders(Path(order["home"]), order["url"])
        begun = wait_until(lambda: _begun(runtime, flow), WAIT_S, "the stage is free")
        run = cast(FlowRun, begun)
        signal.signal(signal.SIGTERM, lambda *_: run.stop())
        run.wait()


def _begun(runtime: Runtime, flow: Flow) -> FlowRun | None:
    """The stages of a driver that was killed are free when it is found to be gone."""
    run = runtime.flow(flow)
    try:
        run.start()
    except NotTheOnlyOne:
        return None
    return run


if __name__ == "__main__":
    main()
