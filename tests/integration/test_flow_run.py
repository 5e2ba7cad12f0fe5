"""A whole flow on Spark: from topics through steps into a sink, with every record in exactly one place."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from tests.support.flows import World
from tests.support.logs import shown

from towpath import Flow, expect, table, topic
from towpath.errors import NotTheOnlyOne
from towpath.flow.failures import ErrorCode
from towpath.flow.stage import StageState
from towpath.flow.stage.states import StageCommandKind
from towpath.flow.stage.store import StageStore
from towpath.testing.clock import wait_until

GOOD = {"name": "page.viewed", "visitor": "v", "at": 1_700_000_000_000, "url": "/a/x"}
SECTIONS = {"a": "news", "b": "sport"}


def page_views(name: str, home: Path, source: str) -> Flow:
    """The flow of the design page: schema, expectation, DataFrame step, each step, names made of fields."""
    flow = Flow(name)

    @flow.step(topic(source), schema="name string, visitor string, at bigint, url string")
    @expect("positive time", "at > 0")
    def views(clicks: Any) -> Any:
        return clicks.where("name = 'page.viewed'").withColumn(
            "_day", F.to_date(F.timestamp_millis("at")).cast("string")
        )

    @flow.each(views, timeout_s=60)
    def label(view: dict[str, Any]) -> dict[str, Any]:
        if view["url"] == "/die":
            os._exit(3)
        return {**view, "section": SECTIONS[view["url"].split("/")[1]]}

    flow.load(label, table("views_{_day}", url=f"sqlite:///{home}/out.db"), name="views")
    return flow


def rows(home: Path, name: str) -> list[dict[str, Any]]:
    with sqlite3.connect(home / "out.db") as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"select * from {name} order by id")]


@pytest.mark.part("gate")
def test_every_record_is_in_exactly_one_place(world: World, name: str) -> None:
    flow = page_views(name, world.home, f"{name}-clicks")
    bad: dict[bytes | None, tuple[int, str]] = {
        b"{": (ErrorCode.NOT_JSON, f"{name}-clicks"),
        b'{"name":"page.viewed","at":"soon"}': (ErrorCode.NOT_VALID, f"{name}-clicks"),
        json.dumps({**GOOD, "at": 0}).encode(): (ErrorCode.NOT_VALID, "views"),
        json.dumps({**GOOD, "url": "/nowhere"}).encode(): (ErrorCode.TRANSFORM_FAILED, "label"),
        b" " * 2_000_000: (ErrorCode.RECORD_TOO_BIG, f"{name}-clicks"),
        None: (ErrorCode.NOT_JSON, f"{name}-clicks"),
    }
    good = [{**GOOD, "n": at} for at in range(50)]
    world.send(f"{name}-clicks", [*good, *bad, {**GOOD, "name": "other"}])
    assert world.run(flow) == {f"{name}-clicks": StageState.STOPPED}

    loaded = rows(world.home, "views_2023-11-14".join('""'))
    assert sorted(json.loads(row["document"])["n"] for row in loaded) == list(range(50))
    assert all(
        json.loads(row["document"]) == {**GOOD, "n": json.loads(row["document"])["n"], "section": "news"}
        for row in loaded
    )
    found = {record.value: ErrorRecordView.of(record.headers) for record in shown(world.runtime.log, flow.error_topic)}
    assert found == bad
    assert world.counts(flow) == Counter(read=57, loaded=50, filtered=1, failed=6, delivered=50)


class ErrorRecordView:
    """Code and step, as somebody who reads the topic with any client sees them."""

    @staticmethod
    def of(headers: Any) -> tuple[int, str]:
        said = dict(headers)
        return int(said["towpath.code"]), said["towpath.step"].decode()


def test_goes_on_where_it_stopped(world: World, name: str) -> None:
    flow = page_views(name, world.home, f"{name}-clicks")
    for _ in range(2):
        world.send(f"{name}-clicks", [GOOD, {**GOOD, "at": 0}])
        world.run(flow)
    assert world.counts(flow) == Counter(read=4, loaded=2, failed=2, delivered=2)
    assert len({(each.partition, each.offset) for each in world.errors(flow)}) == 2
    first, *others = world.batches(flow)
    for before, after in zip([first, *others], others, strict=False):
        assert after.positions.breaks_after(before.positions) == []


def test_a_record_that_kills_its_worker_is_set_aside(embedded: World) -> None:
    flow = page_views("f", embedded.home, "clicks")
    embedded.send("clicks", [GOOD] * 20 + [{**GOOD, "url": "/die"}] + [GOOD] * 20)
    embedded.run(flow)
    [error] = embedded.errors(flow)
    assert (error.failure.code, error.failure.step) == (ErrorCode.TRANSFORM_FAILED, "label")
    assert embedded.counts(flow)["loaded"] == 40


def test_a_record_on_which_a_dataframe_step_fails_is_searched_for(embedded: World) -> None:
    flow = Flow("f")

    @flow.step(topic("clicks"), schema="at string, n int")
    def parsed(clicks: Any) -> Any:
        return clicks.withColumn("at", F.col("at").cast("bigint"))

    flow.load(parsed, table("out", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    embedded.send("clicks", [{"at": str(at), "n": at} for at in range(30)] + [{"at": "soon"}])
    embedded.run(flow)
    [error] = embedded.errors(flow)
    assert error.failure.code is ErrorCode.TRANSFORM_FAILED
    assert "CAST_INVALID_INPUT" in error.failure.message
    assert sorted(json.loads(row["document"])["at"] for row in rows(embedded.home, "out")) == list(range(30))


def test_an_outage_holds_the_stage_and_it_goes_on_by_itself(embedded: World) -> None:
    """A lookup service is gone: nothing reaches the error topic, and when it is back every record is loaded."""
    marker = embedded.home / "service"
    flow = Flow("f")

    @flow.each(topic("clicks"))
    def looked_up(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "found": marker.read_text()}

    flow.load(looked_up, table("out", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    embedded.connect(retry_least_s=0.2)
    embedded.send("clicks", [{"n": at} for at in range(200)])
    run = embedded.open(flow)
    run.start(until_idle=True)
    wait_until(lambda: run.views()[0].machine.attempt >= 2 and run.views()[0].machine.state is StageState.HELD, 60)
    assert "FileNotFoundError" in str(run.views()[0].machine.last_error)
    marker.write_text("yes")
    run.wait()
    assert embedded.errors(flow) == []
    assert embedded.counts(flow)["loaded"] == 200
    assert ("held", "transform") in embedded.moves(), "what is decided in an outage does not count"


def test_a_topic_that_is_not_there_is_waited_for(embedded: World) -> None:
    flow = page_views("f", embedded.home, "clicks")
    run = embedded.open(flow)
    run.start(until_idle=True)
    wait_until(lambda: run.views()[0].machine.attempt >= 2, 60)
    error = run.views()[0].machine.last_error
    assert error is not None
    assert error.code is ErrorCode.TOPIC_NOT_FOUND
    embedded.send("clicks", [GOOD])
    run.wait()
    assert embedded.counts(flow)["loaded"] == 1


def test_records_that_expired_before_they_were_read_are_told_of(world: World, name: str) -> None:
    flow = page_views(name, world.home, f"{name}-clicks")
    source = f"{name}-clicks"
    world.send(source, [GOOD], partitions=1)
    world.run(flow)
    world.send(source, [GOOD] * 5)
    world.runtime.log.delete_before(source, {0: 4})
    world.run(flow)
    [gap] = world.errors(flow)
    assert (gap.kind, gap.failure.code, gap.offset, gap.stop) == ("gap", ErrorCode.OFFSET_NOT_AVAILABLE, 1, 4)
    assert world.counts(flow)["loaded"] == 3


def test_a_topic_made_again_is_read_from_its_start_in_a_new_generation(world: World, name: str) -> None:
    flow = page_views(name, world.home, f"{name}-clicks")
    source, log = f"{name}-clicks", world.runtime.log
    world.send(source, [{**GOOD, "n": 1}] * 3, partitions=1)
    world.run(flow)
    log.delete_topic(source)
    wait_until(lambda: source not in {each.name for each in log.topics()}, 30)
    world.send(source, [{**GOOD, "n": 2}], partitions=1)
    world.run(flow)
    assert [(batch.generation, batch.counts["loaded"]) for batch in world.batches(flow)] == [(1, 3), (2, 1)]
    assert len(rows(world.home, "views_2023-11-14".join('""'))) == 4


def test_pause_resume_and_reset_by_a_person(embedded: World) -> None:
    flow = page_views("f", embedded.home, "clicks")
    embedded.send("clicks", [GOOD] * 3)
    database = embedded.runtime.database
    stages = StageStore(database)

    def ask(kind: StageCommandKind, **arguments: Any) -> None:
        with database.transaction() as tx:
            stages.ask(tx, "f", "clicks", kind, "ada", "trying", arguments)

    run = embedded.open(flow)
    run.start()
    wait_until(lambda: embedded.counts(flow)["loaded"] == 3, 60)
    ask(StageCommandKind.PAUSE)
    wait_until(lambda: run.views()[0].machine.state is StageState.PAUSED, 30)
    embedded.send("clicks", [GOOD])
    ask(StageCommandKind.RESET, to="earliest")
    wait_until(lambda: embedded.counts(flow)["loaded"] == 7, 60)
    ask(StageCommandKind.STOP)
    assert run.wait() == {"clicks": StageState.STOPPED}
    assert {batch.generation for batch in embedded.batches(flow)} == {1, 2}
    assert len(rows(embedded.home, "views_2023-11-14".join('""'))) == 4, "a delivery is one row, however often it comes"


def test_a_stage_is_run_by_one_process(embedded: World) -> None:
    flow = page_views("f", embedded.home, "clicks")
    embedded.send("clicks", [GOOD])
    run = embedded.open(flow)
    run.start()
    embedded.connect()
    try:
        with pytest.raises(NotTheOnlyOne):
            embedded.open(flow).start()
    finally:
        run.stop()
        run.wait()


def test_a_flow_that_cannot_work_halts_with_the_reason(embedded: World) -> None:
    flow = Flow("f")

    @flow.step(topic("clicks"), schema="at bigint")
    def views(clicks: Any) -> Any:
        return clicks.select("at")

    flow.load(views, table("out", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    embedded.send("clicks", [GOOD])
    run = embedded.open(flow)
    run.start(until_idle=True)
    assert run.wait() == {"clicks": StageState.HALTED}
    assert "_record" in run.views()[0].machine.reason


def test_rows_of_one_input_stay_together_whatever_a_step_does_to_them(embedded: World) -> None:
    """They are numbered within their input and fail together, also after a shuffle."""
    flow = Flow("f")

    @flow.step(topic("clicks"), schema="n int, parts array<int>")
    def exploded(clicks: Any) -> Any:
        return clicks.withColumn("_part", F.explode("parts")).repartition(5, "_part")

    @flow.each(exploded)
    def checked(row: dict[str, Any]) -> dict[str, Any]:
        return {"n": row["n"], "part": 10 // row["_part"]}

    flow.load(checked, table("out", url=f"sqlite:///{embedded.home}/out.db"), name="out")
    embedded.send("clicks", [{"n": n, "parts": [1, 2, n]} for n in range(10)])
    embedded.run(flow)
    documents = [json.loads(row["document"]) for row in rows(embedded.home, "out")]
    assert Counter(document["n"] for document in documents) == dict.fromkeys(range(1, 10), 3)
    [error] = embedded.errors(flow)
    assert error.failure.exception == "ZeroDivisionError"
    assert embedded.counts(flow) == Counter(read=10, loaded=9, failed=1, delivered=27)
