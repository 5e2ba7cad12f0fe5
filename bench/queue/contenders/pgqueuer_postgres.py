"""PgQueuer on asyncpg and uvloop, its quickest pair."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import asyncpg  # type: ignore[import-not-found]  # of the peers' environment
import uvloop  # type: ignore[import-not-found]  # of the peers' environment
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode

from bench.queue.contenders.contract import INBOX, Order, Stopwatch, handle, payload, payloads, run, saw
from bench.queue.contenders.postgres import count_rows, synchronous_commit


def as_bytes(message: dict[str, object]) -> bytes:
    return json.dumps(message).encode()


class Pgqueuer:
    """Its worker fetches `batch_size` jobs, runs them as tasks and writes their ends in such batches."""

    def __init__(self, order: Order) -> None:
        self._target = order.target
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._queuer = self._runner.run(self._open())

    async def _open(self) -> PgQueuer:
        return PgQueuer.from_asyncpg_connection(await asyncpg.connect(self._target))

    def prepare(self) -> None:
        self._runner.run(self._queuer.qm.queries.install())

    def send(self, count: int) -> None:
        self._runner.run(self._send(count))

    async def _send(self, count: int) -> None:
        for number in range(count):
            await self._queuer.qm.queries.enqueue(INBOX, as_bytes(payload(number)))

    def send_batches(self, count: int, batch: int) -> None:
        self._runner.run(self._send_batches(count, batch))

    async def _send_batches(self, count: int, batch: int) -> None:
        for messages in payloads(count, batch):
            bodies: list[bytes | None] = [as_bytes(message) for message in messages]
            size = len(bodies)
            await self._queuer.qm.queries.enqueue([INBOX] * size, bodies, [0] * size)

    def drain(self, batch: int, watch: Stopwatch) -> None:
        handled = 0

        @self._queuer.entrypoint(INBOX)
        async def count(job: Job) -> None:
            nonlocal handled
            handle(json.loads(job.payload or b""))
            handled += 1

        self._runner.run(
            self._queuer.qm.run(
                batch_size=batch,
                mode=QueueExecutionMode.drain,
                dequeue_timeout=timedelta(seconds=1),
            )
        )
        watch.done(handled)

    def serve(self) -> None:
        @self._queuer.entrypoint(INBOX)
        async def report(job: Job) -> None:
            saw(json.loads(job.payload or b"")["n"])

        self._runner.run(self._queuer.qm.run(batch_size=1))

    def ask(self, number: int) -> bool:
        self._runner.run(self._queuer.qm.queries.enqueue(INBOX, as_bytes(payload(number))))
        return False

    def waiting(self) -> int:
        return count_rows(self._target, "SELECT count(*) FROM pgqueuer")

    def durability(self) -> str:
        return synchronous_commit(self._target)


if __name__ == "__main__":
    run(Pgqueuer)
