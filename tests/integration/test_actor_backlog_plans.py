"""The plans of what actors ask all the time, over 10,000 sleeping instances and 100,000 finished messages: by index."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from tests.support.statistics import statistics
from tests.support.sweep import sweep

from towpath.db import Queries, open_database
from towpath.settings import DatabaseSettings

INSTANCES = 10_000
FINISHED = 100_000
SOURCES = {
    "sqlite": {
        "numbers": "(with recursive c (n) as (select 1 union all select n + 1 from c where n < {rows})"
        " select n from c)",
        "id": "printf('%08x-0000-7000-8000-00000000000{kind}', n)",
    },
    "postgres": {
        "numbers": "generate_series(1, {rows}) as n",
        "id": "(lpad(to_hex(n), 8, '0') || '-0000-7000-8000-00000000000{kind}')::uuid",
    },
}
IDS = {"head": 1, "last": 2, "start": 3, "done": 4, "question": 5, "plain": 6}
# Nearly all sleep; of the others some wait, some run, and some were called and have come to rest.
PHASE = """case n % 100 when 1 then 'waiting' when 2 then 'running' when 3 then 'ended' when 4 then 'failed'
           else 'sleeping' end"""
FILL = [
    "insert into inbox select 'actor:sleeper:' || n, 'again', 1000000, 1 from {numbers}",
    f"""insert into actor_instance (inbox, actor, instance, phase, step, head_id, last_id, run_id, owner, due_at,
                                    parent, is_tied, moved_at)
        select 'actor:sleeper:' || n, 'sleeper', 'i' || n, {PHASE}, 'Awake',
               case when n % 100 in (3, 4) then null else {{head}} end, {{last}}, {{start}},
               case when n % 100 = 2 then 'owner-' || (n / 100 % 3) end,
               case when n % 100 in (2, 3, 4) then null else 1800000000000000 + n * 100000 end,
               case when n % 100 in (3, 4, 5) then 'actor:parent:p' || (n / 100 % 5) end, 1, 1600000000000000
        from {{numbers}}""",
    """insert into message (id, related_id, inbox, function, payload, state, owner, owner_tick, deliver_after,
                            created_at, updated_at)
       select {head}, {start}, 'actor:sleeper:' || n, 'Awake', '{{}}', case when n % 100 = 2 then 'ACK' else 'NEW' end,
              case when n % 100 = 2 then 'owner-' || (n / 100 % 3) end, case when n % 100 = 2 then n end,
              case when n % 100 <> 2 then 1800000000000000 + n * 100000 end, 1, 1
       from {numbers} where n % 100 not in (3, 4)""",
    """insert into message (id, inbox, function, payload, state, owner, owner_tick, created_at, updated_at)
       select {start}, 'actor:sleeper:' || n, 'Nap', '{{}}', 'ACK', 'actor:sleeper:' || n, 0, 1, 1 from {numbers}""",
    """insert into actor_wait (inbox, question_id, is_answered)
       select 'actor:sleeper:' || n, {question}, n / 100 % 2 from {numbers} where n % 2 = 1""",
    """insert into actor_schedule (name, actor, instance, payload, kind, every_s, since, made_at, next_at)
       select 'schedule-' || n, 'sleeper', 'i' || n, '{{}}', 'interval', 60, 'made', 1, 1800000000000000 + n * 100000
       from {numbers}""",
]
FILL_FINISHED = """
insert into message (id, related_id, inbox, function, payload, state, owner, owner_tick, created_at, updated_at)
select {done}, {last}, 'actor:sleeper:' || (n % 10000), 'Nap', '{{}}', 'OK', 'owner-1', 1, 1, 1 from {numbers}
"""
# A few plain inboxes, with claims in them, and a few messages that have come for actors.
FEW = """
insert into message (id, inbox, function, payload, state, owner, owner_tick, created_at, updated_at)
select {plain}, case when n % 2 = 0 then 'plain-' || (n % 4) else 'actor:sleeper:' || n end, 'DO', '{{}}',
       case when n % 2 = 0 then 'ACK' else 'NEW' end, case when n % 2 = 0 then 'owner-1' end,
       case when n % 2 = 0 then 1 end, 1, 1
