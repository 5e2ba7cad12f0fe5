"""What a person types at a SQL prompt is right or refused: the invariants are constraints of the database."""

from __future__ import annotations

import pytest
from tests.support.quiet import Quiet
from tests.support.sweep import sweep
from tests.support.tables import by_hand, message_row, rows

from towpath.errors import DatabaseError

SENT = "01900000-0000-7000-8000-000000000001"


@pytest.fixture
def claimed(quiet: Quiet) -> Quiet:
    inbox = quiet.queue.inbox("work")
    quiet.queue.outbox("me").notice("work", "DO", message_id=SENT)
    inbox.claim()
    return quiet


REFUSED = [
    "update message set state = 'NEW'",
    "update message set state = 'NEW', owner = null",
    "update message set state = 'NEW', owner_tick = null",
    "update message set owner = null",
    "update message set owner_tick = null",
    "update message set state = 'DONE'",
    "update message set state = 'new', owner = null, owner_tick = null",
    "update message set state = null",
    "update message set payload = 'not json'",
    "update message set payload = null",
    "update message set payload = '{\"a\": NaN}'",
    "update message set headers = '{'",
    "update message set inbox = ''",
    "update message set function = ''",
    "update message set ttl_s = 0",
    "update message set id = null",
    "insert into message (id, inbox, function, payload, created_at, updated_at)"
    " select id, inbox, function, payload, 1, 1 from message",
    "insert into message (id, inbox, function, payload, state, created_at, updated_at)"
    " values ('01900000-0000-7000-8000-000000000002', 'work', 'DO', '1', 'ACK', 1, 1)",
    "update inbox set on_owner_death = 'maybe'",
    "update inbox set max_attempts = 0",
    "insert into inbox (name, on_owner_death, max_attempts, created_at) values ('', 'again', 1, 1)",
    "insert into event (at, kind, subject, who) values (1, '', 's', 'w')",
    "insert into event (at, kind, subject, who) values (1, 'k', 's', '')",
    "insert into event (at, kind, subject, who, data) values (1, 'k', 's', 'w', 'not json')",
    "update process set state = 'resting'",
    "update process set is_settled = 2",
]


@sweep("statement", REFUSED)
def test_refused(claimed: Quiet, statement: str) -> None:
    tables = ("message", "inbox", "event", "process")
    before = [rows(claimed.database, table) for table in tables]
    with pytest.raises(DatabaseError):
        by_hand(claimed.database, statement)
    assert [rows(claimed.database, table) for table in tables] == before


def test_done_right_it_is_taken(claimed: Quiet) -> None:
    before = message_row(claimed.database, SENT)
    assert by_hand(claimed.database, "update message set state = 'NEW', owner = null, owner_tick = null") == 1
    assert message_row(claimed.database, SENT) == {**before, "state": "NEW", "owner": None, "owner_tick": None}
    [message] = claimed.queue.inbox("work").claim()
    assert message.id == SENT


def test_a_message_sent_by_plain_sql_is_claimed(quiet: Quiet) -> None:
    inbox = quiet.queue.inbox("work")
    by_hand(
        quiet.database,
        "insert into message (id, inbox, function, payload, created_at, updated_at)"
        " values (:id, 'work', 'DO', '{\"n\": 1}', 1, 1)",
        id=SENT,
    )
    [message] = inbox.claim()
    assert (message.id, message.payload, message.headers) == (SENT, {"n": 1}, {})


def test_the_view_for_people_shows_every_message(claimed: Quiet) -> None:
    [row] = rows(claimed.database, "message_readable")
    assert (row["id"], row["state"], row["due"], row["expires"]) == (SENT, "ACK", None, None)
    assert str(row["created"]).startswith("20")
