"""Lists and counts of messages over 60,000 of them: complete, page by page, and by index where there is one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any
from uuid import uuid4

import pytest
from tests.support.statistics import statistics
from tests.support.sweep import sweep
from tests.support.tables import rows

from towpath.actors.instance import inbox_of as inbox_of_actor
from towpath.core.clock import to_datetime
from towpath.db import Queries, open_database
from towpath.desk.rehearsal_queue import INBOX as REHEARSALS
from towpath.notify.courier import inbox_of as notices_for
from towpath.queue.browser import MOST_COUNTED, MOST_DONE_LOOKED_AT, InboxCounter
from towpath.queue.model import MessageSelection
from towpath.queue.states import MessageState
from towpath.queue.store import MessagePages, _ways
from towpath.settings import DatabaseSettings

ROWS = 60_000
SECOND = 1_000_000
START = 1_700_000_000 * SECOND
# Most are done, many have failed in one inbox; of the rest some wait, some are delayed, some are being worked on.
STATE = """case when n % 3 = 1 then 'ERR' when n % 100 < 94 then 'OK' when n % 100 = 95 then 'DEAD'
           when n % 100 < 99 then 'NEW' else 'ACK' end"""
FILL = f"""
insert into message (id, inbox, function, payload, state, owner, owner_tick, attempts, deliver_after, created_at,
                     updated_at)
select {{id}}, case when n in (3, 4, 5, 98, 99) then 'rare' when n % 601 = 2 then 'actor:x:main'
       when n % 3 = 0 then 'one' else 'two' end,
       case when n % 1000 = 7 then 'SELDOM' else 'DO' end, '{{{{"n": 1}}}}', {STATE},
       case when n % 100 = 99 then 'owner-' || (n / 100 % 5) end, case when n % 100 = 99 then n end, 1,
       case when n % 100 = 98 then {START} + n * {SECOND} end,
       {START} + n * {SECOND}, {START} + n * {SECOND}
from {{numbers}}
"""
SOURCES = {
    "sqlite": {
        "id": "printf('%08x-0000-7000-8000-000000000000', n)",
        "numbers": "(with recursive c (n) as (select 1 union all select n + 1 from c"
        f" where n < {ROWS}) select n from c)",
    },
    "postgres": {
        "id": "(lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid",
        "numbers": f"generate_series(1::bigint, {ROWS}) as n",
    },
}
STATES = [*MessageState, None]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Filled once, without statistics: nobody has run ANALYZE on it."""
    if request.param == "sqlite":
        home = tmp_path_factory.mktemp("pages")
        settings = DatabaseSettings(url=f"sqlite:///{home}/towpath.db", synchronous="normal")
    else:
        settings = DatabaseSettings(url=request.getfixturevalue("postgres").url, schema=f"m{uuid4().hex[:12]}")
    opened: Any = open_database(settings)
    connection = opened.connection()
    if request.param == "postgres":
        connection.execute("alter table message set (autovacuum_enabled = false)")
    for name in ("one", "two", "rare", "actor:x:main"):
        connection.execute(f"insert into inbox values ('{name}', 'again', 5, 1)")
    connection.execute(FILL.format(**SOURCES[request.param]))
    yield opened
    if request.param == "postgres":
        connection.execute(f"drop schema {opened.schema} cascade")
    opened.close()


@pytest.fixture(scope="module")
def stored(database: Any) -> list[dict[str, Any]]:
    """All messages, the newest first."""
    return rows(database, "message")[::-1]


def is_meant(row: dict[str, Any], selection: MessageSelection) -> bool:
    return (
        selection.inbox in (None, row["inbox"])
        and selection.state in (None, row["state"])
        and selection.function in (None, row["function"])
        and selection.owner in (None, row["owner"])
        and (selection.since is None or to_datetime(row["created_at"]) >= selection.since)
        and (selection.until is None or to_datetime(row["created_at"]) < selection.until)
    )


