"""One worker process: handles both inboxes, and writes down each message before it is done with it."""

from __future__ import annotations

import random
import signal
import threading
from pathlib import Path
from typing import Any

from soak.queue.connecting import connect_patiently
from soak.queue.plan import ASYNCHRONOUS, SYNCHRONOUS
from towpath import Message
from towpath.core.logs import configure
from towpath.queue.consumers import Worker
from towpath.settings import LoggingSettings
from towpath.testing.clock import wait_for_handler
from towpath.testing.processes import leave_with_parent, order
from towpath.testing.queue_ledger import Journal

THREADS = 4
LONGEST_WORK_S = 0.01


def main() -> None:
    leave_with_parent()
    configure(LoggingSettings(level="error"))
    told = order()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    # Written to the page cache, not to disk: processes are killed here, not the machine.
    journal = Journal(Path(told["journal"]), durable=False)
    with connect_patiently(told["sections"]) as runtime:
        workers: list[Worker] = [
            runtime.queue.asynchronous(ASYNCHRONOUS, THREADS),
            runtime.queue.synchronous(SYNCHRONOUS),
        ]
        for worker in workers:
            subscribe(worker, journal)
            worker.start()
        wait_for_handler(stop)
        for worker in workers:
            worker.stop()


def subscribe(worker: Worker, journal: Journal) -> None:
    pause = threading.Event()  # never set: only its timeout is used

    @worker.on("work")
    def work(message: Message) -> Any:
        pause.wait(random.uniform(0, LONGEST_WORK_S))
        journal.write(id=message.id, owner=message.owner)
        return {"answer": message.payload["n"]}

    @worker.on("fail")
    def fail(message: Message) -> Any:
        journal.write(id=message.id, owner=message.owner)
        raise ValueError("told to fail")


if __name__ == "__main__":
    main()
