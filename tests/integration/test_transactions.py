"""A transaction that an error has ended says so; it never commits a part, and never lies about it."""

from __future__ import annotations

import pytest
from tests.support.tables import states

from towpath.db.database import Query
from towpath.errors import DatabaseError
from towpath.runtime import Runtime

BAD = Query("bad", "insert into message (nothing) values (1)", uses_now=False)


def test_a_handled_error_inside_does_not_end_in_success(runtime: Runtime) -> None:
    """PostgreSQL answers the commit of a failed transaction with a rollback and no error."""
    runtime.queue.inbox("work")
    outbox = runtime.queue.outbox("me")
    rung: list[str] = []
    try:
        with runtime.database.transaction() as tx:
            outbox.notice("work", "DO", tx=tx)
            tx.after_commit(lambda: rung.append("committed"))
            with pytest.raises(DatabaseError):
                tx.run(BAD, {})
    except DatabaseError:
        assert (states(runtime.database), rung) == ([], [])
    else:  # SQLite undoes only the statement, and goes on
        assert (states(runtime.database), rung) == (["NEW"], ["committed"])


@pytest.mark.parametrize("database_settings", ["sqlite"], indirect=True)
def test_nothing_is_written_after_sqlite_has_ended_the_transaction(runtime: Runtime) -> None:
    runtime.queue.inbox("work")
    outbox = runtime.queue.outbox("me")
    with pytest.raises(DatabaseError), runtime.database.transaction() as tx:
        outbox.notice("work", "DO", 1, tx=tx)
        runtime.database.connection().execute("rollback")  # type: ignore[attr-defined]  # as a full disk does
        outbox.notice("work", "DO", 2, tx=tx)
    assert states(runtime.database) == []


def test_one_in_another_is_refused(runtime: Runtime) -> None:
    with (
        runtime.database.transaction(),
        pytest.raises(DatabaseError, match="tx="),
        runtime.database.transaction(),
    ):
        pass
