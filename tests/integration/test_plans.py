"""The plans of the queries that run all the time, over a backlog of 200,000 messages: by index, never by a scan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from tests.support.quiet import Quiet
from tests.support.statistics import statistics
from tests.support.sweep import sweep

from towpath.db import Database, Queries, open_database
from towpath.settings import DatabaseSettings

ROWS = 200_000
# Nearly everything is done; of the rest some wait, some are delayed, some are being worked on.
STATE = """case when n % 100 < 94 then 'OK' when n % 100 = 94 then 'ERR' when n % 100 = 95 then 'DEAD'
           when n % 100 < 99 then 'NEW' else 'ACK' end"""
FILL = """
insert into message (id, inbox, function, payload, state, owner, owner_tick, attempts, deliver_after, expires_at,
                     created_at, updated_at)
select {id}, 'inbox-' || (n / 100 % 8), 'DO', '{{"n": 1}}', {state},
       case when n % 100 = 99 then 'owner-' || (n / 100 % 5) end, case when n % 100 = 99 then n end, 1,
       case when n % 100 = 98 then 1700000000000000 + n * 1000 end,
       case when n % 100 = 97 then 1700000000000000 + n * 1000 end,
       1600000000000000 + n * 1000, 1600000000000000 + n * 1000
from {numbers}
"""
SOURCES = {
    "sqlite": {
        "id": "printf('%08x-0000-7000-8000-000000000000', n)",
        "numbers": "(with recursive c (n) as (select 1 union all select n + 1 from c"
        f" where n < {ROWS}) select n from c)",
    },
    "postgres": {
        "id": "(lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid",
        "numbers": f"generate_series(1, {ROWS}) as n",
    },
}
ONE_ID = "00000001-0000-7000-8000-000000000000"
PARAMS: dict[str, Any] = {
    "inbox": "inbox-3",
    "owner": "owner-1",
    "tick": 7,
    "limit": 100,
    "seqs": "[99,199]",
    "seq": 99,
    "ids": json.dumps([ONE_ID]),
    "id": ONE_ID,
    "reason": "why",
    "delay_us": None,
    "after": 0,
    "upto": 2_000,
    "ok_before": 1,
    "err_before": 1,
    "dead_before": 1,
    "state": "OK",
    "old_owner": "owner-1",
    "payload": "1",
    "headers": "{}",
    "seen_at": 1,
    "now": 1_800_000_000_000_000,
}
# Query → the indexes that must appear in its plan. None of them may read the message table from end to end.
EXPECTED: dict[str, tuple[str, ...]] = {
    "claim_one": ("message_live",),
    "claim_messages": ("message_live", "message_due"),
    "owners_with_claims": ("message_live",),
    "claims_of_owner": ("message_live",),
    "claimed_by_tick": ("message_live",),
    "expire_messages": ("message_expiring",),
    "next_due": ("message_due",),
    "eavesdrop": ("message_live", "message_due"),
    "read_message": ("message_by_id",),
    "read_answer": ("message_by_id", "message_by_related"),
    "relatives": ("message_by_id", "message_by_related", "message_by_audit"),
    "kill_message": ("message_by_id",),
    "requeue_message": ("message_by_id",),
    "finish_claim": (),
    "finish_claims": (),
    "fail_claims": (),
    "release_claims": (),
    "free_claims": (),
    "give_up_claims": (),
    "next_span": (),
    "delete_in_span": (),
}


@dataclass
class Backlog:
    database: Any
    queries: Queries


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def backlog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backlog]:
    """Filled once, without statistics: nobody has run ANALYZE on it."""
    if request.param == "sqlite":
        home = tmp_path_factory.mktemp("plans")
        settings = DatabaseSettings(url=f"sqlite:///{home}/towpath.db", synchronous="normal")
    else:
        settings = DatabaseSettings(url=request.getfixturevalue("postgres").url, schema=f"p{uuid4().hex[:12]}")
    database: Any = open_database(settings)
    fill = FILL.format(state=STATE, **SOURCES[request.param])
    connection = database.connection()
    if request.param == "postgres":
        connection.execute("alter table message set (autovacuum_enabled = false)")
    for n in range(8):
        connection.execute(f"insert into inbox values ('inbox-{n}', 'again', 5, 1)")
    connection.execute(fill)
    yield Backlog(database, Queries("towpath.queue", "messages", database.dialect))
    if request.param == "postgres":
        connection.execute(f"drop schema {database.schema} cascade")
    database.close()


def assert_by_index(database: Database, lines: list[str], indexes: tuple[str, ...]) -> None:
    plan = "\n".join(lines)
    bad = r"^(SCAN message\b(?!.*INDEX)|.*Seq Scan on message\b)"
    assert not [line for line in lines if re.search(bad, line)], plan
    assert [index for index in indexes if index not in plan] == [], plan


def sqlite_plan(backlog: Backlog, name: str) -> list[str]:
    text = backlog.queries[name].text
    named = {key: value for key, value in PARAMS.items() if f":{key}" in text}
    return [row[3] for row in backlog.database.connection().execute(f"explain query plan {text}", named)]


def postgres_plan(backlog: Backlog, name: str, mode: str) -> list[str]:
    """The plan of a prepared statement, as psycopg runs a query from its sixth time on."""
    order: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in order:
            order.append(found[1])
        return f"${order.index(found[1]) + 1}"

    text = re.sub(r"%\((\w+)\)s", number, backlog.queries[name].text)
    connection = backlog.database.connection()
    with connection.transaction(force_rollback=True):
        connection.execute(f"set local plan_cache_mode = {mode}")
        connection.execute(f"prepare planned as {text}")
        try:
            values = ", ".join("null" if PARAMS[key] is None else f"'{PARAMS[key]}'" for key in order)
            call = f"execute planned ({values})" if order else "execute planned"
            return [row[0] for row in connection.execute(f"explain {call}")]
        finally:
            connection.execute("deallocate planned")


def plans(backlog: Backlog, name: str) -> list[list[str]]:
    if backlog.database.dialect == "sqlite":
        return [sqlite_plan(backlog, name)]
    return [postgres_plan(backlog, name, mode) for mode in ("force_custom_plan", "force_generic_plan")]


@sweep("name", EXPECTED)
def test_without_statistics(backlog: Backlog, name: str) -> None:
    for plan in plans(backlog, name):
        assert_by_index(backlog.database, plan, EXPECTED[name])


@pytest.fixture
def analysed(backlog: Backlog) -> Iterator[Backlog]:
    with statistics(backlog.database, "message"):
        yield backlog


@sweep("name", EXPECTED)
def test_with_statistics(analysed: Backlog, name: str) -> None:
    for plan in plans(analysed, name):
        assert_by_index(analysed.database, plan, EXPECTED[name])


def test_a_claim_sorts_no_more_than_it_takes(backlog: Backlog) -> None:
    """The waiting messages come in order out of their index: nobody sorts the backlog to find the oldest."""
    for plan in plans(backlog, "claim_one"):
        assert not [line for line in plan if re.search(r"TEMP B-TREE|\bSort\b", line)], "\n".join(plan)
    for plan in plans(backlog, "claim_messages"):
        if backlog.database.dialect == "sqlite":
            sorted_by = [plan[place - 1] for place, line in enumerate(plan) if "TEMP B-TREE" in line]
            assert all(line.startswith("SCAN (subquery") for line in sorted_by), "\n".join(plan)
        else:
            ready = "\n".join(plan).split("CTE ready")[1].split("CTE due")[0]
            assert "Sort" not in ready, "\n".join(plan)


ENDING_BATCHES = ("finish_claims", "fail_claims", "release_claims", "free_claims", "give_up_claims")


@sweep("name", ENDING_BATCHES)
def test_ending_a_batch_reads_its_list_once(quiet: Quiet, name: str) -> None:
    """On a small table without statistics a join would read the list again for every row: 5 s for 4,000 messages."""
    small = Backlog(quiet.database, Queries("towpath.queue", "messages", quiet.database.dialect))
    for plan in plans(small, name):
        assert not [line for line in plan if "Join" in line or "CORRELATED" in line], "\n".join(plan)


def test_a_claim_gives_the_oldest(backlog: Backlog) -> None:
    query = backlog.queries["claim_messages"]
    connection = backlog.database.connection()
    waiting = connection.execute(
        "select seq from message where inbox = 'inbox-3' and state = 'NEW' and deliver_after is null"
        " and (expires_at is null or expires_at > 1800000000000000) order by seq limit 100"
    ).fetchall()
    due = connection.execute("select min(seq) from message where inbox = 'inbox-3' and deliver_after is not null")
    [first_due] = due.fetchone()
    connection.execute("begin")
    try:
        claimed = sorted(
            row[0] for row in connection.execute(query.text, {k: v for k, v in PARAMS.items() if k != "delay_us"})
        )
    finally:
        connection.execute("rollback")
    assert len(claimed) == 100
    assert claimed[0] == min(waiting[0][0], first_due)
