"""litequeue: a table, `put`, `pop` and `done`."""

from __future__ import annotations

import json
import time

from litequeue import LiteQueue

from bench.queue.contenders.contract import Order, Stopwatch, handle, payload, payloads, run, saw

POLL_S = 0.001


class Litequeue:
    """`put` in the library's own `transaction()` is its batched send; so are its batched `done`s."""

    def __init__(self, order: Order) -> None:
        self._queue = LiteQueue(order.target, timeout=30)
        self._queue.conn.execute(f"PRAGMA synchronous={order.synchronous}")

    def prepare(self) -> None:
        """The constructor has made the table."""

    def send(self, count: int) -> None:
        for number in range(count):
            self._queue.put(json.dumps(payload(number)))

    def send_batches(self, count: int, batch: int) -> None:
        for messages in payloads(count, batch):
            with self._queue.transaction(mode="IMMEDIATE"):
                for message in messages:
                    self._queue.put(json.dumps(message))

    def drain(self, batch: int, watch: Stopwatch) -> None:
        while claimed := self._claim(batch):
            if batch == 1:
                self._queue.done(claimed[0])
            else:
                with self._queue.transaction(mode="IMMEDIATE"):
                    for message_id in claimed:
                        self._queue.done(message_id)
            watch.done(len(claimed))

    def _claim(self, batch: int) -> list[str]:
        claimed: list[str] = []
        while len(claimed) < batch and (message := self._queue.pop()) is not None:
            handle(json.loads(message.data))
            claimed.append(message.message_id)
        return claimed

    def serve(self) -> None:
        while True:
            message = self._queue.pop()
            if message is None:
                time.sleep(POLL_S)
                continue
            saw(json.loads(message.data)["n"])
            self._queue.done(message.message_id)

    def ask(self, number: int) -> bool:
        self._queue.put(json.dumps(payload(number)))
        return False

    def waiting(self) -> int:
        return int(self._queue.qsize())

    def durability(self) -> str:
        return str(self._queue.conn.execute("PRAGMA synchronous").fetchone()[0])


if __name__ == "__main__":
    run(Litequeue)
