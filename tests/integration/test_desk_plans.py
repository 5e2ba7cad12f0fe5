"""The plans of what the desk asks all the time, over 100,000 cases: by index, in order, and never the whole table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.support.sweep import sweep

from towpath.db import Queries, open_database
from towpath.settings import DatabaseSettings

CASES, GROUPS = 100_000, 20_000
NUMBERS = {
    "sqlite": "(with recursive c (n) as (select 1 union all select n + 1 from c where n < {rows}) select n from c)",
    "postgres": "generate_series(1, {rows}) as n",
}
ID = {
    "sqlite": "printf('%08x-0000-8000-8000-000000000001', n)",
    "postgres": "(lpad(to_hex(n), 8, '0') || '-0000-8000-8000-000000000001')::uuid",
}
# Half of them are in one group; most are open, some are out, settled, ignored.
STATE = """case n % 20 when 1 then 'resolved' when 2 then 'replaying' when 3 then 'ignored' else 'open' end"""
FILL = (
    """insert into desk_group (flow, code, step, exception, title, state, first_at, last_at, moved_at)
       select 'flow-' || (n % 3), 9, 'step-' || n, 'KeyError', 'no', 'new', n, n, 1 from {groups}""",
    f"""insert into desk_case (id, flow, stage, kind, group_id, fingerprint, state, code, step, exception, message,
            topic, topic_id, partition, start_offset, hash, error_topic, error_partition, error_offset, body_bytes,
            first_failed_at, failed_at, taken_at, moved_at, settled_at, settled_by, settled_why, assignee)
        select {{id}}, 'flow-' || (n % 3), 'main', 'error', case when n % 2 = 0 then 1 else 1 + n % {GROUPS} end, 'f',
            {STATE}, 9, 'step-1', 'KeyError', 'no', 'orders', 'id', 0, n, 'h', 'e', 0, n, 1, n, n, n, n,
            case when n % 20 = 1 then n end, case when n % 20 in (1, 3) then 'ann' end,
            case when n % 20 in (1, 3) then 'why' end, case when n % 1000 = 0 then 'ann' end
        from {{cases}}""",
    """insert into desk_attempt (case_id, attempt, code, step, exception, message, hash, version, process, error_topic,
           error_partition, error_offset, failed_at)
       select {id}, 1, 9, 'step-1', 'KeyError', 'no', 'h', '1', 'p', 'e', 0, n, n from {cases}""",
    "insert into desk_body (case_id, value, headers) select {id}, null, '[]' from {cases}",
    "insert into desk_tally (group_id, state, cases) select n, 'open', 7 from {groups}",
    """insert into desk_fingerprint (flow, fingerprint, algorithm, group_id, made_of, made_at)
       select 'flow-' || (n % 3), 'f' || n, 1, n, '{{}}', 1 from {groups}""",
)
ONE = "00000007-0000-8000-8000-000000000001"
NO_FILTER = dict.fromkeys(
    (
        "stage",
        "step",
        "code",
        "exception",
        "fingerprint",
        "since",
        "until",
        "text",
        "body",
        "assignee",
        "flow",
        "groups",
    )
)
PARAMS: dict[str, Any] = {
    **NO_FILTER,
    "id": ONE,
    "low": ONE,
    "high": ONE,
    "seq": 7,
    "ids": json.dumps([ONE]),
    "states": '["open", "waiting"]',
    "state": "open",
    "flow": "flow-1",
    "group": 1,
    "assignee": "ann",
    "before": 90_000,
    "floor": 80_000,
    "below": 90_000,
    "limit": 50,
    "topic_id": "id",
    "partition": 0,
    "offset": 7,
    "case": ONE,
    "fingerprints": '["f7"]',
    "rows": '[[1, "open", 1]]',
    "last_at": 1 << 62,
    "until": None,
    "now": 1,
    "to": "open",
    "ticket": 1,
    "lane": None,
    "due_at": None,
    "behind": None,
    "rule": None,
    "edit": None,
    "settles": 0,
    "gives_back": 0,
    "settled_by": None,
    "settled_why": None,
    "job": ONE,
    "after": 0,
    "target": "reentry",
    "who": None,
    "why": None,
}
# File → query → the indexes that must appear in its plan.
EXPECTED: dict[str, dict[str, tuple[str, ...]]] = {
    "cases": {
        "page_of_flow": ("desk_case_by_flow",),
        "keys_of_flow": ("desk_case_by_flow",),
        "keys_of_group": ("desk_case_by_group",),
        "page_of_group": ("desk_case_by_group",),
        "page_of_all": (),
        "found_of_flow": ("desk_case_by_flow",),
        "found_of_group": ("desk_case_by_group",),
        "found_of_all": (),
        "found_of_assignee": ("desk_case_by_assignee",),
        "newest_below": (),
        "newer_of_flow": ("desk_case_by_flow",),
        "newer_of_group": ("desk_case_by_group",),
        "newer_of_all": (),
        "newer_of_assignee": ("desk_case_by_assignee",),
        "waiting_in_lane": ("desk_case_due",),
        "parked_behind": ("desk_case_behind",),
        "flows_with_cases": ("desk_case_by_flow",),
        "cases_of_input": ("desk_case_by_input",),
        "read_case": (),
        "case_of_seq": (),
        "cases_between": (),
        "lock_cases": (),
        "lock_for_move": (),
        "move_cases": (),
        "raise_tickets": (),
        "bodies": (),
        "let_go": (),
    },
    "attempts": {"batches_of": (), "attempts_of": (), "there": ()},
    "outbox": {"enqueue": (r"desk_case_id_key|sqlite_autoindex_desk_case_1",)},
    "jobs": {"next_items": (r"desk_case_id_key|sqlite_autoindex_desk_case_1",)},
    "groups": {
        "known_fingerprints": (),
        "page_of_groups": (r"desk_group_by_\w+",),
        "page_of_groups_in_state": (r"desk_group_by_\w+",),
        "page_of_groups_of_flow": (r"desk_group_by_\w+",),
        "page_of_groups_of_flow_in_state": (r"desk_group_by_\w+",),
        "found_groups": (r"desk_group_by_\w+",),
    },
    "case_janitor": {
        "settled_before": ("desk_case_settled",),
        "ignored_before": ("desk_case_by_flow",),
        "forget_cases": (),
        "forget_attempts": (),
        "forget_bodies": (),
    },
    "places": {"sent": ("desk_case_by_flow",), "known": (), "resolved": ()},
}
LARGE = ("desk_case", "desk_attempt", "desk_body")
PACKAGES = {
    "cases": "towpath.desk.cases",
    "attempts": "towpath.desk.cases",
    "outbox": "towpath.desk.replay",
    "jobs": "towpath.desk.actions",
    "groups": "towpath.desk.groups",
    "case_janitor": "towpath.desk",
    "places": "towpath.desk",
}
QUERIES = [(file, name) for file, names in EXPECTED.items() for name in names]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Filled once."""
    if request.param == "sqlite":
        home = tmp_path_factory.mktemp("plans")
        settings = DatabaseSettings(url=f"sqlite:///{home}/towpath.db", synchronous="normal")
    else:
        settings = DatabaseSettings(url=request.getfixturevalue("postgres").url, schema=f"d{uuid4().hex[:12]}")
    opened: Any = open_database(settings)
    connection = opened.connection()
    numbers = NUMBERS[request.param]
    connection.execute("begin")
    for text in FILL:
        filled = {"cases": numbers.format(rows=CASES), "groups": numbers.format(rows=GROUPS)}
        connection.execute(text.format(id=ID[request.param], **filled))
    connection.execute("commit")
    if request.param == "postgres":
        connection.execute("analyze")  # as autovacuum does
    yield opened
    if request.param == "postgres":
        connection.execute(f"drop schema {opened.schema} cascade")
    opened.close()


