"""A driver: one is killed in the middle of a batch, the next goes on from there."""

from __future__ import annotations

import time
from pathlib import Path

import towpath
from bench.delivery.settings import batch_of_recovery
from bench.flow.contenders.turn import Turn, my_turn, tell, wait_for_end, wait_for_start
from bench.flow.settings import MASTER, MEMORY
from towpath import Flow, topic
from towpath.errors import NotTheOnlyOne
from towpath.flow.run.flow_run import FlowRun
from towpath.runtime import Runtime

ASK_EVERY_S = 0.05


def connect(turn: Turn) -> Runtime:
    home = Path(turn.home)
    return towpath.connect(
        database={"url": f"sqlite:///{home}/towpath.db"},
        log={"url": f"kafka://{turn.bootstrap}"},
        spark={"master": MASTER, "memory": MEMORY},
        flow={"directory": str(home / "flows"), "max_batch_records": batch_of_recovery(turn.events)},
    )


def started(runtime: Runtime, turn: Turn) -> tuple[FlowRun, float]:
    """The flow at work, and how long the lease of a dead process has kept it from that."""
    flow = Flow(f"recovering-{turn.group}", delivery="exactly-once")
    flow.load(topic(turn.topic), topic(turn.group))
    began = time.monotonic()
    while True:
        tried = time.monotonic()
        run = runtime.flow(flow)
        try:
            run.start(until_idle=True)
        except NotTheOnlyOne:
            time.sleep(ASK_EVERY_S)
        else:
            return run, tried - began


def main() -> None:
    turn = my_turn()
    with connect(turn) as runtime:
        # As the process with nothing but Spark does it: what is compared with its start has to end where it ends.
        runtime.spark().range(0).count()
        wait_for_start()
        run, waited_s = started(runtime, turn)
        tell([waited_s])
        run.wait()
        tell([time.monotonic()])
        wait_for_end()


if __name__ == "__main__":
    main()
