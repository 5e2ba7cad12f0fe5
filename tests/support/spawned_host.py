"""A host of spawners as a process of its own, told which classes of `spawned` and which settings."""

from __future__ import annotations

import signal
import threading

from tests.support import spawned

import towpath
from towpath.testing.clock import wait_for_handler
from towpath.testing.processes import leave_with_parent, order


def main() -> None:
    told = order()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    with towpath.connect(**told["sections"]) as runtime:
        runtime.actors.register(*(getattr(spawned, name) for name in told["classes"]))
        host = runtime.actors.host()
        host.start()
        leave_with_parent()
        wait_for_handler(stop)
        host.stop()


if __name__ == "__main__":
    main()