def walked(database: Any, selection: MessageSelection, limit: int, look_s: float) -> list[int]:
    pages, found, before = MessagePages(database), [], None
    while True:
        with database.read() as tx:
            page = pages.search(tx, selection, limit=limit, before=before, look_s=look_s)
        assert len(page.items) <= limit
        found += [message.seq for message in page.items]
        if page.next is None:
            return found
        assert before is None or page.next < before
        before = page.next


def at(n: int) -> Any:
    return to_datetime(START + n * SECOND)


SELECTIONS = [
    *(MessageSelection(inbox="rare", state=state) for state in STATES),
    *(MessageSelection(inbox="nowhere", state=state) for state in STATES),
    *(MessageSelection(inbox="two", state=state, function="SELDOM") for state in STATES),
    *(MessageSelection(state=state, function="SELDOM") for state in STATES),
    *(MessageSelection(inbox="one", state=state, since=at(30_000), until=at(30_500)) for state in STATES),
    *(MessageSelection(state=state, until=at(300)) for state in STATES),
    *(MessageSelection(state=state, since=at(59_900)) for state in STATES),
    *(MessageSelection(inbox="actor:x:main", state=state) for state in STATES),
    MessageSelection(inbox="actor:x:main", function="SELDOM"),
    MessageSelection(inbox="actor:x:main", since=at(30_000)),
    MessageSelection(owner="owner-3"),
    MessageSelection(owner="owner-3", state=MessageState.ACK),
    MessageSelection(owner="owner-3", state=MessageState.ACK, inbox="one"),
    MessageSelection(since=at(200), until=at(100)),
]


@pytest.mark.parametrize("look_s", [0.0, pytest.param(0.25, marks=pytest.mark.part("matrix"))])
@sweep("selection", SELECTIONS)
def test_pages_hold_all_that_is_selected(
    database: Any, stored: list[dict[str, Any]], selection: MessageSelection, look_s: float
) -> None:
    """However short each page looks."""
    assert walked(database, selection, 40, look_s) == [row["seq"] for row in stored if is_meant(row, selection)]


@pytest.mark.parametrize("inbox", [notices_for("ops"), REHEARSALS, inbox_of_actor("x", "main")])
def test_inboxes_of_towpath_itself_are_read_by_their_index(inbox: str) -> None:
    """Their names are said above the queue, where they are used, and here once more, as the index has them."""
    assert _ways(MessageSelection(inbox=inbox)) == ("of_own_in",)


def test_a_page_without_anything_goes_on(database: Any, stored: list[dict[str, Any]]) -> None:
    """Of an inbox whose messages are the oldest of all, in a look that is over at once."""
    with database.read() as tx:
        page = MessagePages(database).search(tx, MessageSelection(inbox="rare"), limit=10, look_s=0.0)
    assert (page.items, page.next) == ([], stored[0]["seq"] + 1 - 20_000)


def test_a_whole_page_is_whole_however_far_it_has_to_look(database: Any) -> None:
    with database.read() as tx:
        found = MessagePages(database).page(tx, MessageSelection(inbox="rare"), limit=3)
    assert [message.seq for message in found] == [99, 98, 5]


def test_counts(database: Any, stored: list[dict[str, Any]]) -> None:
    """By index up to a limit; what is done among the newest ones."""
    with database.read() as tx:
        found = InboxCounter(database).count(tx)
        exact = {name: InboxCounter(database).exactly(tx, name) for name in ("one", "two", "rare")}
    expected = Counter((row["inbox"], MessageState(row["state"])) for row in stored)
    newest = Counter(row["inbox"] for row in stored[:MOST_DONE_LOOKED_AT] if row["state"] == "OK")
    assert [inbox.name for inbox in found] == ["actor:x:main", "one", "rare", "two"]
    for inbox in found:
        for state in MessageState:
            real = expected[inbox.name, state]
            said, has_more = inbox.counts.get(state, 0), state in inbox.more
            if state is MessageState.OK:
                assert (said, has_more) == (newest[inbox.name], True)
            else:
                assert (said, has_more) == (min(real, MOST_COUNTED), real > MOST_COUNTED)
    assert found[3].more == {MessageState.OK, MessageState.ERR}
    assert exact == {
        name: {state: n for (inbox, state), n in expected.items() if inbox == name} for name in ("one", "two", "rare")
    }
    waits = [row for row in stored if row["inbox"] == "one" and row["state"] == "NEW"]
    assert found[1].oldest_new == to_datetime(min(row["created_at"] for row in waits))


