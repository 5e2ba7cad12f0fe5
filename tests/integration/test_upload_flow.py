"""Uploads through a flow on Spark: rows as they come, rows at the end, exactly once each, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.support.flows import World
from tests.support.logs import everything
from tests.support.uploads import open_upload, received, send_input, send_upload, state_of

import towpath
from towpath import Flow, collect, result, topic
from towpath.core.events import EventKind
from towpath.errors import ResultsGone
from towpath.flow.records.errors import ErrorRecord
from towpath.runtime import Runtime
from towpath.stack.postgres import PostgresServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRIP = "id int, city string, fare bigint"
CITIES = [{"city": "Ulm", "country": "DE"}, {"city": "Turin", "country": "IT"}]


def sections(home: Path, flow: str = "trips") -> dict[str, Any]:
    inputs = {
        "cities": {"topic": f"{flow}.cities", "partitions": 1},
        "trips": {"topic": f"{flow}.trips", "partitions": 2, "schema": TRIP, "after": ["cities"]},
    }
    stream = {"flow": flow, "results": ["known", "abroad", "dearest"], "inputs": inputs}
    return {"directory": str(home / "uploads"), "streams": {"trips": stream}}


def trips_flow(name: str = "trips", *, fails: bool = False) -> Flow:
    """Looks cities up in an earlier input in both ways, and sums up at the end."""
    flow = Flow(name)
    cities = collect("cities", schema="city string, country string")
    flow.load(flow.source(topic(f"{name}.cities")), cities)
    trips = flow.source(topic(f"{name}.trips"), schema=f"upload string, {TRIP}", name="trip")

    @flow.each(trips, deterministic=True)
    def known(trip: dict[str, Any]) -> dict[str, Any] | None:
        found = {each["city"]: each["country"] for each in cities.documents(trip["upload"])}
        return {**trip, "country": found[trip["city"]]} if trip["city"] in found else None

    @flow.step(trips)
    def abroad(frame: DataFrame) -> DataFrame:
        return frame.join(cities.frame(frame.sparkSession).where("country <> 'DE'"), ["upload", "city"])

    flow.load(known, result("known", columns=("id", "country")))
    flow.load(abroad, result("abroad"))
    flow.load(trips, collect("trips", schema=TRIP))

    @flow.at_end("trips", result="dearest", collected=("trips", "cities"), order_by="city")
    def dearest(trips: DataFrame, cities: DataFrame) -> DataFrame:
        if fails:
            raise RuntimeError("not today\nnor tomorrow")
        highest = trips.groupBy("city").agg({"fare": "max"}).withColumnRenamed("max(fare)", "fare")
        return highest.join(cities, "city", "left").select("city", "country", "fare")

    return flow


@pytest.fixture
def home(embedded: World, tmp_path: Path) -> Iterator[Runtime]:
    with towpath.connect(**embedded.settings(), gateway=sections(tmp_path)) as runtime:
        yield runtime


def run(runtime: Runtime, flow: Flow) -> None:
    running = runtime.flow(flow)
    running.start(until_idle=True)
    running.wait()


def trip(id: int, city: str, fare: int | None) -> dict[str, Any]:
    return {"id": id, "city": city, "fare": fare}


def test_rows_as_they_come_and_at_the_end(home: Runtime, tmp_path: Path) -> None:
    check_two_uploads(home, "trips", tmp_path)


@pytest.mark.part("flows")
@pytest.mark.parametrize("place", ["kafka"], indirect=True)
def test_the_same_on_kafka_and_postgresql(world: World, postgres: PostgresServer, tmp_path: Path) -> None:
    name = f"t{uuid4().hex[:12]}"
    told = {**world.settings(), "database": {"url": postgres.url, "schema": name}, "gateway": sections(tmp_path, name)}
    with towpath.connect(**told) as runtime:
        check_two_uploads(runtime, name, tmp_path)


def check_two_uploads(home: Runtime, name: str, tmp_path: Path) -> None:
    uploads = [open_upload(home, "trips", "cities", "trips") for _ in range(2)]
    for upload in uploads:
        send_input(home, upload, "cities", CITIES)
    run(home, trips_flow(name))
    sent = [trip(1, "Ulm", 10), trip(2, "Turin", 20), trip(3, "Ulm", 30), trip(4, "Atlantis", None)]
    for number, upload in enumerate(uploads):
        more = [trip(5, "Turin", 99)] * number
        send_input(home, upload, "trips", [*sent, b"nonsense", *more])
    assert [state_of(home, upload) for upload in uploads] == ["closing", "closing"]
    run(home, trips_flow(name))

    for number, upload in enumerate(uploads):
        assert state_of(home, upload) == "sending"
        assert [each.is_acknowledged for each in home.outlet.queries(upload)] == [False] * 3
        assert home.outlet.columns(upload, "abroad") is not None
        rows = received(home, upload, "known")
        assert {row["upload"] for row in rows} == {upload}
        assert sorted((row["id"], row["country"]) for row in rows) == [
            *[(1, "DE"), (2, "IT"), (3, "DE")],
            *[(5, "IT")] * number,
        ]
        assert sorted(row["id"] for row in received(home, upload, "abroad")) == [2, *[5] * number]
        assert state_of(home, upload) == "sending"
        assert received(home, upload, "dearest") == [
            {"city": "Atlantis", "country": None, "fare": None},
            {"city": "Turin", "country": "IT", "fare": 99 if number else 20},
            {"city": "Ulm", "country": "DE", "fare": 30},
        ]
        assert state_of(home, upload) == "finished"
        assert not (tmp_path / "uploads" / upload).exists()
        with pytest.raises(ResultsGone):
            home.outlet.page(upload, "known")
    errors = [ErrorRecord.read(record) for record in everything(home.log, f"{name}.errors")]
    assert [error.failure.message.partition(":")[0] for error in errors] == ["line 5"] * 2


@pytest.mark.part("flows")
def test_a_step_that_fails_says_why_and_is_tried_when_asked(home: Runtime) -> None:
    upload = send_upload(home, "trips", {"cities": CITIES, "trips": []})
    run(home, trips_flow(fails=True))
    row = home.gateway.status(upload, owner=None).upload
    assert (row.state, row.why) == ("closing", "RuntimeError: not today")
    assert row.tries > 0
    home.outlet.retry(upload, who="ann", why="mended")
    run(home, trips_flow())
    # An upload without a line has complete results without a row.
    assert [(each.state, each.rows) for each in home.outlet.queries(upload)] == [("complete", 0)] * 3
    assert [received(home, upload, query) for query in ("known", "abroad", "dearest")] == [[], [], []]
    assert state_of(home, upload) == "finished"
    with home.database.read() as tx:
        kinds = {event.kind for event in home.event_log.page(tx, limit=1000)}
    assert {EventKind.UPLOAD_CLOSING_FAILED, EventKind.UPLOAD_CLOSING_RETRIED, EventKind.UPLOAD_CLOSED} <= kinds
