"""Lanes: how soon after it is due a record is in the re-entry topic."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from bench.desk.cases import make_cases, make_topics
from bench.desk.replay import parts_of
from towpath.core.clock import MICROS
from towpath.desk.cases.model import CaseState
from towpath.desk.cases.store import CaseStore
from towpath.desk.replay.outbox import OutboxWriter
from towpath.desk.replay.relay import Relay
from towpath.desk.replay.replayer import Replayer
from towpath.flow.records.reentry import CORRELATION, said_by
from towpath.flow.topics import FlowTopics
from towpath.runtime import Runtime

DELAY_S = 3.0
EVERY_S = 0.05
LOOK_S = 0.01
LONGEST_S = 120.0


def release_delays_s(runtime: Runtime, flow: str, count: int) -> list[float]:
    """For records that become due one after the other: seconds from due to when a reader has each."""
    make_topics(runtime, flow)
    ids = make_cases(runtime, flow, count).cases
    relay, replayer = Relay(parts_of(runtime)), Replayer(parts_of(runtime))
    relay.start()
    replayer.start()
    try:
        with ThreadPoolExecutor(1) as reader:
            seen_later = reader.submit(_seen, runtime, flow, count)
            due = {id: _replay(runtime, id) for id in ids}
            seen = seen_later.result()
    finally:
        replayer.stop()
        relay.stop()
    return [seen[id] - due[id] for id in ids]


def median_s(delays_s: list[float]) -> float:
    return median(delays_s)


def _replay(runtime: Runtime, id: str) -> float:
    """Send one to a lane, and rest a little; returns when it is due, in seconds since 1970."""
    time.sleep(EVERY_S)
    with runtime.database.transaction() as tx:
        cases = CaseStore(runtime.database)
        found = list(cases.lock(tx, [id]).values())
        OutboxWriter(runtime.database).replay(
            tx, found, delay_s=DELAY_S, frm=[CaseState.OPEN], who="bench", why="bench"
        )
        due_at = cases.read(tx, id).due_at
    if due_at is None:
        raise AssertionError(f"{id} does not wait")
    return due_at.timestamp()


def _seen(runtime: Runtime, flow: str, count: int) -> dict[str, float]:
    topic = FlowTopics.of(flow).reentry
    at = runtime.log.starts(topic)
    seen: dict[str, float] = {}
    deadline = time.monotonic() + LONGEST_S
    while len(seen) < count and time.monotonic() < deadline:
        now_s = runtime.database.now() / MICROS
        for number, end in runtime.log.ends(topic).items():
            for record in runtime.log.read(topic, number, at[number], end):
                seen.setdefault(said_by(record.headers)[CORRELATION], now_s)
            at[number] = end
        time.sleep(LOOK_S)
    return seen
