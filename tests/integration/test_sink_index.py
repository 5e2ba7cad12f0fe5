"""The index sink on a real server: what is written, what is refused and why, and what a repeat changes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
from uuid import uuid4

import orjson
import pytest

from towpath.errors import SinkError
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.index import writer as index_writer
from towpath.flow.sinks.index.client import IndexClient
from towpath.flow.sinks.index.reader import IndexReader
from towpath.flow.sinks.index.sink import IndexSink, index
from towpath.flow.sinks.index.writer import BulkPart
from towpath.flow.sinks.sink import Deliveries, Refusal, Sink, WriterContext
from towpath.settings import Settings
from towpath.stack.search import ElasticsearchServer

S = TypeVar("S")

PLACE = WriterContext("flow", "stage", "output", "hash", "unit", Settings())


def deliveries(
    documents: Sequence[Any], ids: Sequence[str] | None = None, targets: Sequence[str] | None = None, **columns: Any
) -> Deliveries:
    """Deliveries of these documents (or texts), with plain values where nothing is given."""
    count = len(documents)
    values: dict[str, Any] = {
        "payloads": [each if isinstance(each, bytes) else orjson.dumps(each) for each in documents],
        "targets": targets or ["orders"] * count,
        "ids": ids or [f"id-{number}" for number in range(count)],
        "delivery_ids": [bytes([number % 256]) * 32 for number in range(count)],
        "versions": list(range(count)),
        "keys": [None] * count,
        "timestamps_ms": [1] * count,
    }
    return Deliveries(**{**values, **columns})


def through_pickle(sink: S) -> S:
    """The sink as a worker gets it."""
    found: S = pickle.loads(pickle.dumps(sink))  # noqa: S301 - our own
    return found


def write(sink: Sink, *handed: Deliveries, place: WriterContext = PLACE) -> list[Refusal]:
    """All of it through one writer."""
    writer = through_pickle(sink).writer(place)
    try:
        refusals = [refusal for each in handed for refusal in writer.write(each)]
        return [*refusals, *writer.finish()]
    finally:
        writer.close()


class Stored:
    """What an index holds."""

    def __init__(self, url: str) -> None:
        self._client = IndexClient(index("unused", url=url).address)

    def __call__(self, target: str) -> dict[str, Any]:
        self._client.request("POST", f"/{target}/_refresh")
        found = self._client.request("GET", f"/{target}/_search?size=1000&version=true").json()
        return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}

    def put(self, path: str, body: dict[str, Any]) -> None:
        answer = self._client.request("PUT", path, orjson.dumps(body))
        assert answer.status == 200, answer


@pytest.fixture
def stored(elasticsearch: ElasticsearchServer) -> Stored:
    return Stored(elasticsearch.url)


@pytest.fixture
def name() -> str:
    return f"t-{uuid4().hex[:12]}"


@pytest.fixture
def make(elasticsearch: ElasticsearchServer, name: str) -> Callable[..., IndexSink]:
    """A sink on the real server, to an index of this test's own."""
    return lambda target=name, **options: index(target, url=elasticsearch.url, **options)


@pytest.fixture
def reader(make: Callable[..., IndexSink]) -> Iterator[IndexReader]:
    found = IndexReader(make())
    yield found
    found.close()


