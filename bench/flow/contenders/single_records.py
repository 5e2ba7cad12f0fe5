"""How long one record takes through a running flow at default settings, from its append to its being in the index."""

from __future__ import annotations

import time
from uuid import uuid4

import urllib3

from bench.flow.contenders.towpath_flow import connect
from bench.flow.contenders.turn import my_turn, tell, wait_for_end, wait_for_start
from bench.flow.workload import INDEX, KINDS, values
from towpath import Flow, index, topic
from towpath.log import NewRecord
from towpath.runtime import Runtime

RECORDS = 30
PAUSE_S = 0.5  # so that the flow is idle again
LOOK_EVERY_S = 0.005
WITHIN_S = 60.0


def seen_after_s(runtime: Runtime, source: str, url: str, value: bytes) -> float:
    time.sleep(PAUSE_S)
    began = time.perf_counter()
    [(partition, offset)] = runtime.log.append(source, [NewRecord(value)])
    where = f"{url}/{INDEX}{KINDS[0]}/_doc/{source}:0:{partition}:{offset}"
    while urllib3.request("HEAD", where).status != 200:
        if time.perf_counter() - began > WITHIN_S:
            raise TimeoutError(f"a record is not in the index after {WITHIN_S:g} s: {where}")
        time.sleep(LOOK_EVERY_S)
    return time.perf_counter() - began


def main() -> None:
    turn = my_turn()
    source = f"single-{uuid4().hex[:8]}"
    with connect(turn) as runtime:
        runtime.log.create_topic(source, 2)
        flow = Flow(source)
        flow.load(topic(source), index(INDEX + "{type}", url=turn.url))
        run = runtime.flow(flow)
        run.start()
        value = next(values(1))
        seen_after_s(runtime, source, turn.url, value)
        wait_for_start()
        tell([seen_after_s(runtime, source, turn.url, value) for _ in range(RECORDS)])
        wait_for_end()
        run.stop()
        run.wait()


if __name__ == "__main__":
    main()