def plan(database: Any, file: str, name: str) -> str:
    query = Queries(PACKAGES[file], file, database.dialect)[name]
    params = PARAMS | ({"id": 7, "state": "new"} if file == "groups" else {})
    params |= {"lane": 0, "due_at": 1} if name == "waiting_in_lane" else {}
    if database.dialect == "sqlite":
        return "\n".join(row[3] for row in database.connection().execute(f"explain query plan {query.text}", params))
    connection = database.connection()
    connection.execute("begin")
    try:
        if name.startswith(("found_", "newer_")):
            connection.execute(Queries("towpath.desk.cases", "cases", "postgres")["read_in_order"].text)
        connection.execute("set local plan_cache_mode = force_generic_plan")
        return "\n".join(row[0] for row in connection.execute(f"explain {query.text}", params))
    finally:
        connection.execute("rollback")


@sweep(("file", "name"), QUERIES)
def test_by_index(database: Any, file: str, name: str) -> None:
    found = plan(database, file, name)
    for index in EXPECTED[file][name]:
        assert re.search(rf"\b{index}\b", found), found
    for table in LARGE:
        assert not re.search(rf"(Seq Scan on|SCAN) {table}\b(?! USING)", found), found


@sweep("way", ["page", "keys", "found", "found_keys", "newer"])
@sweep("what", ["flow", "group", "all"])
def test_pages_come_in_order(database: Any, way: str, what: str) -> None:
    """A sort would read all that match, to give fifty."""
    found = plan(database, "cases", f"{way}_of_{what}")
    assert "Sort" not in found, found
    assert "TEMP B-TREE" not in found, found
