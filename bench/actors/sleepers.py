"""Ten thousand that sleep: what they cost who has nothing to do and who claims, and what happens when all wake up."""

from __future__ import annotations

import os
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import towpath
from bench.actors import programs
from bench.actors.cast import CAST, Herd, Herder, One, Stepper
from bench.actors.contenders.contract import HostOrder
from bench.actors.lines import Store
from bench.actors.looking import due_or_running, in_phase, wait_for
from bench.actors.stores import Stores
from bench.actors.takeover import hosting
from bench.flow.process import Crew, crew
from towpath.runtime import Runtime

NAP_S = 3600.0
PAST_IT_S = NAP_S + 600
SETTLE_S = 3.0
LOOK_EVERY_S = 0.1  # looking costs, with so many
CLAIMS = 150
CLAIM_SIZE = 10
INBOX = "plain"


@dataclass(frozen=True)
class Slept:
    """What one herd has shown; claims are seconds."""

    idle_share: float
    all_taken_s: float
    message_s: float
    message_alone_s: float
    actor_s: float
    actor_alone_s: float


def sleep_and_wake(stores: Stores, store: Store, sleepers: int, watch_s: float) -> Slept:
    with ExitStack() as open_things:
        url = open_things.enter_context(stores.fresh(store))
        runtime = _connected(open_things, url)
        owner = hosting(open_things, url, "owner")
        runtime.actors.start(Herder, Herd(sleepers, NAP_S))
        wait_for(
            lambda: in_phase(runtime.database, "sleeping") == sleepers, f"{sleepers:,} sleep", every_s=LOOK_EVERY_S
        )
        idle_share = _idle_share(owner, watch_s)
        with crew(programs.ours("hosting"), HostOrder(url, "next").as_told()) as successor:
            successor.wait_until_ready()
            all_taken_s = _wake_and_kill(runtime, owner, successor, sleepers)
            successor.kill()
        alone = _connected(open_things, open_things.enter_context(stores.fresh(store)))
        message_s, message_alone_s = _messages(runtime, alone)
        actor_s, actor_alone_s = _actors(runtime, alone)
        return Slept(idle_share, all_taken_s, message_s, message_alone_s, actor_s, actor_alone_s)


def _connected(open_things: ExitStack, url: str) -> Runtime:
    runtime = open_things.enter_context(towpath.connect(url))
    runtime.actors.register(*CAST)
    return runtime


def _idle_share(host: Crew, watch_s: float) -> float:
    time.sleep(SETTLE_S)
    before = cpu_s(host.pid)
    time.sleep(watch_s)
    return (cpu_s(host.pid) - before) / watch_s


def cpu_s(pid: int) -> float:
    """What a process has used, by the kernel: fields 14 and 15, counted after the program's name in brackets."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wake_and_kill(runtime: Runtime, owner: Crew, successor: Crew, sleepers: int) -> float:
    """All fall due at once, their host dies as soon as it has begun with them, the next one begins."""
    database = runtime.database
    database.shift_clock(PAST_IT_S)
    wait_for(lambda: in_phase(database, "running") > 0, "the owner has begun")
    killed = time.monotonic()
    owner.kill()
    left = due_or_running(database)
    assert left > sleepers * 0.9, f"the owner was too fast: {left} are left"
    successor.begin()
    wait_for(lambda: due_or_running(database) == 0, "all have been run", every_s=LOOK_EVERY_S)
    took_s = time.monotonic() - killed
    assert in_phase(database, "sleeping") == sleepers, "every one of them sleeps again"
    return took_s


def _messages(beside: Runtime, alone: Runtime) -> tuple[float, float]:
    """The median time of a claim of plain messages, with sleepers and without, in turn."""
    inboxes = []
    for runtime in (beside, alone):
        inboxes.append(runtime.queue.inbox(INBOX))
        runtime.queue.outbox("bench").notice_many(INBOX, "count", range(CLAIMS * CLAIM_SIZE))
    times: tuple[list[float], list[float]] = [], []
    for turn in range(2 * CLAIMS):
        began = time.perf_counter()
        messages = inboxes[turn % 2].claim(CLAIM_SIZE)
        times[turn % 2].append(time.perf_counter() - began)
        assert len(messages) == CLAIM_SIZE
        inboxes[turn % 2].finish(messages)
    return statistics.median(times[0]), statistics.median(times[1])


def _actors(beside: Runtime, alone: Runtime) -> tuple[float, float]:
    """The same for actors that are due. They are let in and claimed by hand: nobody runs them."""
    hosts = [runtime.actors.host() for runtime in (beside, alone)]
    for runtime, host in zip((beside, alone), hosts, strict=True):
        for number in range(CLAIMS * CLAIM_SIZE):
            runtime.actors.start(Stepper, One(number), instance=f"due-{number}")
        while host._intake.take(frozenset()):
            pass
    times: tuple[list[float], list[float]] = [], []
    for turn in range(2 * CLAIMS):
        began = time.perf_counter()
        claimed = hosts[turn % 2]._claimer.claim(CLAIM_SIZE, frozenset())
        times[turn % 2].append(time.perf_counter() - began)
        assert len(claimed) == CLAIM_SIZE
    return statistics.median(times[0]), statistics.median(times[1])
