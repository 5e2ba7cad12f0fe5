"""pgqrs: a Rust core with asynchronous Python bindings."""

from __future__ import annotations

import asyncio

import pgqrs

from bench.queue.contenders.contract import INBOX, Order, Stopwatch, handle, payload, payloads, run, saw
from bench.queue.contenders.postgres import count_rows, synchronous_commit

POLL_MS = 1
MAX_BATCH = 10_000


class Pgqrs:
    """`enqueue_batch`, `dequeue` of many and `archive_many`; archiving is how its users acknowledge."""

    def __init__(self, order: Order) -> None:
        self._target = order.target
        self._runner = asyncio.Runner()
        self._store = self._runner.run(self._connect())
        if order.operation != "prepare":
            self._producer, self._consumer = self._runner.run(self._join())

    async def _connect(self) -> pgqrs.Store:
        config = pgqrs.Config(self._target)
        # Off: the default refuses more than a hundred messages in a second.
        config.max_enqueue_per_second = None
        config.default_max_batch_size = MAX_BATCH
        return await pgqrs.connect_with(config)

    async def _join(self) -> tuple[pgqrs.Producer, pgqrs.Consumer]:
        return await self._store.producer(INBOX), await self._store.consumer(INBOX)

    def prepare(self) -> None:
        self._runner.run(self._prepare())

    async def _prepare(self) -> None:
        await pgqrs.admin(self._store).install()
        await self._store.queue(INBOX)

    def send(self, count: int) -> None:
        self._runner.run(self._send(count))

    async def _send(self, count: int) -> None:
        for number in range(count):
            await self._producer.enqueue(payload(number))

    def send_batches(self, count: int, batch: int) -> None:
        self._runner.run(self._send_batches(count, batch))

    async def _send_batches(self, count: int, batch: int) -> None:
        for messages in payloads(count, batch):
            await pgqrs.enqueue_batch(self._producer, messages)

    def drain(self, batch: int, watch: Stopwatch) -> None:
        self._runner.run(self._drain(batch, watch))

    async def _drain(self, batch: int, watch: Stopwatch) -> None:
        while messages := await self._consumer.dequeue(batch):
            for message in messages:
                handle(message.payload)
            if batch == 1:
                await self._consumer.archive(messages[0].id)
            else:
                await self._consumer.archive_many([message.id for message in messages])
            watch.done(len(messages))

    def serve(self) -> None:
        self._runner.run(self._serve())

    async def _serve(self) -> None:
        async for message in self._store.consume_iter(INBOX, poll_interval_ms=POLL_MS):
            saw(message.payload["n"])
            await self._consumer.archive(message.id)

    def ask(self, number: int) -> bool:
        self._runner.run(self._ask(number))
        return False

    async def _ask(self, number: int) -> None:
        await self._producer.enqueue(payload(number))

    def waiting(self) -> int:
        return count_rows(self._target, "SELECT count(*) FROM pgqrs_messages WHERE archived_at IS NULL")

    def durability(self) -> str:
        return synchronous_commit(self._target)


if __name__ == "__main__":
    run(Pgqrs)