from {numbers}
"""

ONE_ID = "00000001-0000-7000-8000-000000000001"
PARAMS: dict[str, Any] = {
    "actors": '["sleeper","other"]',
    "inboxes": '["actor:sleeper:7","actor:sleeper:1"]',
    "inbox": "actor:sleeper:7",
    "ids": json.dumps([ONE_ID]),
    "questions": json.dumps([ONE_ID]),
    "owner": "owner-1",
    "reason": "why",
    "tick": 7,
    "limit": 16,
    "due_us": 5,
    "after": 0,
    "upto": 2_000,
    "ok_before": 1,
    "err_before": 1,
    "dead_before": 1,
    "phase": "ended",
    "before": 1_700_000_000_000_000,
    "name": "schedule-10",
    "seen_at": 1,
    "next_at": 2,
    "at": 1,
    "run_id": ONE_ID,
    "now": 1_800_000_001_000_000,
}
MOVE = ["actor:sleeper:7", ONE_ID, "ready", "Nap", ONE_ID, ONE_ID, ONE_ID, None, 5, 0, None, None, 0, 0]
ROWS = {
    "move_instances": [MOVE],
    "go_on_instances": [["actor:sleeper:7", ONE_ID, "Nap", ONE_ID]],
    "end_held": [[ONE_ID, "OK", None, None]],
}
# File → query → the indexes that must appear in its plan. Nothing of it may read a table from end to end.
EXPECTED: dict[str, dict[str, tuple[str, ...]]] = {
    "instances": {
        "due_instances": ("actor_instance_due",),
        "until_due": ("actor_instance_due",),
        "owners": ("actor_instance_owned",),
        "owned_by": ("actor_instance_owned",),
        "aborted_of": ("actor_instance_owned",),
        "tied_children": ("actor_instance_by_parent",),
        "waiting_for": ("actor_wait_by_question",),
        "note_answers": ("actor_wait_by_question",),
        "read_instance": (),
        "lock_instances": (),
        "move_instances": (),
        "go_on_instances": (),
        "satisfied": (),
        "wake_waiting": (),
        "forget_waits": (),
    },
    "held": {
        "has_arrivals": ("message_arrived",),
        "arrivals": ("message_arrived",),
        "read_held": ("message_by_id",),
        "claim_held": ("message_by_id",),
        "hold_starts": ("message_by_id",),
        "finish_held": ("message_by_id",),
        "end_held": ("message_by_id",),
        "take_arrived": ("message_by_id",),
        "wait_again": ("message_by_id",),
        "answered": ("message_by_id",),
    },
    "messages": {
        "owners_with_claims": ("inbox_plain", "message_live"),
        "claims_of_owner": ("inbox_plain", "message_live"),
        "delete_in_span": (),
    },
    "schedules": {
        "due_schedules": ("actor_schedule_due",),
        "next_due": ("actor_schedule_due",),
        "read_schedule": (),
        "take_run": (),
    },
    "janitor": {
        "instances_past_time": ("actor_instance_at_rest",),
        "lock_inboxes": (),
        "delete_instances": ("message_live",),
        "delete_inboxes": (),
    },
}
CASES = [(file, name) for file, names in EXPECTED.items() for name in names]
FRAGMENTS = {"held": "messages", "schedules": "instances", "janitor": "instances"}
TABLES = ("message", "actor_instance", "actor_wait", "actor_schedule", "inbox")
# Asked now and then: to read all of it may be the cheaper way there.
MAY_READ = {"delete_in_span": ("actor_wait",)}


@dataclass
class World:
    database: Any

    def query(self, file: str, name: str) -> str:
        package = "towpath.queue" if file in ("held", "messages") else "towpath.actors"
        return Queries(package, file, self.database.dialect, FRAGMENTS.get(file))[name].text


def filled(text: str, dialect: str, rows: int) -> str:
    source = SOURCES[dialect]
    ids = {name: source["id"].format(kind=kind) for name, kind in IDS.items()}
    return text.format(numbers=source["numbers"].format(rows=rows), **ids)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Filled once, without statistics: nobody has run ANALYZE on it."""
    if request.param == "sqlite":
        home = tmp_path_factory.mktemp("plans")
        settings = DatabaseSettings(url=f"sqlite:///{home}/towpath.db", synchronous="normal")
    else:
        settings = DatabaseSettings(url=request.getfixturevalue("postgres").url, schema=f"a{uuid4().hex[:12]}")
    database: Any = open_database(settings)
    connection = database.connection()
    if request.param == "postgres":
        for table in TABLES:
            connection.execute(f"alter table {table} set (autovacuum_enabled = false)")
    connection.execute("begin")
    for n in range(4):
        connection.execute(f"insert into inbox values ('plain-{n}', 'again', 5, 1)")
    for text in FILL:
        connection.execute(filled(text, request.param, INSTANCES))
    connection.execute(filled(FILL_FINISHED, request.param, FINISHED))
    connection.execute(filled(FEW, request.param, 20))
    connection.execute("commit")
    yield World(database)
    if request.param == "postgres":
        connection.execute(f"drop schema {database.schema} cascade")
    database.close()


