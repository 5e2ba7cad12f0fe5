"""huey on SQLite: tasks, and the loop of its consumer's worker."""

from __future__ import annotations

import threading

from huey import SqliteHuey
from huey.consumer import Worker

from bench.queue.contenders.contract import (
    ANSWER_TIMEOUT_S,
    INBOX,
    Order,
    Stopwatch,
    handle,
    payload,
    run,
)

POLL_S = 0.001


class Huey:
    """huey takes a message off the queue before the task runs: a crash loses it, and no batch exists."""

    def __init__(self, order: Order) -> None:
        self._huey = SqliteHuey(INBOX, filename=order.target, timeout=30)
        self._huey.storage.conn.execute(f"PRAGMA synchronous={order.synchronous}")
        self._handle = self._huey.task(name="handle")(handle)
        self._echo = self._huey.task(name="echo")(lambda message: message["n"])

    def prepare(self) -> None:
        """The constructor has made the tables."""

    def send(self, count: int) -> None:
        for number in range(count):
            self._handle(payload(number))

    def send_batches(self, count: int, batch: int) -> None:
        raise NotImplementedError("huey sends one by one")

    def drain(self, batch: int, watch: Stopwatch) -> None:
        while (task := self._huey.dequeue()) is not None:
            self._huey.execute(task)
            watch.done(1)

    def serve(self) -> None:
        worker = Worker(self._huey, threading.Event(), default_delay=POLL_S, max_delay=POLL_S, backoff=1.0)
        while True:
            worker.loop()

    def ask(self, number: int) -> bool:
        result = self._echo(payload(number))
        answer = result.get(blocking=True, timeout=ANSWER_TIMEOUT_S, max_delay=POLL_S)
        assert answer == number
        return True

    def waiting(self) -> int:
        return int(self._huey.pending_count())

    def durability(self) -> str:
        return str(self._huey.storage.conn.execute("PRAGMA synchronous").fetchone()[0])


if __name__ == "__main__":
    run(Huey)
