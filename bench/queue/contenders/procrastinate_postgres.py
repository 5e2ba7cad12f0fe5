"""procrastinate on psycopg: deferred jobs and its asynchronous worker."""

from __future__ import annotations

import asyncio

from procrastinate import App, PsycopgConnector

from bench.queue.contenders.contract import INBOX, Order, Stopwatch, handle, payload, payloads, run, saw
from bench.queue.contenders.postgres import count_rows, synchronous_commit

POOL_SIZE = 32


class Procrastinate:
    """Its worker fetches one job at a time; `concurrency` is what it has in place of a batch."""

    def __init__(self, order: Order) -> None:
        self._target = order.target
        self._handled = 0
        self._app = App(connector=PsycopgConnector(conninfo=order.target, max_size=POOL_SIZE))
        self._handle = self._app.task(name="handle", queue=INBOX)(self._count)
        self._see = self._app.task(name="see", queue=INBOX)(self._report)
        self._runner = asyncio.Runner()
        self._runner.run(self._open())

    async def _open(self) -> None:
        await self._app.open_async()

    async def _count(self, **message: object) -> None:
        handle(message)
        self._handled += 1

    async def _report(self, **message: object) -> None:
        saw(message["n"])

    def prepare(self) -> None:
        self._runner.run(self._app.schema_manager.apply_schema_async())

    def send(self, count: int) -> None:
        self._runner.run(self._send(count))

    async def _send(self, count: int) -> None:
        for number in range(count):
            await self._handle.defer_async(**payload(number))

    def send_batches(self, count: int, batch: int) -> None:
        self._runner.run(self._send_batches(count, batch))

    async def _send_batches(self, count: int, batch: int) -> None:
        for messages in payloads(count, batch):
            await self._handle.batch_defer_async(*messages)

    def drain(self, batch: int, watch: Stopwatch) -> None:
        self._runner.run(self._work(wait=False, concurrency=batch))
        watch.done(self._handled)

    def serve(self) -> None:
        self._runner.run(self._work(wait=True, concurrency=1))

    async def _work(self, wait: bool, concurrency: int) -> None:
        await self._app.run_worker_async(
            queues=[INBOX], wait=wait, concurrency=concurrency, install_signal_handlers=False
        )

    def ask(self, number: int) -> bool:
        self._runner.run(self._see.defer_async(**payload(number)))
        return False

    def waiting(self) -> int:
        return count_rows(self._target, "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')")

    def durability(self) -> str:
        return synchronous_commit(self._target)


if __name__ == "__main__":
    run(Procrastinate)
