"""What can be wrong with a record, each by its real cause, on Kafka and Elasticsearch: codes 4, 7, 8, 9, 12 and 13.

One batch holds all of it. The error topic is read as any other program reads it: bytes and headers.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql import functions as F
from tests.support.bulk_proxy import BulkProxy, Told
from tests.support.driving import driven, rows, troubles, world_on
from tests.support.elasticsearch import Node
from tests.support.flows import World
from tests.support.logs import shown
from tests.support.produced import Produced, produced, produces

from towpath import Flow, expect, index, table, topic
from towpath.flow.failures import TRACE_CHARACTERS, ErrorCode
from towpath.flow.stage import StageState
from towpath.log import NewRecord, Record
from towpath.stack.kafka import KafkaServer
from towpath.stack.search import ElasticsearchServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["produced"]

pytestmark = pytest.mark.timeout(300)  # they go through several outages, one after the other

VERSION = "2026-03"
LIMIT = 20_000  # bytes of a record, by the flow
ROOM = 10_000  # bytes of a request, by what stands before the index
HEADERS = (("trace-id", b"\x00\xff"), ("towpath.code", b"99"))


class Bad(NamedTuple):
    """A record that fails, and how."""

    value: bytes | None
    code: ErrorCode
    step: str
    exception: str
    message: str
    trace: str = ""


def good(n: int) -> dict[str, Any]:
    return {"n": n, "at": "17", "url": "/news"}


def bad(**changed: Any) -> bytes:
    return json.dumps({**good(0), **changed}).encode()


BAD = [
    Bad(b" " * (LIMIT + 1), ErrorCode.RECORD_TOO_BIG, "clicks", "too big", "20001 bytes; the limit is 20000"),
    Bad(b'{"n":"\xff"}', ErrorCode.NOT_JSON, "clicks", "not UTF-8", "(byte 6)"),
    Bad(b'{"n":1', ErrorCode.NOT_JSON, "clicks", "not JSON", "line 1"),
    Bad(b'{"n":1}{"n":2}', ErrorCode.NOT_JSON, "clicks", "not JSON", "line 1"),
    Bad(b'{"n":1,"n":2}', ErrorCode.NOT_JSON, "clicks", "repeated name", "n"),
    Bad(None, ErrorCode.NOT_JSON, "clicks", "no value", "tombstone"),
    Bad(b'{"n":"many"}', ErrorCode.NOT_VALID, "clicks", "schema", "n"),
    Bad(bad(n=-1), ErrorCode.NOT_VALID, "parsed", "natural", "not met: natural"),
    Bad(bad(url="/nowhere"), ErrorCode.TRANSFORM_FAILED, "labelled", "KeyError", "'nowhere'", "in labelled"),
    Bad(bad(at="18", score="high"), ErrorCode.ITEM_REFUSED, "views", "document_parsing_exception", "score"),
    Bad(bad(text="x" * ROOM), ErrorCode.SINK_REFUSED, "views", "413", "larger than the server takes"),
    Bad(bad(text="<script>"), ErrorCode.SINK_REFUSED, "views", "refused", "not allowed here"),
]


def before_the_index(body: bytes) -> Told | None:
    """As companies put it before their servers: a limit for requests, and a filter of contents."""
    if len(body) > ROOM:
        return Told(413)
    return Told(400, b"not allowed here") if b"<script>" in body else None


@pytest.fixture
def world(kafka: KafkaServer, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    made = world_on(kafka, spark, tmp_path)
    yield made
    made.close()


def page_views(name: str, url: str) -> Flow:
    flow = Flow(name, version=VERSION, max_record_bytes=LIMIT)
    clicks = flow.source(topic(f"{name}-in"), schema="n int, at string, url string", name="clicks")

    @flow.step(clicks)
    @expect("natural", "n >= 0")
    def parsed(rows: Any) -> Any:
        return rows.withColumn("at", F.col("at").cast("int"))

    @flow.each(parsed)
    def labelled(view: dict[str, Any]) -> dict[str, Any]:
        return {**view, "section": {"news": "front"}[view["url"].removeprefix("/")]}

    flow.load(labelled, index(name, url=url), name="views")
    return flow


@produces(
    ErrorCode.RECORD_TOO_BIG,
    ErrorCode.NOT_JSON,
    ErrorCode.NOT_VALID,
    ErrorCode.TRANSFORM_FAILED,
    ErrorCode.ITEM_REFUSED,
    ErrorCode.SINK_REFUSED,
)
def test_every_bad_record_is_in_the_error_topic_with_its_reason(
    world: World, elasticsearch: ElasticsearchServer, name: str, produced: Produced
) -> None:
    source, node = f"{name}-in", Node(elasticsearch.url)
    node.ask("PUT", f"/{name}", '{"mappings":{"properties":{"score":{"type":"long"}}}}')
    log = world.runtime.log
    log.create_topic(source, 2)
    values = [*(json.dumps(good(n)).encode() for n in range(30)), *(each.value for each in BAD)]
    places = log.append(source, [NewRecord(value, b"key-%d" % at, HEADERS) for at, value in enumerate(values)])
    with BulkProxy(elasticsearch.url) as proxy:
        proxy.stage = before_the_index
        flow = page_views(name, proxy.url)
        assert world.run(flow) == {source: StageState.STOPPED}

    expected = [{"n": n, "at": 17, "url": "/news", "section": "front"} for n in range(30)]
    assert sorted((each.source for each in node.documents(name)), key=lambda each: each["n"]) == expected
    found = {record.key: record for record in shown(log, flow.error_topic)}
    assert len(found) == len(BAD)
    assert world.counts(flow) == Counter(read=42, loaded=30, failed=len(BAD), delivered=30)
    for at, each in enumerate(BAD, start=30):
        record = found[b"key-%d" % at]
        said = told(record)
        partition, offset = places[at]
        assert (record.value, record.headers[0]) == (each.value, HEADERS[0])
        assert [header for header, _ in record.headers].count("towpath.code") == 1
        assert said["topic"] == source
        assert (said["partition"], said["offset"]) == (str(partition), str(offset))
        assert (said["flow"], said["stage"], said["version"]) == (name, source, VERSION)
        assert said["topic-id"] == log.topic(source).id
        assert said.get("output") == ("views" if each.step == "views" else None)
        assert len(said.get("trace", "")) <= TRACE_CHARACTERS
        assert (said["code"], said["step"], said["exception"]) == (str(int(each.code)), each.step, each.exception)
        assert each.message in said["message"]
        assert each.trace in said.get("trace", "")
        produced.add(ErrorCode(int(said["code"])))
    [(batches,)] = rows(world, "select count(*) from flow_batch where state = 'committed'")
    assert batches == 1


def told(record: Record) -> dict[str, str]:
    """What Towpath's headers say."""
    prefix = "towpath."
    return {name.removeprefix(prefix): (value or b"").decode() for name, value in record.headers if prefix in name}


