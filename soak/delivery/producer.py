"""Sends numbered records at a steady pace, with a plain client, from a thread of its own."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as Client

from soak.delivery.flow import PARTITIONS, SOURCE
from soak.delivery.records import values

EVERY_S = 0.1
FLUSH_S = 120.0


class Producer:
    """Idempotent, and patient with a broker that is away: each record is in the source once."""

    def __init__(self, bootstrap: str, per_s: int, seed: int) -> None:
        silent = logging.getLogger("soak.delivery.kafka")
        silent.addHandler(logging.NullHandler())
        silent.propagate = False
        properties: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 0,  # never given up
            "reconnect.backoff.max.ms": 500,
            "logger": silent,
        }
        self._client = Client(properties)
        self._per_turn = max(1, round(per_s * EVERY_S))
        self._values = values(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self.sent = 0
        self.errors: list[str] = []

    def finish(self) -> None:
        """Send no more, and wait until the source has all of it."""
        self._stop.set()
        self._thread.join()
        if left := self._client.flush(FLUSH_S):
            self.errors.append(f"{left} records could not be sent")

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            for _ in range(self._per_turn):
                number, value = next(self._values)
                self._client.produce(SOURCE, value, b"%d" % number, number % PARTITIONS, on_delivery=self._delivered)
            self._client.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.sent += 1
        else:
            self.errors.append(f"a record was not sent: {error}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