def test_documents_arrive_as_they_were_sent(make, name, stored):
    many = [{"n": number, "text": f"täxt {number}"} for number in range(250)]
    assert (
        write(make(max_items=40), deliveries(many[:100]), deliveries(many[100:], ids=[f"b-{n}" for n in range(150)]))
        == []
    )
    expected = {f"id-{n}": many[n] for n in range(100)} | {f"b-{n}": many[100 + n] for n in range(150)}
    assert stored(name) == expected


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many documents each request had."""
    counts: list[int] = []
    send = index_writer.BulkSender.send

    def counting(sender: index_writer.BulkSender, parts: list[BulkPart], body: bytes) -> list[Refusal]:
        counts.append(body.count(b"\n") // 2)
        return send(sender, parts, body)

    monkeypatch.setattr(index_writer.BulkSender, "send", counting)
    return counts


def test_many_small_writes_share_a_request(make, sent):
    assert write(make(), *(deliveries([{"n": n}], ids=[f"{n}"]) for n in range(50))) == []
    assert sent == [50]


def test_requests_are_bounded_by_bytes(make, name, stored, sent):
    documents = [{"text": "x" * size} for size in (10, 4_000, 10, 900, 900, 900, 10)]
    assert write(make(max_bytes=2_000, in_flight=1), deliveries(documents)) == []
    assert sent == [1, 1, 2, 1, 2]
    assert stored(name) == {f"id-{at}": document for at, document in enumerate(documents)}


def test_targets_and_routings_come_from_the_record(make, name, stored):
    handed = deliveries(
        [{"n": 1}, {"n": 2}], targets=[f"{name}-a", f"{name}-b"], ids=["1", "2"], routings=["left", 'ri"ght']
    )
    assert write(make(f"{name}-{{day}}", routing="{user}"), handed) == []
    assert stored(f"{name}-a") == {"1": {"n": 1}}
    assert stored(f"{name}-b") == {"2": {"n": 2}}


@pytest.mark.parametrize("target", ["UPPER", "with space", "a,b", "_hidden", "", "..", "a" * 300, 'quo"te'])
def test_an_illegal_name_refuses_its_record_only(make, name, stored, target):
    handed = deliveries([{"n": 1}, {"n": 2}, {"n": 3}], targets=[name, target, name])
    [refusal] = write(make("{day}"), handed)
    assert (refusal.at, refusal.code, refusal.exception) == (1, ErrorCode.ITEM_REFUSED, "invalid_index_name_exception")
    assert stored(name) == {"id-0": {"n": 1}, "id-2": {"n": 3}}


HOSTILE_IDS = [
    'quo"te',
    "back\\slash",
    "line\nend",
    "nul\x00",
    "ünïcödé",
    "😀",
    '","_index":"evil',
    " ",
    "\u2028",
    "a" * 512,
]


def test_hostile_ids_are_kept(make, name, stored):
    documents = [{"n": number} for number in range(len(HOSTILE_IDS))]
    assert write(make(id="{x}"), deliveries(documents, ids=HOSTILE_IDS)) == []
    assert stored(name) == dict(zip(HOSTILE_IDS, documents, strict=True))


def test_an_id_that_is_too_long_does_not_fail_its_neighbours(make, name, stored):
    """The server would answer 400 for the whole request."""
    handed = deliveries([{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}], ids=["a", "x" * 600, "é" * 257, "é" * 256])
    refusals = write(make(id="{x}"), handed)
    assert [(each.at, each.code, each.exception) for each in refusals] == [
        (1, ErrorCode.ITEM_REFUSED, "IdTooLong"),
        (2, ErrorCode.ITEM_REFUSED, "IdTooLong"),
    ]
    assert stored(name) == {"a": {"n": 1}, "é" * 256: {"n": 4}}


def test_an_empty_id_is_refused(make, name, stored):
    [refusal] = write(make(id="{x}"), deliveries([{"n": 1}, {"n": 2}], ids=["", "b"]))
    assert (refusal.at, refusal.code) == (0, ErrorCode.ITEM_REFUSED)
    assert stored(name) == {"b": {"n": 2}}


def test_line_ends_inside_a_document_do_not_cut_the_request(make, name, stored):
    handed = deliveries([b'{\n  "a": "x\\ny",\r\n  "b": [\n1]\n}', b'{"a": "plain"}'])
    assert write(make(), handed) == []
    assert stored(name) == {"id-0": {"a": "x\ny", "b": [1]}, "id-1": {"a": "plain"}}


def test_a_mapping_conflict_refuses_the_record_and_says_why(make, name, stored):
    stored.put(f"/{name}", {"mappings": {"properties": {"n": {"type": "long"}}}})
    documents: list[Any] = [{"n": number} for number in range(100)]
    documents[13] = {"n": "thirteen"}
    documents[77] = {"n": {"deep": 1}}
    handed = deliveries(documents)
    refusals = write(make(max_items=30), handed)
    assert [(each.at, each.code) for each in refusals] == [(at, ErrorCode.ITEM_REFUSED) for at in (13, 77)]
    # Elasticsearch says the first, OpenSearch the second.
    assert {each.exception for each in refusals} <= {"document_parsing_exception", "mapper_parsing_exception"}
    assert all(each.deliveries is handed for each in refusals)
    assert "thirteen" in refusals[0].message
    assert sorted(stored(name)) == sorted(f"id-{n}" for n in range(100) if n not in (13, 77))


def test_a_long_reason_is_bounded(make, name, stored):
    stored.put(f"/{name}", {"mappings": {"dynamic": "strict", "properties": {"n": {"type": "long"}}}})
    [refusal] = write(make(), deliveries([{"n" * 5_000: 1}]))
    assert refusal.exception == "strict_dynamic_mapping_exception"
    assert len(refusal.message) <= 1_000


def test_an_old_delivery_never_overwrites_a_newer_document(make, name, stored):
    sink = make(id="{user}")
    newer = deliveries([{"n": "new"}], ids=["ann"], versions=[7])
    assert write(sink, newer) == []
    assert write(sink, deliveries([{"n": "old"}], ids=["ann"], versions=[6])) == []
    assert stored(name) == {"ann": {"n": "new"}}
    assert write(sink, newer) == []
    assert stored(name) == {"ann": {"n": "new"}}


@pytest.mark.parametrize("id", ["{user}", None])
def test_a_late_request_of_an_older_batch_changes_nothing(make, name, stored, id):
    """The zombie: it has gathered a request, was replaced, and sends when its successor is a batch ahead."""
    sink = make(id=id)
    names = ["ann", "bob"] if id else ["orders:0:0:1", "orders:0:0:2"]
    batch = deliveries([{"n": 1}, {"n": 2}], ids=names, versions=[1, 2])
    late = sink.writer(PLACE)
    assert late.write(batch) == []
    assert write(sink, batch) == []
    next_names = ["ann", "eve"] if id else ["orders:0:0:3", "orders:0:0:4"]
    assert write(sink, deliveries([{"n": 3}, {"n": 4}], ids=next_names, versions=[3, 4])) == []
    before = stored(name)
    assert late.finish() == []
    late.close()
    assert stored(name) == before
    newer = {"bob": {"n": 2}, "ann": {"n": 3}, "eve": {"n": 4}}
    assert before == (newer if id else {each: {"n": n + 1} for n, each in enumerate([*names, *next_names])})


def test_versions_may_come_from_a_field(make, name, stored):
    sink = make(id="{user}", version="at")
    documents = [{"at": 5}, {"at": 9}, {"at": 7}, {"at": -1}, {"at": "6"}, {}, {"at": True}, {"at": 2**63}]
    refusals = write(sink, deliveries(documents, ids=["ann"] * 8))
    assert {(each.at, each.exception) for each in refusals} == {(at, "BadVersion") for at in (3, 4, 5, 6, 7)}
    assert stored(name) == {"ann": {"at": 9}}


def test_without_a_version_what_comes_last_stays(make, name, stored):
    sink = make(id="{user}", version=None, max_items=1)
    assert write(sink, deliveries([{"n": n} for n in range(20)], ids=["ann"] * 20)) == []
    assert stored(name) == {"ann": {"n": 19}}


def test_create_keeps_what_is_there(make, name, stored):
    sink = make(id="{user}", op="create")
    assert write(sink, deliveries([{"n": 1}], ids=["ann"])) == []
    assert write(sink, deliveries([{"n": 2}, {"n": 3}], ids=["ann", "bob"])) == []
    assert stored(name) == {"ann": {"n": 1}, "bob": {"n": 3}}


def test_a_repeat_changes_nothing(make, name, stored):
    handed = deliveries([{"n": n} for n in range(30)])
    assert write(make(), handed) == []
    once = stored(name)
    assert write(make(), handed) == []
    assert stored(name) == once


def test_compressed_requests_are_understood(make, name, stored):
    assert write(make(gzip=True), deliveries([{"n": 1}])) == []
    assert stored(name) == {"id-0": {"n": 1}}


def test_check_passes_where_writing_is_possible(make):
    make().check(PLACE.settings)
    make("views-{day}").check(PLACE.settings)


def test_check_says_that_nobody_is_there():
    with pytest.raises(SinkError) as caught:
        index("views", url="http://127.0.0.1:1").check(PLACE.settings)
    assert caught.value.code == ErrorCode.SINK_UNAVAILABLE
    with pytest.raises(SinkError) as caught:
        index("views", url="http://nowhere.invalid:9200").check(PLACE.settings)
    assert caught.value.code == ErrorCode.SINK_UNAVAILABLE


def test_the_reader_finds_ids_and_versions(make, name, reader, monkeypatch):
    monkeypatch.setattr("towpath.flow.sinks.index.reader.PAGE", 7)
    monkeypatch.setattr("towpath.flow.sinks.index.reader.IDS_AT_ONCE", 10)
    documents = [{"n": n} for n in range(25)]
    ids = [f"{n}" for n in range(25)]
    routings = [f"r{n % 3}" for n in range(25)]
    assert write(make(id="{n}", routing="{r}"), deliveries(documents, ids=ids, routings=routings)) == []
    reader.refresh(name)
    assert reader.count(name) == 25
    assert sorted((found.id, found.version) for found in reader.scan(name)) == sorted((f"{n}", n) for n in range(25))
    found = {each.id: each.version for each in reader.find(name, [*ids, "missing"])}
    assert found == {f"{n}": n for n in range(25)}


def test_the_reader_takes_a_missing_index_for_an_empty_one(name, reader):
    reader.refresh(name)
    assert reader.count(name) == 0
    assert list(reader.find(name, ["a"])) == []
    assert list(reader.scan(name)) == []


def test_the_reader_finds_the_same_id_in_several_indices(make, name, reader):
    handed = deliveries([{"n": 1}] * 3, ids=["a"] * 3, targets=[f"{name}-{n}" for n in range(3)], versions=[4, 9, 5])
    assert write(make(f"{name}-{{day}}", id="{x}"), handed) == []
    reader.refresh(f"{name}-*")
    assert sorted(each.version for each in reader.find(f"{name}-*", ["a"])) == [4, 5, 9]
    assert reader.count(f"{name}-*") == 3
