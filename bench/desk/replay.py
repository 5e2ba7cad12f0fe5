"""Replaying a group: from a person's order to records in the re-entry topic, by bulk job, outbox and relay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.desk.cases import make_cases, make_topics
from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.job_store import JobState, JobStore
from towpath.desk.cases.blobs import blobs_of
from towpath.desk.cases.model import CaseSelection
from towpath.desk.replay.outbox import OutboxStore, ReplayContext
from towpath.flow.records.reentry import CORRELATION, said_by
from towpath.flow.topics import FlowTopics
from towpath.runtime import Runtime

LOOK_S = 0.05
GRACE_S = 30.0


@dataclass(frozen=True)
class Replayed:
    """How long it took, how many records lie in the topic afterwards, and of how many cases."""

    cases: int
    seconds: float
    records: int
    replayed: int

    @property
    def rate_s(self) -> float:
        """Raises `AssertionError` unless every case is in the topic, and once."""
        if not self.cases == self.records == self.replayed:
            told = f"{self.records} records of {self.replayed} cases"
            raise AssertionError(f"{told} are in the re-entry topic, and {self.cases} cases were replayed")
        return self.cases / self.seconds


def replay_group(runtime: Runtime, flow: str, count: int) -> Replayed:
    """One bulk job, carried out by all that `towpath desk run` runs."""
    make_topics(runtime, flow)
    with running(runtime):
        _order(runtime, make_cases(runtime, flow, 1).group)  # a desk that runs has its producer open
        group = make_cases(runtime, flow, count).group
        begun = time.perf_counter()
        _order(runtime, group)
        seconds = time.perf_counter() - begun
    found = _correlations(runtime, flow)
    return Replayed(count, seconds, len(found) - 1, len({*found}) - 1)


@contextmanager
def running(runtime: Runtime) -> Iterator[None]:
    """All services of the desk, in this process."""
    services = runtime.desk_services()
    services.start()
    try:
        yield
    finally:
        services.stop(GRACE_S)


def parts_of(runtime: Runtime) -> ReplayContext:
    """What relay and replayer are made of."""
    blob = blobs_of(runtime.settings).read
    common = (runtime.settings, runtime.database, runtime.events, runtime.event_log)
    return ReplayContext(*common, log=runtime.log, process=runtime.process, blob=blob)


def _order(runtime: Runtime, group: int) -> None:
    """Replay a group, and wait until the job has ended and everything is sent."""
    job = runtime.desk.jobs.plan(JobKind.REPLAY, CaseSelection(group=group), who="bench", why="bench", begin=True)
    jobs, outbox = JobStore(runtime.database), OutboxStore(runtime.database)
    while True:
        with runtime.database.read() as tx:
            if jobs.read(tx, job.id).state is JobState.FINISHED and not outbox.counts(tx):
                return
        time.sleep(LOOK_S)


def _correlations(runtime: Runtime, flow: str) -> list[str]:
    """The case of each record in the re-entry topic."""
    log, topic = runtime.log, FlowTopics.of(flow).reentry
    return [
        said_by(record.headers)[CORRELATION]
        for number, start in log.starts(topic).items()
        for record in log.read(topic, number, start)
    ]
