"""A flow with a schema, an expectation and two steps, from Kafka to Elasticsearch, warm when the clock starts."""

from __future__ import annotations

from bench.desk.contenders.connected import connected, my_turn
from bench.flow.contenders.towpath_flow import run, steps
from bench.flow.contenders.turn import wait_for_end, wait_for_start
from bench.flow.workload import INDEX
from towpath import index


def main() -> None:
    turn = my_turn()
    with connected(turn) as runtime:
        run(runtime, steps(turn.warm_up_topic, index(INDEX + "{type}", url=turn.index)))
        wait_for_start()
        run(runtime, steps(turn.topic, index(INDEX + "{type}", url=turn.index)))
        wait_for_end()


if __name__ == "__main__":
    main()
