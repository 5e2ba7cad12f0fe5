"""A flow from Kafka to Elasticsearch with everything of its own, so that all of it can be killed.

The test sends records and keeps a list of them; what it finds in the end is held against that list.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.recovery.kill_acts import ARMED, FLOW, GOOD, INDEX, NOT_JSON, RAISING, REACHED, REFUSED, TOPIC, orders
from tests.support.elasticsearch import Node
from tests.support.leases import LONG_LEASE

import towpath
from towpath.flow.audit.audit import Audit
from towpath.flow.delivery.ledger import Batch, Ledger
from towpath.flow.failures import ErrorCode
from towpath.flow.records.errors import ErrorRecord
from towpath.flow.stage import StageMachine
from towpath.flow.stage.store import StageStore
from towpath.log import NewRecord
from towpath.runtime import Runtime
from towpath.stack.daemon import free_port
from towpath.stack.kafka import KafkaServer
from towpath.stack.search import ElasticsearchServer
from towpath.testing import servers
from towpath.testing.clock import wait_until
from towpath.testing.processes import ChildProcess
from towpath.testing.proxy import CuttingProxy

ROOT = Path(__file__).parents[2]
PARTITIONS = 2
BATCH = 400
CHUNK = 100  # records that a worker takes at once: a task has several
CODES = {NOT_JSON: ErrorCode.NOT_JSON, RAISING: ErrorCode.TRANSFORM_FAILED, REFUSED: ErrorCode.ITEM_REFUSED}
KINDS = [GOOD] * 57 + list(CODES)  # one in twenty is bad
SETTLE_S = 180

Coordinates = tuple[int, int]  # partition and offset


@dataclass
class Rig:
    """The servers, the ways to them, and the driver."""

    home: Path
    kafka: KafkaServer
    elasticsearch: ElasticsearchServer
    to_kafka: CuttingProxy
    to_elasticsearch: CuttingProxy
    sent: dict[Coordinates, tuple[int, str]] = field(default_factory=dict)  # number and kind
    _driver: ChildProcess | None = None
    _runtime: Runtime | None = None

    # The flow

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.to_elasticsearch.port}"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "database": {"url": f"sqlite:///{self.home}/towpath.db", "synchronous": "normal"},
            "log": {"url": self.kafka.url, "namespace": "kills", "timeout_s": 3.0},
            "process": LONG_LEASE,
            "spark": {"master": "local[2]", "conf": {"spark.sql.execution.arrow.maxRecordsPerBatch": str(CHUNK)}},
            "flow": {
                "directory": str(self.home / "flows"),
                "trigger_s": 0.1,
                "sample_s": 0.1,
                "retry_least_s": 0.05,
                "retry_most_s": 0.5,
                "max_batch_records": BATCH,
            },
        }

    @property
    def runtime(self) -> Runtime:
        if self._runtime is None:
            # Only the driver is to notice soon that a server is away: a busy broker may keep this process waiting.
            log = {**self.settings["log"], "timeout_s": 30.0}
            self._runtime = towpath.connect(**{**self.settings, "log": log})
        return self._runtime

    def start_driver(self) -> None:
        order = {"settings": self.settings, "home": str(self.home), "url": self.url}
        self._driver = ChildProcess("tests.recovery.kill_acts", order, log=self.home / "driver.log", cwd=ROOT)

    def kill_driver(self) -> None:
        if self._driver is not None:
            with self._driver:  # which ends it by SIGKILL
                pass

    def send(self, count: int) -> None:
        chance, first = random.Random(len(self.sent)), len(self.sent)
        made = [(first + at, chance.choice(KINDS)) for at in range(count)]
        records = [NewRecord(_value(n, kind), partition=n % PARTITIONS) for n, kind in made]
        places = self.runtime.log.append(TOPIC, records)
        self.sent |= dict(zip(places, made, strict=True))

    def cut(self) -> None:
        """No connection survives, and none can be made."""
        for proxy in (self.to_kafka, self.to_elasticsearch):
            proxy.target_port = free_port()
            proxy.cut_all()

    def mend(self) -> None:
        self.to_kafka.target_port = self.kafka.port
        self.to_elasticsearch.target_port = self.elasticsearch.port

    # What is seen of it

    @property
    def machine(self) -> StageMachine:
        database = self.runtime.database
        with database.read() as tx:
            [stage] = StageStore(database).list(tx, FLOW)
        return stage.machine

    def batches(self) -> list[Batch]:
        database = self.runtime.database
        with database.read() as tx:
            return Ledger(database).batches(tx, FLOW, TOPIC, 1000)

    @contextmanager
    def loading(self, count: int) -> Iterator[tuple[Batch, int]]:
        """Inside, a batch has been loaded in part, and a worker waits in the middle of its task: batch and worker."""
        reached = self.home / REACHED
        worker, batch = self._in_gate(count)
        while any(each.is_empty for each in batch.positions if each.topic == TOPIC):
            reached.unlink()  # it was begun before all was sent, and has work for one worker only
            wait_until(self._is_all_read, SETTLE_S, "all is read")
            worker, batch = self._in_gate(count)
        wait_until(lambda: self.loaded_of(batch), SETTLE_S, "the other worker has posted something")
        assert batch.committed_at is None
        assert self.loaded_of(batch) < sum(each.stop - each.start for each in batch.positions)
        try:
            yield batch, worker
        finally:
            reached.unlink()

    def _in_gate(self, count: int) -> tuple[int, Batch]:
        (self.home / ARMED).touch()
        self.send(count)
        reached = self.home / REACHED
        told = wait_until(lambda: reached.exists() and reached.read_text(), SETTLE_S, "a worker in the gate")
        return int(told), self.batches()[0]

    def loaded_of(self, batch: Batch) -> int:
        """How many documents of a batch can be read, asked past the proxy: by id, so none has to be made visible."""
        ids = [
            f"{each.topic}:0:{each.partition}:{offset}"
            for each in batch.positions
            for offset in range(each.start, each.stop)
        ]
        answer = Node(self.elasticsearch.url).ask("POST", f"/{INDEX}/_mget?_source=false", json.dumps({"ids": ids}))
        return sum(bool(each.get("found")) for each in answer["docs"])

    def wait_for_trouble(self, *codes: ErrorCode) -> None:
        """Until the driver has told why it cannot go on."""
        since = self.machine.last_error

        def told() -> bool:
            error = self.machine.last_error
            return error is not None and error != since and error.code in codes

        wait_until(told, SETTLE_S, f"trouble with code {codes}")

    # Afterwards

    @property
    def driver_says(self) -> str:
        return (self.home / "driver.log").read_text()

    def check(self, tried: Batch | None = None) -> None:
        """All that was sent was read by itself; `tried` is a batch that must have been tried more than once."""
        wait_until(self._is_all_read, SETTLE_S, "all is read")
        self._check_index()
        self._check_errors()
        flow = orders(self.home, self.url)
        verdict = Audit(self.runtime.database, self.runtime.log, FLOW, flow).run()
        assert verdict.problems == []
        assert verdict.is_balanced
        assert verdict.balance.arrived == len(self.sent)
        assert [each.proof for each in verdict.outputs] == ["proven"]
        if tried is not None:
            [again] = [each for each in self.batches() if each.batch_id == tried.batch_id]
            assert again.attempts > 1

    def _is_all_read(self) -> bool:
        assert self._driver is not None
        assert self._driver.is_running, self._driver.log_tail()
        last = self.batches()[0]
        stops = {each.partition: each.stop for each in last.positions if each.topic == TOPIC}
        return last.committed_at is not None and stops == self.runtime.log.ends(TOPIC)

    def _check_index(self) -> None:
        """Every good record is there, once, as it was sent; nothing else is."""
        found = {each.id: each.source for each in Node(self.elasticsearch.url).documents(INDEX)}
        good = {place: number for place, (number, kind) in self.sent.items() if kind == GOOD}
        assert found.keys() == {f"{TOPIC}:0:{partition}:{offset}" for partition, offset in good}
        for (partition, offset), number in good.items():
            document = found[f"{TOPIC}:0:{partition}:{offset}"]
            assert document == {"n": number, "kind": GOOD, "day": "2026-11-15", "price": 2 * number}

    def _check_errors(self) -> None:
        """Every bad record is in the error topic with its code, at least once; no good one is."""
        log, topic = self.runtime.log, orders(self.home, self.url).error_topic
        # Kafka shows a committed transaction a moment after its commit.
        numbers = [*log.starts(topic)]
        wait_until(lambda: not any(any(log.undecided(topic, number)) for number in numbers), what="all errors")
        read = [
            ErrorRecord.read(record)
            for number, start in log.starts(topic).items()
            for record in log.read(topic, number, start)
        ]
        found = {(each.partition, each.offset): each.failure.code for each in read}
        bad = {place: CODES[kind] for place, (_, kind) in self.sent.items() if kind != GOOD}
        assert found == bad
        assert set(Counter(kind for _, kind in self.sent.values())) == {GOOD, *CODES}, "each kind was sent"

    def close(self) -> None:
        (self.home / REACHED).unlink(missing_ok=True)
        self.kill_driver()
        if self._runtime is not None:
            self._runtime.close()


@contextmanager
def open_rig(home: Path) -> Iterator[Rig]:
    """Servers, topic and index, and a driver that runs."""
    with ExitStack() as closing:
        to_kafka = closing.enter_context(CuttingProxy(free_port()))
        to_elasticsearch = closing.enter_context(CuttingProxy(free_port()))
        with ThreadPoolExecutor(2) as pool:
            kafka = pool.submit(closing.enter_context, servers.kafka_server(to_kafka.port))
            elasticsearch = pool.submit(closing.enter_context, servers.elasticsearch_server())
        rig = Rig(home, kafka.result(), elasticsearch.result(), to_kafka, to_elasticsearch)
        rig.mend()
        closing.callback(rig.close)
        rig.runtime.log.create_topic(TOPIC, PARTITIONS)
        mappings = {"mappings": {"properties": {"day": {"type": "date", "format": "strict_date"}}}}
        Node(rig.elasticsearch.url).ask("PUT", f"/{INDEX}", json.dumps(mappings))
        rig.start_driver()
        yield rig


def _value(number: int, kind: str) -> bytes:
    day = "no day" if kind == REFUSED else "2026-11-15"
    text = json.dumps({"n": number, "kind": kind, "day": day}).encode()
    return text[:-1] if kind == NOT_JSON else text
