"""persist-queue: the SQLite queue with acknowledgement."""

from __future__ import annotations

import os
import time

from persistqueue import Empty, SQLiteAckQueue
from persistqueue.serializers import json as json_serializer

from bench.queue.contenders.contract import Order, Stopwatch, handle, payload, run, saw

POLL_S = 0.001


class PersistQueue:
    """Every `put`, `get` and `ack` commits; two reading processes get the same messages."""

    def __init__(self, order: Order) -> None:
        directory, name = os.path.split(order.target)
        self._queue = SQLiteAckQueue(directory, db_file_name=name, serializer=json_serializer, timeout=30)
        self._connection = self._queue._putter
        self._connection.execute(f"PRAGMA synchronous={order.synchronous}")

    def prepare(self) -> None:
        """The constructor has made the table."""

    def send(self, count: int) -> None:
        for number in range(count):
            self._queue.put(payload(number))

    def send_batches(self, count: int, batch: int) -> None:
        raise NotImplementedError("persist-queue sends one by one")

    def drain(self, batch: int, watch: Stopwatch) -> None:
        while (message := self._get()) is not None:
            handle(message["data"])
            self._queue.ack(id=message["pqid"])
            watch.done(1)

    def _get(self) -> dict[str, dict[str, object]] | None:
        try:
            message: dict[str, dict[str, object]] = self._queue.get(block=False, raw=True)
        except Empty:
            return None
        return message

    def serve(self) -> None:
        while True:
            message = self._get()
            if message is None:
                time.sleep(POLL_S)
                continue
            saw(message["data"]["n"])
            self._queue.ack(id=message["pqid"])

    def ask(self, number: int) -> bool:
        self._queue.put(payload(number))
        return False

    def waiting(self) -> int:
        return int(self._queue._count()) + int(self._queue.unack_count())

    def durability(self) -> str:
        return str(self._connection.execute("PRAGMA synchronous").fetchone()[0])


if __name__ == "__main__":
    run(PersistQueue)
