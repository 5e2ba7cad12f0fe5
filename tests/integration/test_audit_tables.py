"""Reading back tables of which each record names its own, on both databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from tests.integration.test_sink_index import deliveries, write

from towpath.flow.delivery.ids import DeliveryIds
from towpath.flow.sinks.index.reader import IndexReader
from towpath.flow.sinks.registry import open_reader
from towpath.flow.sinks.sink import UnreadableSink
from towpath.flow.sinks.table.sink import TableSink, table
from towpath.stack.postgres import PostgresServer

IDS = DeliveryIds("flow", "stage", "output")
LOG: Any = None  # which tables there are is no matter of the log


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    if request.param == "sqlite":
        return {"url": f"sqlite:///{tmp_path}/out.db"}
    server: PostgresServer = request.getfixturevalue("postgres")
    schema = f"t{uuid4().hex[:16]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"create schema {schema}".encode())
    return {"url": server.url, "schema": schema}


def read_back(sink: TableSink) -> list[tuple[bytes, str]]:
    reader = open_reader(sink, LOG, {}, IDS)
    assert not isinstance(reader, UnreadableSink | IndexReader)
    try:
        return sorted(reader.delivered())
    finally:
        reader.close()


def test_tables_of_a_template_are_found_by_their_names(place: dict[str, Any]) -> None:
    sink = table("views_{day}", **place)
    assert read_back(sink) == [], "no table is there yet"
    days = ["views_1", "views_2", "views_2", "views_it's"]
    assert write(sink, deliveries([{}] * 4, targets=days)) == []
    write(table("orders", **place), deliveries([{}]))
    write(table("my_views_1", **place), deliveries([{}]))
    found = read_back(sink)
    assert [id for id, _ in found] == [bytes([number]) * 32 for number in range(4)]
    for at, (day, (_, name)) in enumerate(zip(days, found, strict=True)):
        assert {day, str(at)} <= set(name.split())


def test_a_delivery_in_two_tables_is_read_twice(place: dict[str, Any]) -> None:
    sink = table("views_{day}", **place)
    for day in ("views_1", "views_2"):
        write(sink, deliveries([{}], targets=[day]))
    assert [id for id, _ in read_back(sink)] == [bytes(32)] * 2
