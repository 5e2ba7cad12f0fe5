"""DBOS queues: workflows that are enqueued by a client and run by a launched application."""

from __future__ import annotations

import os
import threading
import time

from dbos import DBOS, DBOSClient, DBOSConfig

from bench.queue.contenders.contract import INBOX, Operation, Order, Stopwatch, payload, run
from bench.queue.contenders.postgres import count_rows, synchronous_commit

POLL_S = 0.005
APPLICATION_VERSION = "bench"
LEFT = "SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')"


class Dbos:
    """Every message is a workflow with its own rows; `batch` is the number that may run at once."""

    def __init__(self, order: Order) -> None:
        self._target = order.target
        self._handled = 0
        self._watch: Stopwatch | None = None
        self._lock = threading.Lock()
        if order.operation in (Operation.PREPARE, Operation.SERVE, Operation.DRAIN):
            self._make_application()
        else:
            self._client = DBOSClient(system_database_url=order.target)

    def _make_application(self) -> None:
        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": self._target,
            "application_version": APPLICATION_VERSION,
            "executor_id": f"bench-{os.getpid()}",
            "log_level": "ERROR",
            "run_admin_server": False,
        }
        DBOS(config=config)

        @DBOS.workflow(name="handle")
        def handle(message: dict[str, object]) -> object:
            self._count()
            return message["n"]

    def _count(self) -> None:
        with self._lock:
            if self._handled == 0 and self._watch is not None:
                # Launching is start-up: the clock runs from the first message.
                self._watch.restart()
            self._handled += 1

    def _launch(self, at_once: int | None) -> None:
        DBOS.launch()
        DBOS.register_queue(
            INBOX,
            worker_concurrency=at_once,
            polling_interval_sec=POLL_S,
            on_conflict="always_update",
        )

    def prepare(self) -> None:
        self._launch(at_once=None)
        DBOS.destroy()

    def send(self, count: int) -> None:
        for number in range(count):
            self._enqueue(number)

    def _enqueue(self, number: int):
        return self._client.enqueue(
            {"queue_name": INBOX, "workflow_name": "handle", "app_version": APPLICATION_VERSION},
            payload(number),
        )

    def send_batches(self, count: int, batch: int) -> None:
        raise NotImplementedError("DBOS enqueues one by one")

    def drain(self, batch: int, watch: Stopwatch) -> None:
        self._watch = watch
        self._launch(at_once=batch)
        while count_rows(self._target, LEFT):
            time.sleep(0.02)
        watch.done(self._handled)
        DBOS.destroy()

    def serve(self) -> None:
        self._launch(at_once=None)
        threading.Event().wait()

    def ask(self, number: int) -> bool:
        assert self._enqueue(number).get_result(polling_interval_sec=POLL_S) == number
        return True

    def waiting(self) -> int:
        return count_rows(self._target, LEFT)

    def durability(self) -> str:
        return synchronous_commit(self._target)


if __name__ == "__main__":
    run(Dbos)
