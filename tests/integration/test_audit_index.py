"""`audit --deep` and `trace` of a real flow into a real Elasticsearch; then each tampering, found at its document.

One run serves all tests: what the indices held after it is put back after each of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.support.elasticsearch import Document, Node

import towpath
from towpath import Flow, index, topic
from towpath.flow.audit.audit import Audit
from towpath.flow.audit.balance import AuditVerdict, Proof
from towpath.flow.audit.rows import Problem, ProblemKind
from towpath.flow.audit.trace import SinkTracer, Tracer
from towpath.flow.delivery.ids import version_of
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.sinks.index import reader as index_reader
from towpath.log import NewRecord
from towpath.runtime import Runtime
from towpath.stack.search import ElasticsearchServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # the first one starts Spark and the node, and runs the flows

VIEW = {"name": "page.viewed", "url": "/a/x", "kind": "news"}
# Loaded, filtered, failed, loaded twice.
FATES = [VIEW, {**VIEW, "name": "other"}, {**VIEW, "url": "/zz"}, {**VIEW, "url": "/two", "kind": "sport"}]
ROUNDS = 3
SECTIONS = {"a": ["front"], "two": ["front", "back"]}
# Each number three times in its partition, at the offsets n // 2, 5 + n // 2 and 10 + n // 2; then two that are bad.
ORDERS = [
    NewRecord(json.dumps({"n": n, "kind": "even" if n % 2 == 0 else "odd", "round": again}).encode(), partition=n % 2)
    for again in range(3)
    for n in range(10)
] + [NewRecord(b"{", partition=0), NewRecord(b'{"kind":"without number"}', partition=1)]


@dataclass
class World:
    """A flow that has run, its indices, and whoever spoils them."""

    node: Node
    name: str
    home: Path
    kept: list[Document] = field(default_factory=list)

    @property
    def flow(self) -> Flow:
        flow = Flow(f"views-{self.name}")

        @flow.each(topic("clicks"), schema="name string, url string, kind string")
        def label(view: dict[str, Any]) -> list[dict[str, Any]] | None:
            if view["name"] != "page.viewed":
                return None
            return [{**view, "section": each} for each in SECTIONS[view["url"].split("/")[1]]]

        url, name = self.node.url, self.name
        flow.load(label, index(f"{name}-all", url=url), name="all")
        flow.load(label, index(f"{name}-of-{{kind}}", url=url), name="by kind")
        flow.load(label, index(f"{name}-newest", url=url, id="{url}:{section}"), name="newest")
        return flow

    @property
    def orders(self) -> Flow:
        """Straight from the topic: the records themselves say which ids there must be."""
        flow = Flow(f"orders-{self.name}")
        sink = index(f"{self.name}-orders-{{kind}}", url=self.node.url, id="{n}")
        flow.load(topic("orders"), sink, name="orders")
        return flow

    def connect(self) -> Runtime:
        return towpath.connect(
            database={"url": f"sqlite:///{self.home}/towpath.db", "synchronous": "normal"},
            flow={"directory": str(self.home / "flows"), "trigger_s": 0.1, "sample_s": 0.1},
            spark={"master": "local[2]"},
        )

    def run(self) -> None:
        """Two batches over two partitions, and two records in flight."""
        with self.connect() as runtime:
            runtime.log.create_topic("clicks", 2)
            for _ in range(2):
                send(runtime, FATES * ROUNDS)
                run = runtime.flow(self.flow)
                run.start(until_idle=True)
                run.wait()
            send(runtime, FATES[:2])
            runtime.log.create_topic("orders", 2)
            runtime.log.append("orders", ORDERS)
            run = runtime.flow(self.orders)
            run.start(until_idle=True)
            run.wait()
        self.kept = self.node.documents(f"{self.name}-*")

    def put_back(self) -> None:
        """The indices that were touched, whole."""
        now = {each[:3] for each in self.node.documents(f"{self.name}-*")}
        touched = {target for target, _, _ in now ^ {each[:3] for each in self.kept}}
        for target in touched:
            self.node.drop(target)
        if again := [each for each in self.kept if each.target in touched]:
            self.node.put(again)

    def audit(self, flow: Flow | None = None) -> AuditVerdict:
        flow = flow or self.flow
        with self.connect() as runtime:
            return Audit(runtime.database, runtime.log, flow.name, flow).run()

    def problems(self, flow: Flow | None = None) -> list[Problem]:
        found = self.audit(flow)
        assert not found.is_balanced
        return list(found.problems)


def send(runtime: Runtime, values: list[dict[str, str]]) -> None:
    records = [
        NewRecord(json.dumps(each).encode(), f"key-{at}".encode(), partition=at // 4 % 2)
        for at, each in enumerate(values)
    ]
    runtime.log.append("clicks", records)


@pytest.fixture(scope="module")
def ran(spark: SparkSession, elasticsearch: ElasticsearchServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(Node(elasticsearch.url), f"t-{uuid4().hex[:12]}", tmp_path_factory.mktemp("audited"))
    made.run()
    return made


@pytest.fixture
def world(ran: World) -> Iterator[World]:
    yield ran
    ran.put_back()


def places(problem: Problem) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.stop) for each in problem.places]


def test_the_indices_hold_what_the_ledger_says(world: World) -> None:
    found = world.audit()
    assert found.problems == []
    assert found.balance.places == {
        RecordPlace.LOADED: 12,
        RecordPlace.FILTERED: 6,
        RecordPlace.FAILED: 6,
        RecordPlace.IN_FLIGHT: 2,
    }
    assert {each.output: (each.proof, each.delivered, each.found, each.repeats) for each in found.outputs} == {
        "all": (Proof.PROVEN, 18, 18, 0),
        "by kind": (Proof.PROVEN, 18, 18, 0),
        "newest": (Proof.PARTLY, 18, 3, 0),
    }


@pytest.mark.parametrize(("output", "of"), [("all", "all"), ("by kind", "of-sport")])
def test_a_deleted_document(world: World, output: str, of: str) -> None:
    """The second of two that one record was made into."""
    world.node.delete(f"{world.name}-{of}", "clicks:0:1:3:1")
    [found] = world.problems()
    assert (found.kind, found.output, found.batch_id, places(found)) == (ProblemKind.MISSING, output, 0, [(1, 3, 4)])


def test_a_missing_index(world: World) -> None:
    world.node.drop(f"{world.name}-all")
    found = world.problems()
    assert [(each.kind, each.output, each.batch_id) for each in found] == [
        (ProblemKind.MISSING, "all", 0),
        (ProblemKind.MISSING, "all", 1),
    ]
    assert found[0].found.startswith("0")


def test_no_index_at_all(world: World) -> None:
    """Nothing that fits the pattern is there either."""
    world.node.drop(f"{world.name}-*")
    assert {(each.kind, each.output) for each in world.problems()} >= {
        (ProblemKind.MISSING, "all"),
        (ProblemKind.MISSING, "by kind"),
    }


def test_one_of_the_indices_is_missing(world: World) -> None:
    world.node.drop(f"{world.name}-of-sport")
    assert {(each.kind, each.output) for each in world.problems()} == {(ProblemKind.MISSING, "by kind")}


@pytest.mark.parametrize("id", ["somebody's", "clicks:0:0:1", "clicks:0:0:99999", "clicks:7:0:0", "orders:0:0:0"])
def test_a_foreign_document(world: World, id: str) -> None:
    """Also one that bears the place of a record that was filtered, of none, or of another topic."""
    world.node.put([Document(f"{world.name}-of-else", id, 1, {"x": 1})])
    [found] = world.problems()
    assert found.output == "by kind"
    if id == "clicks:0:0:1":
        assert (found.kind, places(found)) == (ProblemKind.EXTRA, [(0, 1, 2)])
    else:
        assert (found.kind, found.found) == (ProblemKind.STRANGER, f"document {id} of {world.name}-of-else")


def test_a_document_in_two_indices(world: World) -> None:
    [moved] = [each for each in world.kept if each.target.endswith("-of-news") and each.id == "clicks:0:0:8"]
    world.node.put([moved._replace(target=f"{world.name}-of-sport")])
    [found] = world.problems()
    assert (found.kind, found.output, found.batch_id, places(found)) == (ProblemKind.DOUBLED, "by kind", 1, [(0, 8, 9)])


def test_a_document_under_another_id(world: World) -> None:
    [one] = [each for each in world.kept if each.target.endswith("-all") and each.id == "clicks:0:0:0"]
    world.node.delete(one.target, one.id)
    world.node.put([one._replace(id="clicks:0:0:0:9")])
    kinds = {(each.kind, each.output) for each in world.problems()}
    assert kinds == {(ProblemKind.DIFFERENT, "all")}


def test_a_version_of_no_record(world: World) -> None:
    [one] = [each for each in world.kept if each.id == "/a/x:front"]
    world.node.put([one._replace(version=version_of(0, 50))])
    [found] = world.problems()
    assert (found.kind, found.output) == (ProblemKind.STRANGER, "newest")
    assert {"/a/x:front", f"{world.name}-newest", "50"} <= set(found.found.split())


def test_ids_that_the_records_themselves_name(world: World) -> None:
    found = world.audit(world.orders)
    assert found.problems == []
    assert found.balance.places == Counter({RecordPlace.LOADED: 30, RecordPlace.FAILED: 2})
    [output] = found.outputs
    assert (output.proof, output.delivered, output.found) == (Proof.PARTLY, 30, 10)
    assert output.why


def test_a_deleted_document_with_an_id_of_the_users(world: World) -> None:
    """It is told of the newest record that has this id."""
    world.node.delete(f"{world.name}-orders-odd", "3")
    [found] = world.problems(world.orders)
    assert (found.kind, found.output, places(found)) == (ProblemKind.MISSING, "orders", [(1, 11, 12)])


@pytest.mark.part("flows")
def test_a_document_of_an_older_record(world: World) -> None:
    """As after somebody has put back a copy."""
    kept = {(each.target, each.id): each for each in world.kept if "-orders-" in each.target}
    name = (f"{world.name}-orders-even", "0")
    kept[name] = kept[name]._replace(version=version_of(0, 5))
    world.node.drop(f"{world.name}-orders-*")
    world.node.put(kept.values())
    [found] = world.problems(world.orders)
    assert (found.kind, places(found)) == (ProblemKind.MISSING, [(0, 10, 11)])
    assert "10" in found.expected.split()
    assert "5" in found.found.split()


def test_no_index_for_ids_of_the_users(world: World) -> None:
    world.node.drop(f"{world.name}-orders-*")
    assert len(world.problems(world.orders)) == 10


def test_an_index_of_many_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are read until there are none; what the server keeps for that is given back."""
    monkeypatch.setattr(index_reader, "PAGE", 4)
    assert world.audit().problems == []
    stats = world.node.ask("GET", "/_nodes/stats/indices/search")["nodes"].values()
    assert [each["indices"]["search"]["open_contexts"] for each in stats] == [0]


def test_where_a_record_is(world: World) -> None:
    with world.connect() as runtime:
        flow, log = world.flow, runtime.log
        tracer = Tracer(runtime.database, log, flow.name, SinkTracer(flow, log))
        [two] = tracer.trace("clicks", 0, 3)
        assert two.place is RecordPlace.LOADED
        assert {(each.output, each.id, each.name.split()[-1]) for each in two.found} == {
            ("all", "clicks:0:0:3", f"{world.name}-all"),
            ("all", "clicks:0:0:3:1", f"{world.name}-all"),
            ("by kind", "clicks:0:0:3", f"{world.name}-of-sport"),
            ("by kind", "clicks:0:0:3:1", f"{world.name}-of-sport"),
        }
        [failed] = tracer.trace("clicks", 0, 2)
        assert (failed.place, failed.found) == (RecordPlace.FAILED, ())
