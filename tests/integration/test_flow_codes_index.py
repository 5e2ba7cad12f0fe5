"""What an index can do to a flow, each by its real cause: codes 6, 10, 11, 12 and 13.

The server is real. What it will not do at will, a proxy before it does for a while; then everything has to arrive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.bulk_proxy import BROKEN, BulkProxy, Told, busy
from tests.support.driving import Driven, driven, troubles, world_on
from tests.support.elasticsearch import Document, Node
from tests.support.flows import World
from tests.support.produced import Produced, produced, produces

from towpath import Flow, index, topic
from towpath.flow.failures import ErrorCode
from towpath.flow.stage import StageState
from towpath.flow.stage.states import StageCommandKind
from towpath.flow.stage.store import StageStore
from towpath.stack.kafka import KafkaServer
from towpath.stack.search import ElasticsearchServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["produced"]

pytestmark = pytest.mark.timeout(300)  # they go through several outages, one after the other

PORTION = 5

Act = Callable[[], object]


@pytest.fixture
def world(kafka: KafkaServer, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    made = world_on(kafka, spark, tmp_path)
    yield made
    made.close()


def source_of(flow: Flow) -> str:
    return f"{flow.name}-in"


@pytest.fixture
def proxy(elasticsearch: ElasticsearchServer) -> Iterator[BulkProxy]:
    with BulkProxy(elasticsearch.url) as made:
        yield made


@pytest.fixture
def node(elasticsearch: ElasticsearchServer, name: str) -> Node:
    """With an index in which a number is a number."""
    made = Node(elasticsearch.url)
    made.ask("PUT", f"/{name}", '{"mappings":{"properties":{"n":{"type":"long"}}}}')
    return made


@pytest.fixture
def flow(proxy: BulkProxy, name: str) -> Flow:
    made = Flow(name)
    made.load(topic(source_of(made)), index(name, url=proxy.url, id="{n}"), name="views")
    return made


def arrived(node: Node, name: str) -> list[int]:
    return sorted(each.source["n"] for each in node.documents(name))


class Sending:
    """Sends numbers, one after the other."""

    def __init__(self, world: World, flow: Flow) -> None:
        self._world = world
        self._source = source_of(flow)
        self.count = 0

    def more(self) -> None:
        self._world.send(self._source, [{"n": n} for n in range(self.count, self.count + PORTION)])
        self.count += PORTION


BLOCKED = "index.blocks.read_only_allow_delete"  # what a server does by itself when its disk is full
READ_ONLY = "index.blocks.write"
OUT_OF_ORDER = b'{"error":{"type":"broken","reason":"out of order"}}'
OUTAGES = [
    (ErrorCode.NETWORK, BROKEN, 2),
    (ErrorCode.SINK_FAILED, Told(500, OUT_OF_ORDER), 1),
    (ErrorCode.SINK_FAILED, Told(503), 1),  # a worker asks five times before it gives up
    (ErrorCode.SINK_REFUSED, Told(401), 2),
    (ErrorCode.SINK_REFUSED, Told(403), 1),
    (ErrorCode.SINK_REFUSED, Told(404), 1),
]


def suffer(
    drive: Driven,
    sending: Sending,
    code: ErrorCode,
    attempts: int,
    begin: Callable[[], object],
    end: Callable[[], object],
) -> None:
    """Something goes wrong, and records come; the flow shows the code and tries again until all is well."""
    begin()
    sending.more()
    machine = drive.wait_for_trouble(code, attempts)
    assert (machine["failing"], machine["resumes"]) == ("load", "load")
    end()
    drive.wait_until_done(sending.count)


@pytest.mark.part("flows")
@produces(ErrorCode.NETWORK, ErrorCode.SINK_UNAVAILABLE, ErrorCode.SINK_FAILED, ErrorCode.SINK_REFUSED)
def test_an_index_that_is_away_or_answers_badly_is_waited_for(
    world: World, proxy: BulkProxy, flow: Flow, node: Node, name: str, produced: Produced
) -> None:
    """One flow goes through all of it: every time it shows the code, tries again, and goes on by itself."""
    sending = Sending(world, flow)
    sending.more()
    proxy.close()

    def answer(told: Told | None) -> None:
        proxy.stage = lambda body: told

    def set_index(setting: str, value: str) -> None:
        node.ask("PUT", f"/{name}/_settings", f'{{"{setting}":{value}}}')

    with driven(world, flow, produced) as drive:
        assert drive.wait_for_trouble(ErrorCode.SINK_UNAVAILABLE)["failing"] == "configure"
        proxy.open_again()
        drive.wait_until_done(sending.count)
        suffer(drive, sending, ErrorCode.SINK_UNAVAILABLE, 1, proxy.close, proxy.open_again)
        for code, told, attempts in OUTAGES:
            suffer(drive, sending, code, attempts, partial(answer, told), partial(answer, None))
        full, free = partial(set_index, BLOCKED, "true"), partial(set_index, BLOCKED, "null")
        suffer(drive, sending, ErrorCode.SINK_FAILED, 1, full, free)  # the real server answers 429 for every item
    assert arrived(node, name) == list(range(sending.count))
    assert world.errors(flow) == []
    expected = {code for code, _, _ in OUTAGES} | {ErrorCode.SINK_UNAVAILABLE}
    assert {code for code, _ in troubles(world)} == expected


@produces(ErrorCode.ITEM_REFUSED)
def test_what_becomes_of_each_item(
    world: World, proxy: BulkProxy, flow: Flow, node: Node, name: str, produced: Produced
) -> None:
    """One has another type than the field, one finds a newer document, one finds the server busy at first."""
    newer = Document(name, "7", 1 << 60, {"n": 7, "newer": True})
    node.put([newer])
    busy_at_first = busy(proxy, name, {"3"}, rounds=2)
    proxy.stage = lambda body: busy_at_first(body) if body.strip() else None  # the check sends an empty one
    world.send(source_of(flow), [*({"n": n} for n in range(10)), {"n": "many"}], partitions=1)
    world.run(flow)
    assert {each.id: each.source for each in node.documents(name)} == {
        **{str(n): {"n": n} for n in range(10)},
        "7": newer.source,
    }
    assert [body.count(b"\n") // 2 for body in proxy.bodies if body.strip()] == [11, 1, 1]
    assert world.counts(flow) == Counter(read=11, loaded=10, failed=1, delivered=10)
    [error] = world.errors(flow)
    assert (error.failure.exception, error.output, error.offset) == ("document_parsing_exception", "views", 10)
    produced.add(error.failure.code)


@pytest.mark.part("flows")
@produces(ErrorCode.ITEM_REFUSED)
def test_an_index_that_refuses_all_items_holds_the_flow(
    world: World, flow: Flow, node: Node, name: str, produced: Produced
) -> None:
    """Nothing goes to the error topic: it is no record's fault."""
    world.connect(judge_sample=20)
    node.ask("PUT", f"/{name}/_settings", f'{{"{READ_ONLY}":true}}')
    world.send(source_of(flow), [{"n": n} for n in range(40)])
    with driven(world, flow, produced) as drive:
        machine = drive.wait_for_trouble(ErrorCode.ITEM_REFUSED, state="held")
        assert machine["last_error"]["step"] == "views"
        node.ask("PUT", f"/{name}/_settings", f'{{"{READ_ONLY}":null}}')
        drive.wait_until_done(40)
    assert arrived(node, name) == list(range(40))
    assert world.errors(flow) == []


@pytest.mark.part("flows")
def test_an_index_that_calls_every_single_record_wrong_needs_a_person(
    world: World, proxy: BulkProxy, flow: Flow, node: Node, name: str
) -> None:
    """No waiting helps against a 400; when it was seen to, all is there."""
    refusal = Told(400, b'{"error":{"type":"illegal_argument_exception","reason":"no such pipeline"}}')
    proxy.stage = lambda body: refusal
    world.send(source_of(flow), [{"n": n} for n in range(5)])
    assert world.run(flow) == {source_of(flow): StageState.HALTED}
    database = world.runtime.database
    stages = StageStore(database)
    with database.transaction() as tx:
        assert " 400" in stages.read(tx, flow.name, source_of(flow)).machine.reason
        stages.ask(tx, flow.name, source_of(flow), StageCommandKind.RESUME, "ada", "the pipeline is there")
    assert node.documents(name) == []
    proxy.stage = lambda body: None
    assert world.run(flow) == {source_of(flow): StageState.STOPPED}
    assert arrived(node, name) == list(range(5))
    assert world.errors(flow) == []
