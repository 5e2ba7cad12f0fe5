"""A real flow on Spark into real sinks, audited down to what these hold; then each tampering, found at its record.

One run serves all tests: it is the tampering that is tried, on copies of what the run has left.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import towpath
from towpath import Flow, files, table, topic
from towpath.flow.audit.audit import Audit
from towpath.flow.audit.balance import AuditVerdict, OutputVerdict, Proof
from towpath.flow.audit.rows import Problem, ProblemKind
from towpath.flow.audit.trace import SinkTracer, Tracer
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.records.errors import ErrorRecord
from towpath.flow.sinks.sink import NullSink
from towpath.flow.sinks.template import Template
from towpath.log import NewRecord
from towpath.runtime import Runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW = {"name": "page.viewed", "url": "/a/x"}
FATES = [VIEW, {**VIEW, "name": "other"}, {**VIEW, "url": "/zz"}, {**VIEW, "url": "/two"}]
SECTIONS = {"a": ["news"], "two": ["news", "sport"]}


def declared(home: Path) -> Flow:
    flow = Flow("page-views")

    @flow.each(topic("clicks"), schema="name string, url string")
    def label(view: dict[str, Any]) -> list[dict[str, Any]] | None:
        if view["name"] != "page.viewed":
            return None
        return [{**view, "section": each} for each in SECTIONS[view["url"].split("/")[1]]]

    flow.load(label, table("views", url=f"sqlite:///{home}/out.db"), name="rows")
    flow.load(label, table("newest", url=f"sqlite:///{home}/out.db", id="{url}"), name="newest")
    flow.load(label, files(home / "lines"), name="lines")
    flow.load(label, files(home / "parquet", format="parquet"), name="parquet")
    flow.load(label, topic("labelled", partitions=1), name="topic")
    flow.load(label, NullSink(Template("gone"), None, None), name="gone")
    return flow


def connect(home: Path) -> Runtime:
    return towpath.connect(
        database={"url": f"sqlite:///{home}/towpath.db", "synchronous": "normal"},
        flow={"directory": str(home / "flows"), "trigger_s": 0.1, "sample_s": 0.1},
        spark={"master": "local[2]"},
    )


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two batches of twelve records each, over two partitions, and two records in flight."""
    home = tmp_path_factory.mktemp("audited")
    with connect(home) as runtime:
        runtime.log.create_topic("clicks", 2)
        for _ in range(2):
            send(runtime, FATES * 3)
            run = runtime.flow(declared(home))
            run.start(until_idle=True)
            run.wait()
        send(runtime, FATES[:2])
        # The file of the database is copied by tests: nothing may be left beside it.
        runtime.database.connection().execute("pragma wal_checkpoint(truncate)")  # type: ignore[attr-defined]
    return home