def sqlite_plan(world: World, text: str, params: dict[str, Any]) -> list[str]:
    named = {key: value for key, value in params.items() if re.search(rf":{key}\b", text)}
    return [row[3] for row in world.database.connection().execute(f"explain query plan {text}", named)]


def postgres_plan(world: World, text: str, params: dict[str, Any], mode: str) -> list[str]:
    """The plan of a prepared statement, as psycopg runs a query from its sixth time on."""
    order: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in order:
            order.append(found[1])
        return f"${order.index(found[1]) + 1}"

    text = re.sub(r"%\((\w+)\)s", number, text)
    connection = world.database.connection()
    with connection.transaction(force_rollback=True):
        connection.execute(f"set local plan_cache_mode = {mode}")
        connection.execute(f"prepare planned as {text}")
        try:
            values = ", ".join(f"'{params[key]}'" for key in order)
            call = f"execute planned ({values})" if order else "execute planned"
            return [row[0] for row in connection.execute(f"explain {call}")]
        finally:
            connection.execute("deallocate planned")


def plans(world: World, file: str, name: str) -> list[list[str]]:
    text, params = world.query(file, name), {**PARAMS, "rows": json.dumps(ROWS.get(name, []))}
    if world.database.dialect == "sqlite":
        return [sqlite_plan(world, text, params)]
    return [postgres_plan(world, text, params, mode) for mode in ("force_custom_plan", "force_generic_plan")]


def check(world: World, file: str, name: str) -> None:
    tables = "|".join(table for table in TABLES if table not in MAY_READ.get(name, ()))
    for lines in plans(world, file, name):
        plan = "\n".join(lines)
        bad = rf"^(SCAN ({tables})\b(?!.*INDEX)|.*Seq Scan on ({tables})\b)"
        assert not [line for line in lines if re.search(bad, line)], plan
        assert [index for index in EXPECTED[file][name] if index not in plan] == [], plan


@sweep(("file", "name"), CASES)
def test_without_statistics(world: World, file: str, name: str) -> None:
    check(world, file, name)


@pytest.fixture
def analysed(world: World) -> Iterator[World]:
    with statistics(world.database, *TABLES):
        yield world


@sweep(("file", "name"), CASES)
def test_with_statistics(analysed: World, file: str, name: str) -> None:
    check(analysed, file, name)


@pytest.mark.parametrize(
    ("file", "name"), [("instances", "due_instances"), ("held", "arrivals"), ("held", "has_arrivals")]
)
def test_nothing_is_sorted(world: World, file: str, name: str) -> None:
    """Neither what is due nor what has come: it comes in order out of its index, however much of it there is."""
    for lines in plans(world, file, name):
        assert not [line for line in lines if re.search(r"TEMP B-TREE|\bSort\b", line)], "\n".join(lines)