@pytest.mark.part("flows")
@produces(ErrorCode.TRANSFORM_FAILED)
def test_a_record_on_which_an_expression_fails_is_searched_for(world: World, name: str, produced: Produced) -> None:
    flow = Flow(name, version=VERSION)

    @flow.step(topic(f"{name}-in"), schema="n int, at string")
    def parsed(rows: Any) -> Any:
        return rows.withColumn("at", F.col("at").cast("int"))

    flow.load(parsed, table("out", url=f"sqlite:///{world.home}/out.db"), name="out")
    world.send(f"{name}-in", [{"n": 0, "at": "1"}, {"n": 1, "at": "soon"}, {"n": 2, "at": "3"}], partitions=1)
    world.run(flow)
    assert stored(world) == [0, 2]
    [record] = shown(world.runtime.log, flow.error_topic)
    said = told(record)
    assert (record.key, record.value) == (b"1", b'{"n": 1, "at": "soon"}')
    assert (said["code"], said["step"], said["offset"], said["version"]) == ("9", "parsed", "1", VERSION)
    assert (said["exception"], "CAST_INVALID_INPUT" in said["message"]) == ("NumberFormatException", True)
    produced.add(ErrorCode(int(said["code"])))


@pytest.mark.part("flows")
@produces(ErrorCode.UNCATEGORISED)
def test_what_nobody_knows_starts_the_attempt_anew(world: World, name: str, produced: Produced) -> None:
    """The driver cannot write what it has to: something else lies where its directory was."""
    source = f"{name}-in"
    flow = Flow(name)
    flow.load(topic(source), table("out", url=f"sqlite:///{world.home}/out.db"), name="out")
    world.send(source, [{"n": n} for n in range(5)])
    with driven(world, flow, produced) as drive:
        drive.wait_until_done(5)
        [decided] = (world.home / "flows").glob("*/*/1/decided")
        decided.rename(decided.with_name("aside"))
        decided.touch()
        world.send(source, [{"n": n} for n in range(5, 10)])
        machine = drive.wait_for_trouble(ErrorCode.UNCATEGORISED)
        assert (machine["resumes"], machine["failing"]) == ("configure", "configure")
        assert str(decided) in machine["last_error"]["message"]
        decided.unlink()
        drive.wait_until_done(10)
    assert stored(world) == list(range(10))
    assert {code for code, _ in troubles(world)} == {ErrorCode.UNCATEGORISED}


def stored(world: World) -> list[int]:
    with closing(sqlite3.connect(world.home / "out.db", timeout=30)) as connection:
        return sorted(json.loads(text)["n"] for (text,) in connection.execute("select document from out"))


@pytest.mark.part("flows")
@produces(ErrorCode.TOPIC_NOT_FOUND)
def test_without_its_errors_a_batch_does_not_commit(world: World, name: str, produced: Produced) -> None:
    """Somebody has deleted the error topic under the running flow."""
    source = f"{name}-in"
    flow = Flow(name)
    flow.load(topic(source), table("out", url=f"sqlite:///{world.home}/out.db"), name="out")
    world.send(source, [{"n": 0}], partitions=1)  # of two, one without anything bad might make a batch of its own
    log = world.runtime.log
    with driven(world, flow, produced) as drive:
        drive.wait_until_done(1)
        log.delete_topic(flow.error_topic)
        world.send(source, [b"{", {"n": 1}, b"[1", {"n": 2}])
        machine = drive.wait_for_trouble(ErrorCode.TOPIC_NOT_FOUND)
        assert (machine["failing"], machine["resumes"]) == ("errors", "errors")
        assert [state for (state,) in rows(world, "select state from flow_batch order by batch_id")][1:] == ["snapshot"]
        log.create_topic(flow.error_topic, 1)
        drive.wait_until_done(5)
    assert stored(world) == [0, 1, 2]
    assert {record.value for record in shown(log, flow.error_topic)} == {b"{", b"[1"}
    assert world.counts(flow) == Counter(read=5, loaded=3, failed=2, delivered=3)
