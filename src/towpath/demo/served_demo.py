"""`towpath demo --serve`: the files of its directory, and the traffic of its shop.

`python -m towpath.demo.served_demo` makes orders, a few faults among them, mail, a supplier and complaints until it is
told to stop. What it has made stays; a second one goes on.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import sys
import threading
import time
from importlib import resources
from pathlib import Path
from typing import Any
from uuid import uuid4

import towpath
from towpath.actors import Interval
from towpath.actors.turn import ActorStart
from towpath.catalog.complaints.store import NewComplaint
from towpath.catalog.data_sets.directory import make_directory, place_of
from towpath.core.service import Service
from towpath.demo.shop import FAULTS, PRICES, TOPIC, ShopEventKind, shop_event
from towpath.log.record import NewRecord
from towpath.queue import Message
from towpath.runtime import Runtime

PARTITIONS = 2
BEAT_S = 1.0
FIRST_EVENTS, EVENTS = 2_000, 8
QUIET, FAULTY = 0.05, 0.02  # heartbeats, and faults, of all events
SUPPLIER, MAIL = "supplier", "mail"
# Those that stop the clock or cost a worker are for the other demo; one larger than 1 MiB every second is too many.
LEFT_OUT = {ShopEventKind.HEARTBEAT, ShopEventKind.FREEZING, ShopEventKind.CRASHING, ShopEventKind.TOO_BIG}
BY: dict[str, Any] = {"who": "traffic", "why": "so that there is something to see"}
CONFIG = "towpath.toml"
ENDING = ".txt"  # so that no tool takes the files for part of Towpath


def write_served(directory: Path, port: int) -> Path:
    """Write its files; the path of the settings."""
    said = {"@port@": str(port or _free_port()), "@python@": json.dumps(sys.executable)[1:-1]}
    for file in (resources.files("towpath.demo") / "served").iterdir():
        text = file.read_text(encoding="utf-8")
        for hole, value in said.items():
            text = text.replace(hole, value)
        (directory / file.name.removesuffix(ENDING)).write_text(text, encoding="utf-8")
    return directory / CONFIG


def main() -> None:
    ended = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: ended.set())
    with towpath.connect() as runtime:
        traffic = Traffic(runtime, random.Random())  # noqa: S311 - it is a game
        services = traffic.open()
        time.sleep(BEAT_S)  # in place of the event's wait, which can hold the lock that the handler needs
        while not ended.is_set():
            traffic.go_round()
            time.sleep(BEAT_S)
        for service in services:
            service.stop()


class Traffic:
    """What happens in the shop; `go_round` is called once a beat."""

    def __init__(self, runtime: Runtime, chance: random.Random) -> None:
        self._runtime = runtime
        self._chance = chance
        self._number = 0
        self._beat = 0
        self._has_workflows = False
        self._outbox = runtime.queue.outbox("shop")
        self._faults = {kind: weight for kind, weight in FAULTS.items() if kind not in LEFT_OUT}

    def open(self) -> list[Service]:
        """Make the topic and the first events, and start the services that handle messages."""
        log = self._runtime.log
        if TOPIC not in {topic.name for topic in log.topics()}:
            log.create_topic(TOPIC, PARTITIONS)
            log.append(TOPIC, self._events(FIRST_EVENTS))
        supplier, mail = self._runtime.queue.synchronous(SUPPLIER), self._runtime.queue.asynchronous(MAIL, workers=2)
        supplier.on("DELIVER")(self._deliver)
        mail.on("receipt")(self._receipt)
        for worker in (supplier, mail):
            worker.start()
        return [supplier, mail]

    def go_round(self) -> None:
        self._beat += 1
        self._runtime.log.append(TOPIC, self._events(EVENTS))
        for every, act in ((3, self._send_mail), (45, self._complain), (120, self._keep_takings)):
            if self._beat % every == 0:
                act()
        self._see_to_workflows()

    def _events(self, count: int) -> list[NewRecord]:
        kinds = [self._kind() for _ in range(count)]
        self._number += count
        return [shop_event(kind, self._number + at, self._chance) for at, kind in enumerate(kinds)]

    def _kind(self) -> ShopEventKind:
        share = self._chance.random()
        if share < FAULTY:
            return self._chance.choices(list(self._faults), list(self._faults.values()))[0]
        return ShopEventKind.HEARTBEAT if share < FAULTY + QUIET else ShopEventKind.ORDER

    # Messages

    def _send_mail(self) -> None:
        customer = f"customer-{self._chance.randrange(500)}"
        self._outbox.notice(MAIL, "receipt", {"to": f"{customer}@shop.example", "order": self._number})

    def _receipt(self, message: Message) -> None:
        if self._chance.random() < 0.02:
            raise ValueError(f"{message.payload['to']} does not exist")

    def _deliver(self, message: Message) -> dict[str, Any]:
        if self._chance.random() < 0.1:
            raise ValueError(f"{message.payload['product']} is sold out")
        return {"boxes": message.payload["boxes"]}

    # What people do

    def _complain(self) -> None:
        said = self._chance.choice(["the price is wrong", "I never ordered this", "sold twice"])
        self._runtime.complaints.make(NewComplaint("sales", f"order {self._chance.randrange(self._number)}", said))

    def _keep_takings(self) -> None:
        """What was sold, as a file that is a data set."""
        id, sets = str(uuid4()), self._runtime.data_sets
        place = place_of(Path("takings").absolute() / id)
        sets.begin(id, kind="takings", subject="shop", origin="traffic", place=place)
        text = "\n".join(f"{product},{cents}" for product, cents in PRICES.items())
        (make_directory(place, id) / "takings.csv").write_text(text, encoding="utf-8")
        sets.finish(id, records=len(PRICES), bytes=len(text))

    def _see_to_workflows(self) -> None:
        """Start the workflows once, as soon as their actors run and there is something to count."""
        if self._has_workflows or self._beat % 5 or not Path("shop.db").exists():
            return
        actors = self._runtime.actors
        if not {"report", "restock"} <= {each.name for each in actors.known()}:
            return
        self._has_workflows = True
        if actors.schedules.list():
            return  # somebody has seen to it before
        actors.schedules.add("report", "report", Interval(60), **BY)
        cocoa: dict[str, Any] = {"instance": "cocoa", "state": "Count", "payload": {"product": "cocoa"}}
        actors.schedules.add("report-cocoa", "report", Interval(90), **cocoa, **BY)
        for product in ("tea", "coffee"):
            actors.start_by_hand(ActorStart("restock", product, "Order", {"product": product, "boxes": 10}), **BY)


def _free_port() -> int:
    """The console keeps it over its restarts, so that a page that is open finds it again."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