def send(runtime: Runtime, values: list[dict[str, str]]) -> None:
    records = [NewRecord(json.dumps(each).encode(), partition=at // 4 % 2) for at, each in enumerate(values)]
    runtime.log.append("clicks", records)


class World:
    """What the run has left, for one test to spoil. Sinks are where they were: the flow knows them by their paths."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.runtime = connect(home)
        self.flow = declared(home)

    def audit(self) -> AuditVerdict:
        return Audit(self.runtime.database, self.runtime.log, "page-views", self.flow).run()

    def problems(self, *kinds: ProblemKind) -> list[Problem]:
        found = self.audit()
        assert not found.is_balanced
        return [each for each in found.problems if each.kind in kinds]

    def out(self, statement: str) -> None:
        with sqlite3.connect(self.home / "out.db") as database:
            assert database.execute(statement).rowcount == 1
        database.close()


@pytest.fixture
def world(original: Path, tmp_path: Path) -> Iterator[World]:
    """The paths of the sinks are in the flow; so the home is put back afterwards, not moved."""
    kept = tmp_path / "kept"
    shutil.copytree(original, kept)
    made = World(original)
    yield made
    made.runtime.close()
    shutil.rmtree(original)
    shutil.copytree(kept, original)


def places(problem: Problem) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.stop) for each in problem.places]


def test_the_flow_balances_and_its_sinks_hold_what_the_ledger_says(world: World) -> None:
    found = world.audit()
    assert found.problems == []
    assert found.is_balanced
    assert found.balance.arrived == 26
    assert found.balance.places == {
        RecordPlace.LOADED: 12,
        RecordPlace.FILTERED: 6,
        RecordPlace.FAILED: 6,
        RecordPlace.IN_FLIGHT: 2,
    }
    # At least once: a batch that was tried again has appended to the topic again.
    proofs = {each.output: (each.proof, each.delivered, _distinct(each)) for each in found.outputs}
    assert proofs == {
        "rows": (Proof.PROVEN, 18, 18),
        "newest": (Proof.PARTLY, 18, 2),
        "lines": (Proof.PROVEN, 18, 18),
        "parquet": (Proof.PROVEN, 18, 18),
        "topic": (Proof.PROVEN, 18, 18),
        "gone": (Proof.NOT_PROVABLE, 18, None),
    }


def _distinct(output: OutputVerdict) -> int | None:
    return None if output.found is None else output.found - output.repeats


def test_a_row_deleted_from_a_table(world: World) -> None:
    world.out("delete from views where id = 'clicks:0:1:3:1'")
    [found] = world.problems(ProblemKind.MISSING)
    assert (found.output, found.batch_id, places(found)) == ("rows", 0, [(1, 3, 4)])


def test_a_row_doubled_in_a_table(world: World) -> None:
    world.out(
        "insert into views (id, delivery_id, version, document) "
        "select id, delivery_id, version + 1, document from views where id = 'clicks:0:0:8'"
    )
    [found] = world.problems(ProblemKind.DOUBLED)
    assert (found.output, found.batch_id, places(found), found.found) == ("rows", 1, [(0, 8, 9)], "2 times")


def test_a_row_of_nobody_in_a_table(world: World) -> None:
    world.out("insert into views (id, delivery_id, version, document) values ('me', x'00ff', 7, '{}')")
    found = world.problems(ProblemKind.STRANGER)
    [stranger] = found
    assert stranger.output == "rows"
    assert {"views", "7"} <= set(stranger.found.split())


def test_a_file_deleted(world: World) -> None:
    next((world.home / "parquet").glob("*.parquet")).unlink()
    found = world.problems(ProblemKind.MISSING)
    assert {each.output for each in found} == {"parquet"}
    assert all("are missing" not in each.found or each.places for each in found)


def test_a_line_deleted_from_a_file(world: World) -> None:
    path = max((world.home / "lines").glob("*.jsonl"), key=lambda each: each.stat().st_size)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    [found] = world.problems(ProblemKind.TORN)
    assert (found.output, found.found) == ("lines", str(len(lines) - 1))
    assert str(path) in found.expected


def test_a_record_that_somebody_put_into_the_output_topic(world: World) -> None:
    [(_, offset)] = world.runtime.log.append("labelled", [NewRecord(b"{}")])
    [found] = world.problems(ProblemKind.STRANGER)
    assert (found.output, found.found) == ("topic", f"labelled/0/{offset}")


LEDGER: dict[str, tuple[str, Callable[[Problem], bool]]] = {
    "row": (
        "delete from flow_batch where batch_id = 0",
        lambda found: found.kind is ProblemKind.HOLE and found.batch_id == 0,
    ),
    "position": (
        "update flow_batch set positions = replace(positions, '[0,8]', '[0,7]') where batch_id = 0",
        lambda found: found.kind is ProblemKind.BREAK and places(found) == [(0, 7, 8)],
    ),
    "digest": (
        "update flow_batch set digests = '{}' where batch_id = 1",
        lambda found: found.kind is ProblemKind.DIFFERENT and found.batch_id == 1 and found.output == "rows",
    ),
}


@pytest.mark.parametrize("what", LEDGER)
def test_a_changed_ledger(world: World, what: str) -> None:
    statement, is_it = LEDGER[what]
    with sqlite3.connect(world.home / "towpath.db") as database:
        assert database.execute(statement).rowcount == 1
    database.close()
    assert any(map(is_it, world.audit().problems))


def test_a_deleted_error_record(world: World) -> None:
    log, errors = world.runtime.log, "page-views.errors"
    gone = next(record for number in log.ends(errors) for record in log.read(errors, number, 0))
    log.delete_before(errors, {gone.partition: gone.offset + 1})
    [found] = world.problems(ProblemKind.FAILED)
    assert found.batch_id == ErrorRecord.read(gone).batch_id


def test_where_a_record_is(world: World) -> None:
    sinks = SinkTracer(world.flow, world.runtime.log)
    tracer = Tracer(world.runtime.database, world.runtime.log, "page-views", sinks)
    [two] = tracer.trace("clicks", 0, 3)
    assert two.place is RecordPlace.LOADED
    rows = sorted(str(each.id) for each in two.found if each.output == "rows")
    assert rows == ["clicks:0:0:3", "clicks:0:0:3:1"]
    [failed] = tracer.trace("clicks", 0, 2)
    assert failed.place is RecordPlace.FAILED
    assert "KeyError" in failed.failures[0].record.failure.exception
    only_table = Flow("page-views")
    only_table.load(topic("clicks"), table("views", url=f"sqlite:///{world.home}/out.db"), name="rows")
    exact = Tracer(world.runtime.database, world.runtime.log, "page-views", SinkTracer(only_table, world.runtime.log))
    [filtered] = exact.trace("clicks", 1, 1)
    assert filtered.place is RecordPlace.FILTERED
    assert "label" in filtered.now
