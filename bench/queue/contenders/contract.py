"""What every contender can do, and the program around it.

A contender process sets itself up, prints `ready`, waits for a line on its input and only
then does the measured work, so that start-up and imports are never part of a figure and
several processes start together. Times are of the system-wide monotonic clock: those of
two processes can be compared.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

INBOX = "bench"
REQUEST_EVERY_S = 0.2
ANSWER_TIMEOUT_S = 10.0


class Operation(StrEnum):
    """What one process is asked to do."""

    PREPARE = "prepare"  # make the tables; nothing is measured
    SEND = "send"  # one message per call
    SEND_BATCHES = "send-batches"  # `batch` messages per call
    DRAIN = "drain"  # claim, handle and acknowledge until nothing is left
    SERVE = "serve"  # be the worker of a round trip until killed
    ASK = "ask"  # be the client of a round trip


@dataclass(frozen=True)
class Order:
    """One operation on one store; `synchronous` matters on SQLite only."""

    operation: Operation
    target: str
    synchronous: str
    count: int
    batch: int


class Stopwatch:
    """Counts handled messages and remembers when the first could start and the last was done."""

    def __init__(self) -> None:
        self.count = 0
        self.started = self.ended = time.monotonic()

    def restart(self) -> None:
        """Begin now: what came before was still setting up."""
        self.started = self.ended = time.monotonic()

    def done(self, count: int) -> None:
        """`count` more messages are durably done."""
        self.count += count
        self.ended = time.monotonic()


class Contender(Protocol):
    """A queue under test, opened on one store."""

    def prepare(self) -> None:
        """Make what must exist before the first message."""

    def send(self, count: int) -> None:
        """Send `count` messages, each durable before the next."""

    def send_batches(self, count: int, batch: int) -> None:
        """Send `count` messages by the batched call, `batch` at a time."""

    def drain(self, batch: int, watch: Stopwatch) -> None:
        """Claim, handle and acknowledge until the queue is empty."""

    def serve(self) -> None:
        """Handle requests for ever; calls `saw` where there are no results to send back."""

    def ask(self, number: int) -> bool:
        """Send one request; true when its result has come back, false where there are no results."""

    def waiting(self) -> int:
        """How many messages are not acknowledged yet, from the store itself."""

    def durability(self) -> str:
        """The setting that holds in the connection which did the work."""


def payload(number: int) -> dict[str, object]:
    """The message of every contender: JSON of about 100 bytes."""
    return {"n": number, "customer": "c-0018273", "action": "recompute", "note": "x" * 36}


def payloads(count: int, batch: int) -> list[list[dict[str, object]]]:
    """`count` messages in lists of at most `batch`."""
    return [[payload(number) for number in range(first, min(first + batch, count))] for first in range(0, count, batch)]


def handle(message: object) -> None:
    """What every drain does with a message once it has been read: nothing."""


def saw(number: object) -> None:
    """Report from a worker without results that request `number` has arrived."""
    print(json.dumps({"saw": number, "at": time.monotonic()}), flush=True)


def run(open_contender: Callable[[Order], Contender]) -> None:
    """The main program of a contender module."""
    order = Order(**json.loads(sys.argv[1]))
    contender = open_contender(order)
    if order.operation == Operation.PREPARE:
        contender.prepare()
        return
    if order.operation == Operation.ASK:
        # The first request pays for caches and plans of a fresh process; nobody's figure has it.
        contender.ask(-1)
    print("ready", flush=True)
    sys.stdin.readline()
    if order.operation == Operation.SERVE:
        contender.serve()
    elif order.operation == Operation.ASK:
        _ask(contender, order.count)
    else:
        _work(contender, order)


def _ask(contender: Contender, count: int) -> None:
    sent, answered = [], []
    for number in range(count):
        time.sleep(REQUEST_EVERY_S)
        sent.append(time.monotonic())
        if contender.ask(number):
            answered.append(time.monotonic())
    print(json.dumps({"sent": sent, "answered": answered}), flush=True)


def _work(contender: Contender, order: Order) -> None:
    watch = Stopwatch()
    if order.operation == Operation.SEND:
        contender.send(order.count)
        watch.done(order.count)
    elif order.operation == Operation.SEND_BATCHES:
        contender.send_batches(order.count, order.batch)
        watch.done(order.count)
    else:
        contender.drain(order.batch, watch)
    report = {
        "count": watch.count,
        "seconds": watch.ended - watch.started,
        "started": watch.started,
        "ended": watch.ended,
        "waiting": contender.waiting(),
        "durability": contender.durability(),
    }
    print(json.dumps(report), flush=True)
