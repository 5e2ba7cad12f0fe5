"""A database with very much in it, by the shortest way: rows that a system at work would have left.

Messages are in twenty inboxes, of which one has more than half of all; nearly all are done, some have failed, and some
wait. Their ids rise, as those of Towpath do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.desk.queries import fill as fill_cases
from towpath.runtime import Runtime

PORTION = 250_000
INBOXES = 20
LARGEST = "inbox-0"
FUNCTIONS = 50
OWNER = "worker-0123456789ab"

# In both dialects `n` is the number of a row; `:from` and `:to` are the first and last of a portion.
_NUMBERS = {
    "sqlite": "with recursive r(n) as (select :from union all select n + 1 from r where n < :to) ",
    "postgres": "with r(n) as (select generate_series(:from::bigint, :to::bigint)) ",
}
_ID = {
    "sqlite": "printf('01a00000-0000-7000-8000-%012x', n)",
    "postgres": "('01a00000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid",
}
_JSON = {"sqlite": "text", "postgres": "json"}
_STATE = "case when n % 100 = 0 then 'ERR' when n % 211 = 0 then 'DEAD' when n % 97 = 0 then 'NEW' else 'OK' end"
_MESSAGES = """
insert into message (id, inbox, function, payload, state, owner, owner_tick, attempts, reason, created_at, updated_at)
{numbers}
select {id}, case when n % 5 < 3 then '{largest}' else 'inbox-' || (n % {inboxes}) end,
       'function-' || (n % {functions}),
       cast('{{"number": ' || n || ', "text": "something that somebody else should do"}}' as {json}),
       {state}, case when n % 97 = 0 and n % 100 <> 0 and n % 211 <> 0 then null else '{owner}' end,
       case when n % 97 = 0 and n % 100 <> 0 and n % 211 <> 0 then null else 1 end, 1,
       case when n % 100 = 0 then 'ValueError: number ' || n || ' is not there' end,
       :now - (:all - n) * 100, :now - (:all - n) * 100
from r
"""
_EVENTS = """
insert into event (at, kind, subject, who, why, data)
{numbers}
select :now - (:all - n) * 1000,
       case when n % 10 = 0 then 'message_edited' when n % 3 = 0 then 'flow_moved' else 'message_released' end,
       'subject-' || (n % 10000), case when n % 50 = 0 then 'ann' else 'towpath' end, '',
       cast('{{"number": ' || n || '}}' as {json})
from r
"""


def fill(runtime: Runtime, cases: int, messages: int, events: int, say: Callable[[str], None]) -> None:
    say(f"filling: {cases:,} cases")
    fill_cases(runtime, cases)
    for number in range(INBOXES):
        runtime.queue.inbox(f"inbox-{number}")
    for what, count, statement in (("messages", messages, _MESSAGES), ("events", events, _EVENTS)):
        say(f"filling: {count:,} {what}")
        _insert(runtime, statement, count)
    say("filling: statistics")
    _settle(runtime)


def _insert(runtime: Runtime, statement: str, count: int) -> None:
    dialect = runtime.database.dialect
    text = statement.format(
        numbers=_NUMBERS[dialect],
        id=_ID[dialect],
        json=_JSON[dialect],
        state=_STATE,
        largest=LARGEST,
        inboxes=INBOXES,
        functions=FUNCTIONS,
        owner=OWNER,
    )
    database: Any = runtime.database
    for start in range(1, count + 1, PORTION):
        given = {"from": start, "to": min(start + PORTION - 1, count), "now": database.now(), "all": count}
        _run(database, text, given)


def _run(database: Any, text: str, given: dict[str, int]) -> None:
    for name, value in given.items():
        text = text.replace(f":{name}", str(value))
    connection = database.connection()
    if database.dialect == "sqlite":
        connection.execute("begin immediate")
    connection.execute(text)
    connection.execute("commit") if database.dialect == "sqlite" else connection.commit()


def _settle(runtime: Runtime) -> None:
    """What the database does by itself in a long life: it knows what is in its tables, and its journal is short."""
    database: Any = runtime.database
    connection = database.connection()
    if database.dialect == "sqlite":
        connection.execute("pragma wal_checkpoint(truncate)")
        return
    connection.execute("vacuum analyze")
