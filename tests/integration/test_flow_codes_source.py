"""What can happen to the topics that a flow reads, each by its real cause: codes 1, 2, 3 and 5.

The broker is these tests' own, and the flow comes to it through a proxy, so that broker and network can be taken away.
Every test compares what was sent with what arrived: a table is read without Towpath.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.driving import Driven, driven, rows, troubles, world_on
from tests.support.flows import World
from tests.support.logs import shown
from tests.support.produced import Produced, produced, produces

from towpath import Flow, table, topic
from towpath.flow.failures import ErrorCode
from towpath.log import NewRecord
from towpath.stack.daemon import free_port
from towpath.stack.kafka import KafkaServer
from towpath.testing.clock import wait_until
from towpath.testing.proxy import CuttingProxy
from towpath.testing.servers import kafka_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["produced"]

pytestmark = pytest.mark.timeout(300)  # they go through several outages, one after the other

SOURCE = "in"
TIMEOUT_S = 3.0  # how long a flow waits for the broker before it says so
PATIENT_S = 60.0


@dataclass
class Broker:
    """A broker, and the way to it."""

    server: KafkaServer
    way: CuttingProxy

    def cut(self) -> None:
        """Nobody comes through any more."""
        self.way.target_port = free_port()
        self.way.cut_all()

    def mend(self) -> None:
        self.way.target_port = self.server.port
        self.server.start()

    def data(self) -> Path:
        return self.server.data_dir / "topics"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with CuttingProxy(free_port()) as way, kafka_server(advertised_port=way.port) as server:
        made = Broker(server, way)
        made.mend()
        yield made


@pytest.fixture
def world(broker: Broker, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    made = world_on(broker.server, spark, tmp_path, TIMEOUT_S)
    yield made
    broker.mend()
    made.close()


@pytest.fixture
def sending(world: World) -> Iterator[World]:
    """The same place for what the test itself asks of a broker that may have just begun."""
    place = replace(world.place, log={**world.place.log, "timeout_s": PATIENT_S})
    made = World(world.spark, place, world.home)
    yield made
    made.close()


@pytest.fixture
def flow(world: World, name: str) -> Flow:
    """Writes what it reads into a table."""
    made = Flow(name, version="v7")
    made.load(topic(f"{name}-in"), table("out", url=f"sqlite:///{world.home}/out.db"), name="out")
    return made


@pytest.fixture
def source(flow: Flow) -> str:
    return f"{flow.name}-in"


def numbers(*values: int) -> list[dict[str, int]]:
    return [{"n": n} for n in values]


def put(world: World, source: str, partition: int, *values: int) -> None:
    world.runtime.log.append(source, [NewRecord(b'{"n":%d}' % n, partition=partition) for n in values])


def arrived(world: World) -> list[int]:
    with closing(sqlite3.connect(world.home / "out.db", timeout=30)) as connection:
        return sorted(json.loads(text)["n"] for (text,) in connection.execute("select document from out"))


def generations(drive: Driven) -> int:
    [(generation,)] = rows(drive.world, "select generation from flow_stage")
    return int(generation)


def delete(world: World, source: str) -> None:
    log = world.runtime.log
    log.delete_topic(source)
    wait_until(lambda: source not in {each.name for each in log.topics()}, 30)


@pytest.mark.part("flows")
@produces(ErrorCode.LOG_UNAVAILABLE)
@pytest.mark.parametrize("act", [lambda broker: broker.server.stop(), Broker.cut], ids=["stopped", "cut off"])
def test_a_broker_that_is_away_is_waited_for(
    world: World,
    sending: World,
    broker: Broker,
    flow: Flow,
    source: str,
    produced: Produced,
    act: Callable[[Broker], None],
) -> None:
    sending.send(source, numbers(*range(10)))
    with driven(world, flow, produced) as drive:
        drive.wait_until_done(10)
        act(broker)
        assert drive.wait_for_trouble(ErrorCode.LOG_UNAVAILABLE)["failing"] == "extract"
        broker.mend()
        sending.send(source, numbers(*range(10, 20)))
        drive.wait_until_done(20)
    assert arrived(world) == list(range(20))
    assert {code for code, _ in troubles(world)} == {ErrorCode.LOG_UNAVAILABLE}


@produces(ErrorCode.TOPIC_NOT_FOUND)
@pytest.mark.part("flows")
def test_a_topic_that_is_deleted_is_waited_for(
    world: World, sending: World, flow: Flow, source: str, produced: Produced
) -> None:
    """Made again it is another topic, which is read from its start; here it has as many records as the first had."""
    sending.send(source, numbers(*range(10)), partitions=1)
    with driven(world, flow, produced) as drive:
        drive.wait_until_done(10)
        delete(sending, source)
        drive.wait_for_trouble(ErrorCode.TOPIC_NOT_FOUND)
        sending.send(source, numbers(*range(10, 20)), partitions=1)
        drive.wait_until_done(20)
        assert generations(drive) == 2
    assert arrived(world) == list(range(20))


@pytest.mark.part("flows")
@produces(ErrorCode.OFFSET_NOT_AVAILABLE)
@pytest.mark.parametrize("more", [0, 30])
def test_a_topic_made_again_under_a_running_flow(
    world: World, sending: World, flow: Flow, source: str, produced: Produced, more: int
) -> None:
    """With fewer partitions, and with fewer or with more records than before."""
    sending.send(source, numbers(*range(20)), partitions=3)
    with driven(world, flow, produced) as drive:
        drive.wait_until_done(20)
        delete(sending, source)
        sending.runtime.log.create_topic(source, 1)
        put(sending, source, 0, *range(20, 25 + more))
        drive.wait_until_done(25 + more)
        assert generations(drive) == 2
    assert arrived(world) == list(range(25 + more))
    produced |= {ErrorCode(code) for code, _ in troubles(world)} & {ErrorCode.OFFSET_NOT_AVAILABLE}


@pytest.mark.part("flows")
@produces(ErrorCode.PARTITION_NOT_FOUND, ErrorCode.OFFSET_NOT_AVAILABLE)
def test_a_broker_that_was_put_back_to_an_older_copy_of_its_data(
    world: World, sending: World, broker: Broker, flow: Flow, source: str, produced: Produced, tmp_path: Path
) -> None:
    """The topic is the same one, but a partition of it is gone, and where the flow stands there is nothing any more."""
    log = sending.runtime.log
    log.create_topic(source, 1)
    put(sending, source, 0, 0, 1)
    world.run(flow)
    broker.server.stop()
    shutil.copytree(broker.data(), tmp_path / "copy")
    broker.server.start()
    log.add_partitions(source, 2)
    put(sending, source, 0, *range(2, 10))
    put(sending, source, 1, *range(10, 15))
    with driven(world, flow, produced) as drive:
        drive.wait_until_done(15)
        broker.server.stop()
        shutil.rmtree(broker.data())
        shutil.copytree(tmp_path / "copy", broker.data())
        for _ in range(2):  # each start counts leaders up; clients do not believe in one that they know a later one of
            broker.server.stop()
            broker.server.start()
        assert "partition 1" in drive.wait_for_trouble(ErrorCode.PARTITION_NOT_FOUND)["last_error"]["message"]
        log.add_partitions(source, 2)
        drive.wait_for(lambda: generations(drive) == 2 and drive.machine["state"] == "extract")
        sending.connect()  # with clients that have written nothing: Kafka counts what each of the others has sent
        put(sending, source, 0, *range(2, 10), 20, 21)  # who had sent what is lost sends it again
        put(sending, source, 1, *range(10, 15), 22)
        drive.wait_until_done(15 + 10 + 6)
    assert arrived(world) == [*range(15), 20, 21, 22]
    # A reset that finds a slow broker is done again, and tells what it passes over once more.
    told = {(each.partition, each.offset, each.stop): each.failure for each in sending.errors(flow)}
    assert told.keys() == {(0, 2, 10), (1, 0, 5)}
    produced |= {failure.code for failure in told.values()}


@produces(ErrorCode.OFFSET_NOT_AVAILABLE)
def test_records_that_expired_are_a_gap(
    world: World, sending: World, flow: Flow, source: str, produced: Produced
) -> None:
    sending.send(source, numbers(0), partitions=1)
    world.run(flow)
    sending.send(source, numbers(*range(1, 8)))
    sending.runtime.log.delete_before(source, {0: 4})
    world.run(flow)
    assert arrived(world) == [0, 4, 5, 6, 7]

    [row] = rows(world, "select stage, topic, partition, start_offset, stop_offset, batch_id, reason from flow_gap")
    assert row[:-1] == (source, source, 0, 1, 4, 1)
    log = sending.runtime.log
    [told] = shown(log, flow.error_topic)
    said: dict[str, Any] = {name: value.decode() for name, value in told.headers if value is not None}
    assert (told.key, told.value) == (f"{source}/0".encode(), None)
    expected = {
        "towpath.kind": "gap",
        "towpath.code": "5",
        "towpath.flow": flow.name,
        "towpath.stage": source,
        "towpath.version": "v7",
        "towpath.topic": source,
        "towpath.topic-id": log.topic(source).id,
        "towpath.partition": "0",
        "towpath.offset": "1",
        "towpath.stop": "4",
        "towpath.batch": "1",
    }
    assert expected.items() <= said.items()
    [(why, data)] = rows(world, "select why, data from event where kind = 'flow_gap_found'")
    assert (why, json.loads(data)["from"], json.loads(data)["to"]) == (row[-1], 1, 4)
    produced.add(ErrorCode(int(said["towpath.code"])))
