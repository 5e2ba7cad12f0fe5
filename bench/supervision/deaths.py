"""Processes that are killed, or stopped so that they keep silent: by the times that are written down."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import datetime

from bench.supervision.ground import duty, is_all_ready, pid, until
from towpath.core.clock import to_datetime
from towpath.runtime import Runtime


def killed(runtime: Runtime, name: str, how: signal.Signals) -> tuple[float, float]:
    """Seconds until its death was noticed, and from then until another was ready to work."""
    until(lambda: is_all_ready(runtime), "everything ready")
    launch, victim = duty(runtime, name).launch, pid(runtime, name)
    struck = to_datetime(runtime.database.now())
    os.kill(victim, how)
    until(lambda: duty(runtime, name).launch > launch and duty(runtime, name).state == "ready", f"{name} back")
    death = next(each for each in runtime.duties.deaths(duty=name) if each.launch == launch)
    back = to_datetime(duty(runtime, name).ready_us or 0)
    return _seconds(struck, death.noticed_at), _seconds(death.noticed_at, back)


def new_coordinator(runtime: Runtime) -> float:
    """Seconds from the death of the coordinator until another peer holds the term."""
    until(lambda: is_all_ready(runtime), "everything ready")
    found = runtime.duties.overview()
    if found.coordinator is None:
        raise RuntimeError("nobody coordinates")
    victim = next(each for each in found.duties if each.process_id == found.coordinator.id)
    struck = to_datetime(runtime.database.now())
    os.kill(found.coordinator.pid, signal.SIGKILL)
    until(lambda: _is_another(runtime, found.term.number), "another coordinator")
    taken = to_datetime(runtime.duties.overview().term.taken_us or 0)
    until(lambda: duty(runtime, victim.name).launch > victim.launch, f"{victim.name} started again")
    return _seconds(struck, taken)


def _is_another(runtime: Runtime, term: int) -> bool:
    now = runtime.duties.overview()
    return now.has_coordinator and now.term.number > term


def _seconds(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds()


def deaths_of(runtime: Runtime, act: Callable[[], None]) -> int:
    """How many there were while something was done that ought to kill nobody."""
    until(lambda: is_all_ready(runtime), "everything ready")
    before = {each.seq for each in runtime.duties.deaths(limit=10_000)}
    act()
    return len({each.seq for each in runtime.duties.deaths(limit=10_000)} - before)
