"""Towpath without any server: from the log on SQLite into a table of SQLite."""

from __future__ import annotations

import time

from bench.flow.contenders.towpath_flow import connect, plain, run, sink_of
from bench.flow.contenders.turn import my_turn, tell, wait_for_end, wait_for_start
from bench.flow.filling import fill
from bench.flow.workload import WARM_UP_EVENTS


def main() -> None:
    turn = my_turn()
    with connect(turn) as runtime:
        fill(runtime.log, turn.warm_up_topic, min(WARM_UP_EVENTS, turn.events))
        fill(runtime.log, turn.topic, turn.events)
        run(runtime, plain(turn.warm_up_topic, sink_of(turn)))
        wait_for_start()
        began = time.perf_counter()
        run(runtime, plain(turn.topic, sink_of(turn)))
        tell([turn.events / (time.perf_counter() - began)])
        wait_for_end()


if __name__ == "__main__":
    main()
