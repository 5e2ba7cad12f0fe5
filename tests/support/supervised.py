"""Duties that a test lets run: their programs, and a coordinator that keeps them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.leases import LONG_LEASE_S
from tests.support.pausing import pause_without_a_lock
from tests.support.tables import by_hand

from towpath.actors.spawner.launch import variables
from towpath.runtime import Runtime
from towpath.supervision.duties.model import Duty, DutySpec, DutyState, NewDuty
from towpath.supervision.duties.store import Death
from towpath.supervision.launchers.subprocess import SubprocessLauncher
from towpath.testing.clock import wait_until

ROOT = Path(__file__).parents[2]
WAIT_S = 120.0
LONG_SILENT_S = LONG_LEASE_S  # where nobody is to be taken for silent
HOST = "here"

# Takes what waits in `work`, says that it is ready, and does nothing more until it is told to end.
WORKER = """
import signal, sys, threading
import towpath
from towpath.testing.clock import wait_for_handler
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
with towpath.connect() as runtime:
    runtime.queue.inbox("work").claim(10)
    print("ready", runtime.process().id, flush=True)
    runtime.process().ready("works")
    wait_for_handler(ended)
print("ended in order", flush=True)
"""
# Ends at once.
BROKEN = "import sys; print('no luck', flush=True); sys.exit(3)"
# Does not hear that it is to end.
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


def sections(home: Path, host: str = HOST, *, silent_s: float = LONG_SILENT_S, **supervision: Any) -> dict[str, Any]:
    """Settings under which deaths are noticed quickly, also on a machine that is busy with other tests.

    Who neither beats nor answers for `silent_s` is ended by force: without pings, not before its lease is over.
    """
    quick = {"retry_least_s": 0.05, "retry_most_s": 0.2, "settle_s": 0.3, "lease_s": 4.0, "early_deaths": 3}
    return {
        "supervision": {
            "host": host,
            "directory": str(home / host),
            "secret": "s" * 20,
            "silent_s": silent_s,
            **quick,
            **supervision,
        },
        "process": {"heartbeat_s": 0.3, "lease_s": silent_s},
    }


@dataclass
class Keeping:
    """A coordinator without peers, in a thread of the test's own process."""

    runtime: Runtime
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def environment(self) -> dict[str, str]:
        """The settings of the runtime for its children."""
        found = variables(self.runtime.settings)
        return {**found, "TOWPATH_PROCESS__NAME": "towpath", "PYTHONPATH": str(ROOT)}

    def want(self, name: str, program: str, *, host: str = HOST, reports: bool = True, **spec: Any) -> None:
        """Let a Python program run by duty."""
        command = (sys.executable, "-c", program)
        self.want_command(name, command, host=host, reports=reports, **spec)

    def want_command(self, name: str, command: tuple[str, ...], *, host: str = HOST, **spec: Any) -> None:
        environment = {**self.environment, **spec.pop("environment", {})}
        wanted = NewDuty(name, "command", host, DutySpec(command, environment=environment, **spec))
        known = {duty.name: NewDuty(duty.name, duty.kind, duty.host, duty.spec) for duty in self.duties()}
        self.runtime.duties.want([*{**known, name: wanted}.values()], who="ann", why="a test")

    def duties(self) -> list[Duty]:
        return self.runtime.duties.overview().duties

    def duty(self, name: str) -> Duty:
        return self.runtime.duties.show(name).duty

    def deaths(self, name: str) -> list[Death]:
        """The oldest first."""
        return self.runtime.duties.deaths(duty=name)[::-1]

    def pid(self, name: str) -> int:
        process = self.runtime.duties.show(name).process
        assert process is not None
        return process.pid

    def signal(self, name: str, which: signal.Signals) -> int:
        pid = self.pid(name)
        os.kill(pid, which)
        return pid

    def pause(self, name: str) -> int:
        pid = self.pid(name)
        pause_without_a_lock(pid, self.runtime.database)
        return pid

    def wait_for(self, name: str, state: DutyState, launch: int | None = None) -> Duty:
        def is_so() -> Duty | None:
            duty = self.duty(name)
            return duty if duty.state is state and launch in (None, duty.launch) else None

        found = wait_until(is_so, WAIT_S, f"{name} is {state}, launch {launch or 'any'}")
        assert isinstance(found, Duty)
        return found

    def log(self, name: str) -> list[str]:
        return list(self.runtime.duties.logs(name))


@contextmanager
def keeping(runtime: Runtime, *, coordinates: bool = True, ends: bool = True) -> Iterator[Keeping]:
    """Duties are kept inside the block; after it, if it `ends` them, all that was started is gone.

    Who does not coordinate only serves its host.
    """
    kept = Keeping(runtime)
    steward = runtime.steward()
    working = threading.Thread(
        target=steward.work, args=(kept.ended.is_set, float("inf"), lambda: coordinates), name="steward", daemon=True
    )
    working.start()
    try:
        yield kept
    finally:
        kept.ended.set()
        working.join(60)
        if ends:
            end_all(runtime)
        assert not working.is_alive()


def end_term(runtime: Runtime) -> None:
    """The lease of a coordinator that does not renew its term any more runs out."""
    by_hand(runtime.database, "update supervision_term set lease_until = 0")


def end_all(runtime: Runtime) -> None:
    """End by force whatever was started here as a subprocess."""
    launcher = SubprocessLauncher(Path(runtime.settings.supervision.directory))
    for handle in launcher.handles():
        launcher.kill(handle)
