"""A driver is killed in the middle of a batch, another takes over: how long until readers see something new."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from uuid import uuid4

from bench.delivery.settings import INTO_THE_SECOND_BATCH, batch_of_recovery
from bench.delivery.visible import Visible
from bench.flow.process import Crew, Program, crew
from bench.flow.workload import PARTITIONS
from bench.page import ROOT
from towpath.log import Log

WITHIN_S = 120.0
LOOK_S = 0.01


@dataclass(frozen=True)
class Recovered:
    """Times in seconds."""

    first_output_s: float  # from the start of the process, without the wait for the lease of the dead one
    ready_s: float  # its part until Towpath is connected and its Spark has done a first job, which has nothing to do
    lease_s: float

    def beyond_s(self, spark_starts_s: Sequence[float]) -> float:
        """Less Spark's own start: the shortest that was seen, and never more than this process took to be ready.

        A start that something else on the machine has held up would be a present of as many seconds.
        """
        return self.first_output_s - min(*spark_starts_s, self.ready_s)


def program(name: str) -> Program:
    command = [sys.executable, "-m", f"bench.delivery.contenders.{name}"]
    return Program(command, environment={"PYTHONPATH": str(ROOT)})


def turn(bootstrap: str, source: str, target: str, records: int) -> dict[str, object]:
    names = {"topic": source, "warm_up_topic": source, "group": target, "events": records}
    return {"kind": "recovery", "bootstrap": bootstrap, "url": "", **names}


def recover(log: Log, bootstrap: str, source: str, records: int) -> Recovered:
    """Kill one driver, let the next one finish, and see that each record is there once."""
    target = f"recovered-{uuid4().hex[:8]}"
    log.create_topic(target, PARTITIONS)
    with (
        tempfile.TemporaryDirectory(prefix="towpath-bench-") as home,
        closing(Visible(bootstrap, target, PARTITIONS)) as visible,
    ):
        told = {**turn(bootstrap, source, target, records), "home": home}
        _kill_one(told, visible, batch_of_recovery(records))
        found = _go_on(told, visible, records)
    log.delete_topic(target)
    return found


def _kill_one(told: Mapping[str, object], visible: Visible, batch: int) -> None:
    with crew(program("recovering"), told) as driver:
        driver.wait_until_ready()
        driver.begin()
        driver.figures()
        until = time.monotonic() + WITHIN_S
        while visible.written() < INTO_THE_SECOND_BATCH * batch:
            if time.monotonic() > until:
                raise TimeoutError(f"no second batch within {WITHIN_S:g} s; {driver.last_words}")
            time.sleep(LOOK_S)
        driver.kill()


def spark_start_s(told: Mapping[str, object]) -> float:
    """From the start of a process that has nothing but Spark to the end of its first job."""
    began = time.perf_counter()
    with crew(program("bare_spark"), told) as bare:
        bare.wait_until_ready()
        return time.perf_counter() - began


def _go_on(told: Mapping[str, object], visible: Visible, records: int) -> Recovered:
    visible.read_all()
    assert visible.seen < records, "the driver was done before it was killed"
    began = time.perf_counter()
    with crew(program("recovering"), told) as driver:
        driver.begin()  # as soon as it can
        driver.wait_until_ready()  # which is when its Spark is
        ready_s = time.perf_counter() - began
        [lease_s] = driver.figures()  # told when the stage is taken, and nothing can have come out of it
        first_at = _first_output(visible, driver)
        driver.figures()  # it is done
        visible.read_all()
    assert visible.seen == records == len(visible.deliveries), (
        f"{records:,} records, of which readers see {visible.seen:,}, {len(visible.deliveries):,} different ones"
    )
    return Recovered(first_at - began - lease_s, ready_s, lease_s)


def _first_output(visible: Visible, driver: Crew) -> float:
    until = time.monotonic() + WITHIN_S
    while not visible.read(LOOK_S):
        if time.monotonic() > until:
            raise TimeoutError(f"nothing new within {WITHIN_S:g} s; {driver.last_words}")
    return time.perf_counter()
