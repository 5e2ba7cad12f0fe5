"""One driver process: runs all stages as soon as they are free, until SIGTERM.

python -m soak.delivery.driver '{"sections": {…}, "url": "…", "delivery": "…", "active": "directory"}'
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from soak.delivery.flow import chain
from soak.queue.connecting import connect_patiently
from towpath import Flow
from towpath.core.logs import configure
from towpath.errors import DatabaseError, LogError, NotTheOnlyOne
from towpath.flow.run.flow_run import FlowRun
from towpath.runtime import Runtime
from towpath.settings import LoggingSettings
from towpath.testing.processes import leave_with_parent, order

LOOK_S = 0.2


def main() -> None:
    leave_with_parent()
    configure(LoggingSettings(level="warning"))
    told = order()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with connect_patiently(told["sections"]) as runtime:
        run = taken(runtime, chain(told["url"], told["delivery"]), stop)
        if run is not None:
            Path(told["active"], str(os.getpid())).touch()
            run.wait(lambda: run.stop() if stop.is_set() else None)


def taken(runtime: Runtime, flow: Flow, stop: threading.Event) -> FlowRun | None:
    """The flow at work, once no living process has it. Spark is started before that: it takes the longest."""
    while not stop.is_set():
        try:
            run = runtime.flow(flow)
            run.start()
            return run
        except (NotTheOnlyOne, DatabaseError, LogError):
            stop.wait(LOOK_S)
    return None


if __name__ == "__main__":
    main()
