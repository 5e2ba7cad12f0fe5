"""The table sink on both databases, with marks and without: rows, repeats, refusals, a database that is away."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.integration.test_sink_index import PLACE, deliveries
from tests.integration.test_sink_index import write as write_at
from tests.support.sweep import sweep
from tests.support.table_home import Home, home_of, postgres_home
from tests.support.writes import MOST_S, Stopwatch

from towpath.db.tables.model import quoted
from towpath.errors import NeedsPerson, SinkError
from towpath.flow.delivery.ids import Strategy
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.sink import Deliveries, Refusal
from towpath.flow.sinks.table import writer as table_writer
from towpath.flow.sinks.table.sink import TableSink, table
from towpath.testing.proxy import CuttingProxy


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return home_of(request.param, request, tmp_path)


@pytest.fixture
def make(home: Home) -> Callable[..., TableSink]:
    return lambda target="orders", **options: table(target, **home.options, **options)


@pytest.fixture(params=[Strategy.AT_LEAST_ONCE, Strategy.EXACTLY_ONCE])
def write(request: pytest.FixtureRequest) -> Callable[..., list[Refusal]]:
    """Each call is a batch of its own."""
    batches = count()

    def write(sink: TableSink, *handed: Deliveries) -> list[Refusal]:
        place = replace(PLACE, strategy=request.param, batch_id=next(batches), launch=1)
        return write_at(sink, *handed, place=place)

    return write


def ids(count: int, first: int = 0) -> list[bytes]:
    return [number.to_bytes(32, "big") for number in range(first, first + count)]


def test_whole_documents_are_stored(home, make, write):
    documents = [{"n": 1, "text": "ä"}, {"n": 2, "deep": {"list": [1.10, None]}}]
    assert write(make(), deliveries(documents, versions=[10, 11], delivery_ids=ids(2))) == []
    found = home.sql("select id, version, document, delivery_id from orders order by id")
    parsed = [(id, version, orjson.loads(text) if home.is_sqlite else text) for id, version, text, _ in found]
    assert parsed == [("id-0", 10, documents[0]), ("id-1", 11, documents[1])]
    assert [bytes(row[3]) for row in found] == ids(2)


def test_a_repeat_adds_nothing(home, make, write):
    handed = deliveries([{"n": n} for n in range(50)], delivery_ids=ids(50))
    assert write(make(), handed) == []
    first = home.sql("select * from orders order by id")
    assert write(make(), handed, handed) == []
    assert home.sql("select * from orders order by id") == first
    assert len(first) == 50


def test_fields_go_to_columns_of_their_name(home, make, write):
    columns = {"order_id": "bigint", "total": "numeric", "paid": "boolean", "note": "text", "items": "jsonb"}
    documents = [
        b'{"order_id": 9007199254740993, "total": 12.5, "paid": true, "note": "it\'s \\"q\\"", "items": [{"a": 0}]}',
        b'{"order_id": 2, "note": null, "other": "kept in the document"}',
    ]
    assert write(make(columns=columns), deliveries(documents)) == []
    rows = home.sql("select order_id, total, paid, note, items, id from orders order by order_id desc")
    items: Any = '[{"a": 0}]' if home.is_sqlite else [{"a": 0}]
    assert [tuple(row) for row in rows] == [
        (9007199254740993, 12.5, True, 'it\'s "q"', items, "id-0"),
        (2, None, None, None, None, "id-1"),
    ]


def test_digits_are_kept_or_refused(home, make, write):
    documents = [b'{"total": 0.1234567890123456789012345}', b'{"total": 1.50}']
    refusals = write(make(columns={"total": "numeric"}), deliveries(documents))
    found = [str(total) for (total,) in home.sql("select total from orders order by id")]
    if home.is_sqlite:
        assert [(each.at, each.exception) for each in refusals] == [(0, "BadCell")]
        assert found == ["1.5"]
    else:
        assert refusals == []
        assert found == ["0.1234567890123456789012345", "1.50"]


def test_a_field_without_a_column_is_refused_when_the_document_is_not_kept(home, make, write):
    sink = make(columns={"n": "bigint"}, document=False)
    [refusal] = write(sink, deliveries([{"n": 1}, {"n": 2, "more": 1}, {}]))
    assert (refusal.at, refusal.code, refusal.exception) == (1, ErrorCode.ITEM_REFUSED, "BadCell")
    assert "'more'" in refusal.message
    assert home.sql("select n from orders order by id") == [(1,), (None,)]


def test_rows_that_the_database_refuses_do_not_stop_the_others(home, make, write):
    sink = make(columns={"n": "bigint not null"})
    documents: list[Any] = [{"n": n} for n in range(100)]
    documents[7], documents[8], documents[99] = {"n": "seven"}, {"n": None}, {"n": 1.5}
    handed = deliveries(documents, delivery_ids=ids(100))
    refusals = write(sink, handed)
    assert [(each.at, each.code) for each in refusals] == [(at, ErrorCode.ITEM_REFUSED) for at in (7, 8, 99)]
    assert all(each.exception and each.message for each in refusals)
    assert home.sql("select n from orders order by n") == [(n,) for n in range(100) if n not in (7, 8, 99)]


def test_constraints_of_a_table_that_was_there_hold(home, make, write):
    kinds = ("blob", "integer", "text") if home.is_sqlite else ("bytea", "bigint", "jsonb")
    home.sql(
        f"create table orders (id text, delivery_id {kinds[0]}, version {kinds[1]}, document {kinds[2]}, "
        "n bigint check (n < 3), m bigint unique, unique (version, delivery_id))"
    )
    documents = [{"n": 1, "m": 1}, {"n": 5, "m": 2}, {"n": 2, "m": 1}, {"n": 2, "m": 3}]
    refusals = write(make(columns={"n": "bigint", "m": "bigint"}), deliveries(documents, delivery_ids=ids(4)))
    assert [each.at for each in refusals] == [1, 2]
    assert home.sql("select n, m from orders order by m") == [(1, 1), (2, 3)]


def test_the_newest_of_a_key_stays(home, make, write):
    sink = make(columns={"user": "text", "n": "bigint"}, key=("user",))
    first = deliveries(
        [{"user": "ann", "n": 1}, {"user": "ann", "n": 3}, {"user": "ann", "n": 2}, {"user": "bob", "n": 9}],
        versions=[1, 3, 2, 4],
        delivery_ids=ids(4),
    )
    old = deliveries([{"user": "ann", "n": 0}, {"user": "bob", "n": 10}], versions=[2, 5], delivery_ids=ids(2, 10))
    for handed in (first, old, first):
        assert write(sink, handed) == []
    rows = home.sql('select "user", n, version from orders order by 1')
    assert rows == [("ann", 3, 3), ("bob", 10, 5)]


def test_an_id_is_a_key(home, make, write):
    sink = make(id="{user}")
    assert write(sink, deliveries([{"n": 1}, {"n": 2}], ids=["ann", "ann"], versions=[5, 4])) == []
    assert home.sql("select id, version from orders") == [("ann", 5)]


def test_a_key_without_a_value_is_refused(home, make, write):
    sink = make(columns={"user": "text"}, key=("user",))
    [refusal] = write(sink, deliveries([{"user": None}, {"user": "ann"}]))
    assert (refusal.at, refusal.code) == (0, ErrorCode.ITEM_REFUSED)
    assert "key column 'user'" in refusal.message


HOSTILE = ['quo"te', "semi; drop table orders; --", "ünï", "per%cent %s", "que?stion", "Upper Case", "select"]


@sweep("name", HOSTILE)
def test_hostile_names_are_only_names(home, make, name, write):
    sink = make(name, columns={name + "x": "text"}, id="{n}")
    hostile_value = "'); drop table orders; --"
    handed = deliveries([{name + "x": hostile_value}], targets=[name], delivery_ids=ids(1))
    assert write(sink, handed, handed) == []
    assert home.sql(f"select {quoted(name + 'x')} from {quoted(name)}") == [(hostile_value,)]
    tables = sink.open()
    assert (tables.count(name), list(tables.scan(name))) == (1, [(ids(1)[0], 0)])
    tables.close()


def test_tables_may_differ_from_record_to_record(home, make, write):
    sink = make("orders_{region}")
    targets = ["orders_eu", "orders_us", "orders_eu", "x" * 64, "sqlite_master", "nul\x00"]
    refusals = write(sink, deliveries([{"n": n} for n in range(6)], targets=targets, delivery_ids=ids(6)))
    assert [(each.at, each.exception) for each in refusals] == [(at, "BadTableName") for at in (3, 4, 5)]
    assert home.sql("select id from orders_eu order by id") == [("id-0",), ("id-2",)]
    assert home.sql("select id from orders_us") == [("id-1",)]


def test_text_that_the_database_cannot_hold_is_refused(home, make, write):
    """PostgreSQL has no NUL in texts; SQLite has."""
    refusals = write(make(columns={"text": "text"}), deliveries([{"text": "a\x00b"}, {"text": "plain"}]))
    assert [each.at for each in refusals] == ([] if home.is_sqlite else [0])


def test_many_rows_in_portions(home, make, monkeypatch, write):
    monkeypatch.setattr(table_writer, "PORTION_ROWS", 700)
    monkeypatch.setattr(table_writer, "PART_ROWS", 700)
    many = 5_000
    handed = deliveries([{"n": n} for n in range(many)], delivery_ids=ids(many))
    assert write(make(), handed) == []
    tables = make().open()
    assert tables.count("orders") == many
    assert sorted(tables.scan("orders")) == list(zip(ids(many), range(many), strict=True))
    tables.close()


def test_a_missing_table_is_an_empty_one(make):
    tables = make().open()
    assert (tables.count("none"), list(tables.scan("none"))) == (0, [])
    tables.close()


def test_check_makes_the_table_or_says_what_it_lacks(home, make):
    make().check(PLACE.settings)
    make("orders_{region}").check(PLACE.settings)
    assert home.sql("select count(*) from orders") == [(0,)]
    with pytest.raises(NeedsPerson, match="columns n") as caught:
        make(columns={"n": "bigint"}).check(PLACE.settings)
    assert caught.value.code == ErrorCode.SINK_REFUSED


def test_a_table_that_cannot_tell_repeats_needs_a_person(home, make, write):
    kinds = ("blob", "integer", "text") if home.is_sqlite else ("bytea", "bigint", "jsonb")
    home.sql(f"create table orders (id text, delivery_id {kinds[0]}, version {kinds[1]}, document {kinds[2]})")
    with pytest.raises(NeedsPerson):
        write(make(), deliveries([{"n": 1}]))
    assert home.sql("select count(*) from orders") == [(0,)]


def test_writers_that_make_the_same_table_at_once_do_not_fail(home, make):
    barrier = threading.Barrier(4)
    failed: list[BaseException] = []

    def one(number: int) -> None:
        try:
            writer = make().writer(PLACE)
            barrier.wait(60)
            writer.write(deliveries([{"n": 1}] * 100, delivery_ids=ids(100, number * 100)))
            writer.close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert home.sql("select count(*) from orders") == [(400,)]


def test_a_locked_file_is_waited_for(tmp_path, write):
    path = tmp_path / "out.db"
    sink = table("orders", url=f"sqlite:///{path}")
    sink.check(PLACE.settings)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("begin immediate")
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(write(sink, deliveries([{"n": 1}]))))
    thread.start()
    thread.join(0.5)
    assert thread.is_alive()
    assert done == []
    holder.execute("rollback")
    thread.join(60)
    holder.close()
    assert done == [[]]


def test_no_write_transaction_is_long(tmp_path, monkeypatch, write):
    watch = Stopwatch(monkeypatch)
    many = 30_000
    handed = deliveries(
        [{"n": n, "text": "x" * 180} for n in range(many)], delivery_ids=[os.urandom(32) for _ in range(many)]
    )
    rounds = iter(range(10))
    assert watch.best_of(lambda: write(table("orders", url=f"sqlite:///{tmp_path}/{next(rounds)}.db"), handed)) < MOST_S


def test_nowhere_to_write_is_an_outage(tmp_path):
    for url in (f"sqlite:///{tmp_path}/no/such/directory/out.db", "postgresql://user:hidden@127.0.0.1:1/none"):
        with pytest.raises(SinkError) as caught:
            table("orders", url=url).check(PLACE.settings)
        assert caught.value.code == ErrorCode.SINK_UNAVAILABLE
        assert "hidden" not in str(caught.value)
        assert "hidden" not in repr(table("orders", url=url))


def test_a_connection_that_breaks_is_an_outage_and_a_repeat_heals_it(postgres, write):
    home = postgres_home(postgres)
    port = postgres.port
    handed = deliveries([{"n": n} for n in range(10)], delivery_ids=ids(10))
    with CuttingProxy(port) as cutting:
        sink = table("orders", url=postgres.url.replace(f":{port}", f":{cutting.port}"), schema=home.schema)
        sink.check(PLACE.settings)
        for text, code in ((b"copy towpath_stage", ErrorCode.SINK_UNAVAILABLE), (b"commit\x00", ErrorCode.NETWORK)):
            cutting.lose_answer(text)
            with pytest.raises(SinkError) as caught:
                write(sink, handed)
            assert caught.value.code == code
        assert write(sink, handed) == []
    assert home.sql("select count(*) from orders") == [(10,)]
