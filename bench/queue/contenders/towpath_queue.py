"""Towpath itself, on either store."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing

import towpath
from bench.queue.contenders.contract import (
    ANSWER_TIMEOUT_S,
    INBOX,
    Order,
    Stopwatch,
    handle,
    payload,
    payloads,
    run,
)
from bench.queue.contenders.postgres import count_rows, synchronous_commit
from towpath.db.database import Query

FUNCTION = "handle"
UNFINISHED = "state IN ('NEW', 'ACK')"


class Towpath:
    """Notices for sending and draining; requests with answers for round trips."""

    def __init__(self, order: Order) -> None:
        self._target = order.target
        self._is_postgres = order.target.startswith("postgresql:")
        if not self._is_postgres:
            os.environ["TOWPATH_DATABASE__SYNCHRONOUS"] = order.synchronous
        self._runtime = towpath.connect(order.target if self._is_postgres else f"sqlite:///{order.target}")
        self._queue = self._runtime.queue
        self._inbox = self._queue.inbox(INBOX)
        self._outbox = self._queue.outbox(f"client-{os.getpid()}")

    def prepare(self) -> None:
        """Connecting has made the tables and the inbox."""
        self._runtime.close()

    def send(self, count: int) -> None:
        for number in range(count):
            self._outbox.notice(INBOX, FUNCTION, payload(number))

    def send_batches(self, count: int, batch: int) -> None:
        for messages in payloads(count, batch):
            self._outbox.notice_many(INBOX, FUNCTION, messages)

    def drain(self, batch: int, watch: Stopwatch) -> None:
        messages = self._inbox.claim(batch)
        while messages:
            for message in messages:
                handle(message.payload)
            count = len(messages)
            messages = self._inbox.exchange(messages, limit=batch)
            watch.done(count)

    def serve(self) -> None:
        worker = self._queue.synchronous(INBOX)
        worker.on(FUNCTION)(lambda message: message.payload["n"])
        worker.start()
        threading.Event().wait()

    def ask(self, number: int) -> bool:
        answer = self._outbox.request(INBOX, FUNCTION, payload(number), timeout_s=ANSWER_TIMEOUT_S)
        assert answer.payload == number
        return True

    def waiting(self) -> int:
        if self._is_postgres:
            return count_rows(self._target, f"SELECT count(*) FROM towpath.message WHERE {UNFINISHED}")
        with closing(sqlite3.connect(self._target)) as connection:
            row = connection.execute(f"SELECT count(*) FROM message WHERE {UNFINISHED}").fetchone()
        return int(row[0])

    def durability(self) -> str:
        if self._is_postgres:
            return synchronous_commit(self._target)
        # Threads have connections of their own; this is the one that did the work.
        with self._runtime.database.read() as tx:
            return str(tx.rows(Query("synchronous", "PRAGMA synchronous", uses_now=False), {})[0][0])


if __name__ == "__main__":
    run(Towpath)
