"""A record gives several deliveries, and an output refuses some of them: when it comes back, only these are new."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.support.elasticsearch import Node
from tests.support.flows import World
from tests.support.logs import Place, everything

from towpath import Flow, files, index, table, topic
from towpath.flow.audit.audit import Audit
from towpath.flow.records.errors import ErrorRecord
from towpath.flow.records.reentry import reentry_record

CHILDREN = range(4)
Found = Callable[[], Counter[tuple[int, int]]]  # what the output has: numbers of record and child
Output = tuple[Any, Found]
COLUMNS = {"n": "bigint", "i": "bigint", "v": "bigint"}


@pytest.fixture
def world(spark: Any, tmp_path: Any) -> Iterator[World]:
    """On a log that takes small records only."""
    database = {"url": f"sqlite:///{tmp_path}/towpath.db", "synchronous": "normal"}
    made = World(spark, Place("sqlite", {"url": "embedded", "max_record_bytes": 5_000}, database), tmp_path)
    yield made
    made.close()


def children(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that are named in the record are ones that no output can take."""

    def child(i: int) -> dict[str, Any]:
        good = {"n": record["n"], "i": i, "v": 1, "w": 1, "day": "monday", "pad": ""}
        return good | ({"v": "x", "w": None, "day": "mon/day", "pad": "x" * 6_000} if i in record["bad"] else {})

    return [child(i) for i in CHILDREN]


def counted(texts: Iterable[bytes | str]) -> Counter[tuple[int, int]]:
    return Counter((document["n"], document["i"]) for document in map(json.loads, texts))


@pytest.fixture(params=["topic", "files", "parquet", "sqlite", "postgres", "index"])
def output(request: pytest.FixtureRequest, world: World, name: str) -> Output:
    home = world.home
    match request.param:
        case "topic":
            log = world.runtime.log
            return topic("out", partitions=1), lambda: counted(each.value or b"" for each in everything(log, "out"))
        case "files":

            def lines() -> Counter[tuple[int, int]]:
                return counted(line for path in home.glob("out/*/*.jsonl") for line in path.read_bytes().splitlines())

            return files(f"{home}/out/{{day}}"), lines
        case "parquet":

            def documents() -> Counter[tuple[int, int]]:
                tables = [parquet.read_table(path) for path in home.glob("out/*.parquet")]
                return counted(text for each in tables for text in each["document"].to_pylist())

            return files(f"{home}/out", format="parquet", schema=pa.schema([("v", pa.int64())])), documents
        case "sqlite":
            url = f"sqlite:///{home}/out.db"

            def rows() -> Counter[tuple[int, int]]:
                with sqlite3.connect(home / "out.db") as connection:
                    return Counter(connection.execute("select n, i from out").fetchall())

            return table("out", url=url, columns={**COLUMNS, "w": "bigint not null"}), rows
        case "postgres":
            url = request.getfixturevalue("postgres").url
            target = name.replace("-", "_")

            def postgres_rows() -> Counter[tuple[int, int]]:
                with psycopg.connect(url) as connection:
                    return Counter(connection.execute(f'select n, i from "{target}"').fetchall())

            return table(target, url=url, columns=COLUMNS), postgres_rows
    node = Node(request.getfixturevalue("elasticsearch").url)
    node.ask("PUT", f"/{name}", '{"mappings":{"properties":{"v":{"type":"long"}}}}')
    return index(name, url=node.url), lambda: counted(json.dumps(each.source) for each in node.documents(name))


def family(name: str, delivery: str, **outputs: Any) -> Flow:
    flow = Flow(name, delivery=delivery)
    each = flow.each(flow.source(topic("in")), deterministic=True, name="children")(children)
    for called, sink in outputs.items():
        flow.load(each, sink, name=called)
    return flow


def replay(world: World, flow: Flow, bad: list[int]) -> None:
    log = world.runtime.log
    record = everything(log, flow.error_topic)[-1]
    log.append(f"{flow.name}.reentry", [reentry_record(record, "case", 2, json.dumps({"n": 0, "bad": bad}).encode())])
    world.run(flow)


def delivered(world: World, flow: Flow) -> list[dict[str, int]]:
    """By batch, what each output was given."""
    return [dict(batch.counts["delivered"]) for batch in world.batches(flow)]  # type: ignore[arg-type]


@pytest.mark.part("flows")
def test_a_replay_brings_what_was_refused_and_nothing_twice(world: World, name: str, output: Output) -> None:
    sink, found = output
    flow = family(name, "exactly-once", out=sink)
    world.send("in", [{"n": 0, "bad": [1, 3]}, {"n": 1, "bad": []}], partitions=1)
    world.run(flow)
    assert found() == Counter({(0, 0): 1, (0, 2): 1} | {(1, i): 1 for i in CHILDREN})
    [error] = world.errors(flow)
    assert (error.offset, error.output, error.delivered.whole) == (0, "out", frozenset())
    assert dict(error.delivered.partly) == {"out": {0, 2}}

    replay(world, flow, bad=[3])
    assert found()[0, 1] == 1
    assert dict(world.errors(flow)[-1].delivered.partly) == {"out": {0, 1, 2}}
    replay(world, flow, bad=[])
    assert found() == Counter({(n, i): 1 for n in (0, 1) for i in CHILDREN})
    assert delivered(world, flow) == [{"out": 6}, {"out": 1}, {"out": 1}]
    assert [str(each) for each in Audit(world.runtime.database, world.runtime.log, name).run().problems] == []


@pytest.mark.parametrize("output", ["topic"], indirect=True)
def test_also_where_topics_are_written_without_marks(world: World, name: str, output: Output) -> None:
    sink, found = output
    flow = family(name, "at-least-once", out=sink)
    world.send("in", [{"n": 0, "bad": [2]}], partitions=1)
    world.run(flow)
    replay(world, flow, bad=[])
    assert found() == Counter({(0, i): 1 for i in CHILDREN})


@pytest.mark.part("flows")
@pytest.mark.parametrize("output", ["sqlite"], indirect=True)
def test_a_topic_beside_a_table_gets_all_of_it_or_nothing(world: World, name: str, output: Output) -> None:
    sink, found = output
    log = world.runtime.log
    flow = family(name, "exactly-once", rows=sink, copies=topic("copies", partitions=1))
    world.send("in", [{"n": 0, "bad": [1]}], partitions=1)
    world.run(flow)
    assert everything(log, "copies") == []
    [error] = world.errors(flow)
    assert dict(ErrorRecord.read(everything(log, flow.error_topic)[0]).delivered.partly) == {"rows": {0, 2, 3}}
    assert error.delivered.whole == frozenset()
    replay(world, flow, bad=[])
    assert found() == Counter({(0, i): 1 for i in CHILDREN})
    assert counted(each.value or b"" for each in everything(log, "copies")) == found()
