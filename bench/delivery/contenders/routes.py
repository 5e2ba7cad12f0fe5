"""From where to where, with which steps: what is the same for all ways on one route."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Protocol
from uuid import uuid4

from bench.delivery.settings import warm_up
from bench.flow.contenders.turn import Turn
from bench.flow.filling import AT_ONCE
from bench.flow.index import Index
from bench.flow.workload import INDEX, PARTITIONS
from towpath import Flow, files, index, table, topic
from towpath.demo.shop import ShopEventKind, shop, shop_events
from towpath.flow.sinks.sink import Sink
from towpath.runtime import Runtime


class Route(Protocol):
    """One at a time has new outputs, is worked on, and is looked at."""

    def fill(self) -> None:
        """See that there is something to read."""

    def flow(self, source: str, delivery: str, *, deterministic: bool = True) -> Flow:
        """The work as a flow under a name of its own, with new and empty outputs."""

    def check(self, source: str, records: int) -> None:
        """Raise `AssertionError` unless the outputs have all of the records, and nothing twice. Then they may go."""


class TopicRoute:
    """Validates, and passes on as it is."""

    def __init__(self, turn: Turn, runtime: Runtime) -> None:
        self._log = runtime.log
        self.target = ""

    def fill(self) -> None:
        """The topics are there."""

    def flow(self, source: str, delivery: str, *, deterministic: bool = True) -> Flow:
        self.target = f"out-{uuid4().hex[:8]}"
        self._log.create_topic(self.target, PARTITIONS)
        flow = Flow(f"topic-{uuid4().hex[:8]}", delivery=delivery)
        flow.load(topic(source), topic(self.target))
        return flow

    def check(self, source: str, records: int) -> None:
        keys = [
            record.key
            for partition, start in self._log.starts(self.target).items()
            for record in self._log.read(self.target, partition, start)
        ]
        _compare("the topic", len(keys), records)
        _compare("the topic, each key once,", len(set(keys)), records)
        self._log.delete_topic(self.target)


class IndexRoute:
    """Validates, and dispatches to the index of its type."""

    def __init__(self, turn: Turn, runtime: Runtime) -> None:
        self._url = turn.url
        self._index = Index(turn.url)

    def fill(self) -> None:
        """The topics are there."""

    def flow(self, source: str, delivery: str, *, deterministic: bool = True) -> Flow:
        self._index.clear()
        flow = Flow(f"index-{uuid4().hex[:8]}", delivery=delivery)
        flow.load(topic(source), index(INDEX + "{type}", url=self._url))
        return flow

    def check(self, source: str, records: int) -> None:
        _compare("the index", self._index.count(), records)


class DemoRoute:
    """The shop of the demo: schema, expectation, a step, a function for each, a table and files.

    Nothing is wrong with its events: what crashes or freezes would cost some guarantees more than others, and not every
    way would do the same work.
    """

    def __init__(self, turn: Turn, runtime: Runtime) -> None:
        self._turn = turn
        self._runtime = runtime
        self._wanted: dict[str, int] = {}  # what is not filtered, by topic

    def fill(self) -> None:
        self._fill(self._turn.warm_up_topic, warm_up(self._turn.events))
        self._fill(self._turn.topic, self._turn.events)

    def _fill(self, name: str, records: int) -> None:
        log = self._runtime.log
        log.create_topic(name, PARTITIONS)
        self._wanted[name] = 0
        events = shop_events(records + SPARE)
        sound = islice(((kind, record) for kind, record in events if kind in SOUND), records)
        while portion := list(islice(sound, AT_ONCE)):
            log.append(name, [record for _, record in portion])
            self._wanted[name] += sum(kind is ShopEventKind.ORDER for kind, _ in portion)

    def flow(self, source: str, delivery: str, *, deterministic: bool = True) -> Flow:
        name = f"shop-{uuid4().hex[:8]}"
        self._home = Path(self._turn.home) / name
        self._home.mkdir()
        columns = {"order_id": "bigint", "points": "bigint"}
        sales: Sink = table("sales", url=f"sqlite:///{self._home}/shop.db", columns=columns)
        outputs = [("table", sales), ("files", files(self._home / "files" / "{type}"))]
        if not deterministic:  # as it comes: whether its function keeps to the time limit is nothing to rely on
            return shop(outputs, name=name, source=source, delivery=delivery)
        return shop(outputs, name=name, source=source, delivery=delivery, deterministic=True, timeout_s=None)

    def check(self, source: str, records: int) -> None:
        with closing(sqlite3.connect(self._home / "shop.db")) as database:
            [(rows, orders)] = database.execute("select count(*), count(distinct order_id) from sales")
        lines = 0
        for path in (self._home / "files").glob("*/*.jsonl"):
            with path.open("rb") as file:
                lines += sum(1 for _ in file)
        for what, found in (("the table", rows), ("the table, each order once,", orders), ("files", lines)):
            _compare(what, found, self._wanted[source])
        rmtree(self._home)


SOUND = (ShopEventKind.ORDER, ShopEventKind.HEARTBEAT)
SPARE = 3_000  # more than there are events with faults
ROUTES: dict[str, Callable[[Turn, Runtime], Route]] = {"topic": TopicRoute, "index": IndexRoute, "demo": DemoRoute}


def _compare(what: str, found: int, wanted: int) -> None:
    assert found == wanted, f"{what} has {found:,} in place of {wanted:,}"