# Plans

EXPECTED = {
    "page_as_it_comes": (),
    "page_of_all": (),
    "page_of_failed": ("message_failed",),
    "page_of_failed_in": ("message_failed_in",),
    "page_of_own_in": ("message_own",),
    "page_of_live_in": ("message_live",),
    "page_of_due_in": ("message_due",),
    "page_of_claimed": ("message_live",),
    "newest_below": (),
    "first_from": (),
    "count_inboxes": ("message_live", "message_due", "message_failed_in"),
    "count_done": (),
}
IN_ORDER = (
    "page_as_it_comes",
    "page_of_all",
    "page_of_failed",
    "page_of_failed_in",
    "page_of_own_in",
    "page_of_live_in",
)
PARAMS: dict[str, Any] = {
    "inbox": None,
    "state": None,
    "function": None,
    "owner": None,
    "since": None,
    "until": None,
    "before": 50_000,
    "floor": 30_000,
    "limit": 101,
    "below": 50_000,
    "seq": 500,
    "most": 10_001,
    "after": "",
    "of_actors": None,
}
SELECTED: dict[str, dict[str, Any]] = {
    "page_of_all": {"inbox": "rare", "function": "DO"},
    "page_of_failed": {"state": "ERR"},
    "page_of_failed_in": {"inbox": "one", "state": "ERR"},
    "page_of_own_in": {"inbox": "actor:x:main"},
    "page_of_live_in": {"inbox": "one", "state": "NEW"},
    "page_of_due_in": {"inbox": "one", "state": "NEW"},
    "page_of_claimed": {"state": "ACK"},
}


def query_of(dialect: Any, name: str) -> str:
    stem = "inbox_counts" if name.startswith("count_") else "pages"
    return Queries("towpath.queue", stem, dialect, "messages")[name].text


def plans(database: Any, name: str) -> list[list[str]]:
    """On PostgreSQL both that are made: for these values, and for any."""
    text, connection = query_of(database.dialect, name), database.connection()
    given = {**PARAMS, **SELECTED.get(name, {})}
    if database.dialect == "sqlite":
        named = {key: value for key, value in given.items() if f":{key}" in text}
        return [[row[3] for row in connection.execute(f"explain query plan {text}", named)]]
    order = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
    text = re.sub(r"%\((\w+)\)s", lambda found: f"${order.index(found[1]) + 1}", text)
    values = ", ".join("null" if given[key] is None else f"'{given[key]}'" for key in order)
    made = []
    for mode in ("force_custom_plan", "force_generic_plan"):
        with connection.transaction(force_rollback=True):
            connection.execute(f"set local plan_cache_mode = {mode}")
            if name.startswith(("page_", "count_")):
                connection.execute(query_of("postgres", "read_in_order"))
            connection.execute(f"prepare planned as {text}")
            call = f"execute planned ({values})" if order else "execute planned"
            made.append([row[0] for row in connection.execute(f"explain {call}")])
            connection.execute("deallocate planned")
    return made


@pytest.mark.parametrize("with_statistics", [False, True])
@sweep("name", EXPECTED)
def test_nothing_reads_all_messages(database: Any, name: str, with_statistics: bool) -> None:
    with statistics(database, "message") if with_statistics else nullcontext():
        for plan in plans(database, name):
            shown = "\n".join(plan)
            scans = [line for line in plan if re.search(r"^SCAN message\b(?!.*INDEX)|Seq Scan on message\b", line)]
            # Without an order that is its own, a scan that ends at its limit is shown as any other.
            assert scans == (["SCAN message"] if (database.dialect, name) == ("sqlite", "count_done") else []), shown
            assert [index for index in EXPECTED[name] if not re.search(rf"\b{index}\b", shown)] == [], shown
            if name in IN_ORDER:
                assert not re.search(r"TEMP B-TREE|\bSort\b", shown), shown
