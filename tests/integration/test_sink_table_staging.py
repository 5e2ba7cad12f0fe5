"""Exactly once into PostgreSQL: a unit is seen whole or not at all, whoever writes beside it and whatever breaks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.table_home import Home, postgres_home
from tests.support.units import WAIT_S, at_once, attempt, delivery_ids, place, refused_offsets, unit

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import SinkError
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.sink import WriterContext
from towpath.flow.sinks.table import postgres_writer
from towpath.flow.sinks.table.sink import TableSink, table
from towpath.stack.postgres import PostgresServer
from towpath.testing.clock import wait_until
from towpath.testing.proxy import CuttingProxy


@pytest.fixture
def home(postgres: PostgresServer) -> Home:
    return postgres_home(postgres)


@pytest.fixture
def make(home: Home) -> Callable[..., TableSink]:
    return lambda target="orders", **options: table(target, **home.options, **options)


def test_nothing_of_a_unit_is_seen_before_all_of_it(home, make, monkeypatch):
    sink = make("orders_{region}")
    seen: list[list[int]] = []

    def look(point: CrashPoint) -> None:
        names = ("orders_a", "orders_b", "towpath_mark")
        seen.append([home.sql(f"select count(*) from {name}")[0][0] for name in names])

    monkeypatch.setattr(crash, "here", look)
    assert attempt(sink, place(), unit(range(6), targets=["orders_a", "orders_b"] * 3)) == []
    assert seen == [[0, 0, 0], [0, 0, 0], [3, 3, 1]], "staged; moved; committed"


def test_an_attempt_that_is_given_up_leaves_nothing(home, make):
    writer = make().writer(place())
    writer.write(unit(range(6)))
    writer.close()
    assert home.consume() == []
    assert attempt(make(), place(), unit(range(6))) == []
    assert len(home.consume()) == 6


def test_units_that_write_the_same_keys_wait_for_each_other_and_not_in_a_circle(home, make):
    """Without an order of the rows this ends in deadlocks within a few rounds."""
    sink = make(columns={"n": "bigint", "by": "bigint"}, key=["n"])
    sink.check(place().settings)
    keys = 3_000
    rounds = 6

    def write(numbers: range, at: Callable[[int], WriterContext], by: int) -> None:
        for batch in range(rounds):
            versions = range(batch * keys, (batch + 1) * keys)
            documents = [{"n": number, "by": by} for number in numbers]
            assert attempt(sink, at(batch), unit(list(versions), documents)) == []

    upwards, downwards = range(keys), range(keys - 1, -1, -1)
    raised = at_once(
        lambda: write(upwards, lambda batch: place(batch, flow="up"), 0),
        lambda: write(downwards, lambda batch: place(batch, flow="down"), 1),
    )
    assert raised == []
    assert home.sql("select count(*), count(distinct n) from orders") == [(keys, keys)]


@pytest.fixture
def unique(home: Home) -> Home:
    """A table that refuses what its staging table cannot know of."""
    home.sql(
        "create table orders (id text, delivery_id bytea, version bigint, document jsonb, n bigint check (n < 100), "
        "m bigint unique, made timestamptz not null default now(), unique (version, delivery_id))"
    )
    return home


DOCUMENTS = [{"n": n, "m": m} for n, m in [(0, 0), (1, 1), (100, 2), (3, 1), (4, 4), (5, 0), (6, 6)]]
REFUSED = [2, 3, 5]  # the check; and both whose m is there already


def test_rows_that_only_the_table_refuses_are_found_when_they_are_moved(unique, make):
    sink = make(columns={"n": "bigint", "m": "bigint"})
    writer = sink.writer(place())
    at_once_refused = list(writer.write(unit(range(7), DOCUMENTS)))
    assert refused_offsets(at_once_refused) == [2], "a rule about one row is known while it is copied"
    assert "orders_n_check" in at_once_refused[0].message
    assert "towpath_stage" not in at_once_refused[0].message
    late = list(writer.finish())
    writer.close()
    assert refused_offsets(late) == [3, 5]
    assert all(each.exception == "UniqueViolation" and "orders_m_key" in each.message for each in late)
    taken = sorted(delivery_ids([0, 1, 4, 6]))
    assert unique.consume() == taken
    again = attempt(sink, place(), unit(range(7), DOCUMENTS))
    assert refused_offsets(again) == REFUSED, "m is free now, but what was refused stays refused"
    assert unique.consume() == []


def test_a_rule_that_cannot_be_tried_early_holds_all_the_same(home, make):
    """It is about a column that is not written, which the staging table does not have."""
    home.sql(
        "create table orders (id text, delivery_id bytea, version bigint, document jsonb, n bigint, "
        "least bigint not null default 3, unique (version, delivery_id), constraint enough check (n >= least))"
    )
    refusals = attempt(make(columns={"n": "bigint"}), place(), unit(range(6)))
    assert refused_offsets(refusals) == [0, 1, 2]
    assert all("enough" in each.message for each in refusals)
    assert home.consume() == sorted(delivery_ids([3, 4, 5]))


def test_late_refusals_of_a_large_unit_are_told_by_the_next_attempt(unique, make, monkeypatch):
    """A task does not keep its whole unit in memory for the case that one of its rows is refused at the end."""
    monkeypatch.setattr(postgres_writer, "KEPT_BYTES", 1)
    sink = make(columns={"n": "bigint", "m": "bigint"})
    handed = [unit([n], [DOCUMENTS[n]]) for n in range(7)]
    with pytest.raises(SinkError, match="2 rows"):
        attempt(sink, place(), *handed)
    assert unique.consume() == sorted(delivery_ids([0, 1, 4, 6]))
    assert refused_offsets(attempt(sink, place(), *handed)) == REFUSED
    assert unique.consume() == []


@pytest.fixture
def cutting(postgres: PostgresServer, home: Home) -> Any:
    with CuttingProxy(postgres.port) as proxy:
        yield proxy


@pytest.mark.parametrize("is_done", [True, False])
def test_a_commit_that_nobody_knows_of_is_settled_by_the_mark(home, cutting, postgres, is_done):
    url = home.url.replace(f":{postgres.port}", f":{cutting.port}")
    sink = table("orders", url=url, schema=home.schema)
    writer = sink.writer(place())
    writer.write(unit(range(6)))
    (cutting.lose_answer if is_done else cutting.lose_question)(b"commit\x00")
    with pytest.raises(SinkError) as caught:
        writer.finish()
    writer.close()
    assert caught.value.code == ErrorCode.NETWORK
    wait_until(lambda: not others(home), WAIT_S, "the server has ended the session")
    first = home.consume()
    assert attempt(sink, place(), unit(range(6))) == []
    second = home.consume()
    assert [len(first), len(second)] == ([6, 0] if is_done else [0, 6])


def test_a_connection_that_breaks_takes_the_rows_along(home, cutting, postgres):
    sink = table("orders", url=home.url.replace(f":{postgres.port}", f":{cutting.port}"), schema=home.schema)
    writer = sink.writer(place())
    writer.write(unit(range(3)))
    cutting.cut_all()
    with pytest.raises(SinkError) as caught:
        writer.finish()
    writer.close()
    assert caught.value.code == ErrorCode.SINK_UNAVAILABLE
    assert home.consume() == []


def others(home: Home, what: str = "true") -> list[Any]:
    """Sessions that are at work in this schema."""
    locks = f"pg_locks l join pg_class c on c.oid = l.relation where relnamespace = '{home.schema}'::regnamespace"
    return home.sql(
        f"select pid from pg_stat_activity where pid in (select l.pid from {locks}) "
        f"and application_name = 'towpath' and state <> 'idle' and {what}"
    )


class Held:
    """Stops the first who comes to a crash point, until it is let go."""

    def __init__(self, point: CrashPoint, monkeypatch: pytest.MonkeyPatch) -> None:
        self.point = point
        self.has_come, self.may_go = threading.Event(), threading.Event()
        monkeypatch.setattr(crash, "here", self._here)

    def _here(self, point: CrashPoint) -> None:
        if point is self.point and not self.has_come.is_set():
            self.has_come.set()
            assert self.may_go.wait(WAIT_S)


def test_two_attempts_at_once_write_once(home, make, monkeypatch):
    """Both of one launch, as two tasks of Spark may be. The second waits for the mark of the first."""
    sink = make(columns={"n": "bigint"}, key=["n"])
    sink.check(place().settings)
    home.sql("create table written (n bigint)")
    home.sql(
        "create function note() returns trigger language plpgsql as "
        f"'begin insert into {home.schema}.written values (new.n); return new; end'"
    )
    home.sql("create trigger note after insert or update on orders for each row execute function note()")
    held = Held(CrashPoint.TABLE_BEFORE_COMMIT, monkeypatch)

    def second() -> None:
        assert held.has_come.wait(WAIT_S)
        attempt(sink, place(), unit(range(6)))

    def keeper() -> None:
        wait_until(lambda: others(home, "wait_event_type = 'Lock'"), WAIT_S, "the second waits")
        held.may_go.set()

    assert at_once(lambda: attempt(sink, place(), unit(range(6))), second, keeper) == []
    assert sorted(home.sql("select n from written")) == [(n,) for n in range(6)], "each row was written once"


def test_a_successor_waits_for_a_move_that_is_under_way(home, make, monkeypatch):
    """Who has begun can be sure that nobody older commits after that."""
    begun: list[Any] = []
    held = Held(CrashPoint.TABLE_BEFORE_COMMIT, monkeypatch)
    make().check(place().settings)

    def successor() -> None:
        assert held.has_come.wait(WAIT_S)
        attempt(make(), place(launch=2), unit(range(6)))

    def keeper() -> None:
        wait_until(lambda: others(home, "wait_event_type = 'Lock'"), WAIT_S, "the successor waits")
        begun.extend(home.sql("select launch from towpath_launch"))
        held.may_go.set()

    assert at_once(lambda: attempt(make(), place(launch=1), unit(range(6))), successor, keeper) == []
    assert begun == [(1,)], "the successor has not begun before the move was over"
    assert home.sql("select launch from towpath_mark") == [(1,)], "the successor has found the mark"
    assert len(home.consume()) == 6


def test_a_writer_that_stops_in_its_transaction_is_ended_by_the_server(home, make, monkeypatch):
    """Its locks would keep the successor out for ever."""
    monkeypatch.setattr("towpath.db.tables.postgres.IDLE_TIMEOUT_MS", 2_000)
    held = Held(CrashPoint.TABLE_BEFORE_COMMIT, monkeypatch)
    raised: list[list[BaseException]] = []
    stopped = threading.Thread(
        target=lambda: raised.append(at_once(lambda: attempt(make(), place(launch=1), unit(range(6)))))
    )
    stopped.start()
    assert held.has_come.wait(WAIT_S)
    monkeypatch.setattr("towpath.db.tables.postgres.IDLE_TIMEOUT_MS", 30_000)  # the successor does not stop
    assert attempt(make(), place(launch=2), unit(range(6))) == []
    held.may_go.set()
    stopped.join(WAIT_S)
    [[error]] = raised
    assert isinstance(error, SinkError)
    assert home.sql("select launch from towpath_mark") == [(2,)]
    assert len(home.consume()) == 6
