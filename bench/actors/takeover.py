"""From the kill of a host in the middle of a state to the state going on in another one."""

from __future__ import annotations

import time
from contextlib import ExitStack
from uuid import uuid4

import towpath
from bench.actors import programs
from bench.actors.cast import CAST, Linger, Lingerer
from bench.actors.contenders.contract import HostOrder
from bench.actors.lines import Store
from bench.actors.stores import Stores
from bench.flow.process import Crew, crew
from towpath.runtime import Runtime

SURVIVOR = "survivor"


def hosting(open_things: ExitStack, url: str, name: str) -> Crew:
    """A host in a process of its own, which has begun."""
    host = open_things.enter_context(crew(programs.ours("hosting"), HostOrder(url, name).as_told()))
    host.wait_until_ready()
    host.begin()
    return host


def goes_on_s(stores: Stores, store: Store, kills: int) -> list[float]:
    """So many kills of hosts, beside one that survives: for each the time from the kill to going on there."""
    with ExitStack() as open_things:
        url = open_things.enter_context(stores.fresh(store))
        runtime = open_things.enter_context(towpath.connect(url))
        runtime.actors.register(*CAST)
        survivor = hosting(open_things, url, SURVIVOR)
        return [_kill(runtime, url, survivor) for _ in range(kills)]


def _kill(runtime: Runtime, url: str, survivor: Crew) -> float:
    with ExitStack() as open_things:
        name = f"victim-{uuid4().hex[:8]}"
        victim = hosting(open_things, url, name)
        runtime.actors.start(Lingerer, Linger(name), instance=name)
        victim.figures()  # it is in the middle of it
        killed = time.monotonic()
        victim.kill()
        [went_on] = survivor.figures()
        return went_on - killed
