"""A bulk job that was half done when Towpath was upgraded goes on where it was."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.support.databases import without_tables
from tests.support.tables import rows

import towpath
from towpath.db import open as migrations
from towpath.db.open import connect_database, targets, upgrade
from towpath.settings import DatabaseSettings

BEFORE = 14
JOB = """
insert into desk_job (id, name, kind, state, selection, arguments, who, why, cases, done, refused, made_at, begun_at)
values ('{id}', 'replay', 'replay', 'running', '{{}}', '{{"last_seq": 9}}', 'ada', 'mended', 3, 1, 1, 1, 1)
"""
ITEM = """
insert into desk_job_item (job_id, number, case_id, state, said)
values ('{id}', {number}, '{case}', '{state}', {said})
"""


@pytest.fixture
def database_settings(database_settings: dict[str, Any]) -> dict[str, Any]:
    return without_tables(database_settings)


def test_what_has_its_outcome_is_not_done_again(
    database_settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    database: Any = connect_database(DatabaseSettings(**database_settings))
    known, job = migrations.known, str(uuid4())
    with monkeypatch.context() as older:
        older.setattr(migrations, "known", lambda folder: [each for each in known(folder) if each.number <= BEFORE])
        for target in targets(database):
            upgrade(target)
    database.connection().execute(JOB.format(id=job))
    for number, (state, said) in {
        4: ("refused", "'it is parked'"),
        6: ("done", "null"),
        9: ("waiting", "null"),
    }.items():
        database.connection().execute(ITEM.format(id=job, number=number, case=uuid4(), state=state, said=said))
    items = rows(database, "desk_job_item")
    database.close()
    with towpath.connect(database=database_settings) as runtime:
        assert rows(runtime.database, "desk_job_item") == items
        found = runtime.desk.jobs.find(job)
        assert (found.worked_to, found.left) == (6, 1)
