"""The statements of the how-to for repair by plain SQL do what it says, on both databases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from towpath.db.database import Query
from towpath.queue import MessageState
from towpath.runtime import Runtime

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "repair-with-sql.md"


def statements(heading: str) -> list[str]:
    section = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    return [statement.strip() for block in blocks for statement in block.split(";") if statement.strip()]


def run_by_hand(runtime: Runtime, statement: str, message_id: str) -> int:
    query = Query("by_hand", statement.replace("…", message_id), uses_now=False)
    with runtime.database.transaction() as tx:
        return tx.run(query, {})


def a_failed_message(runtime: Runtime) -> str:
    inbox = runtime.queue.inbox("prices")
    message_id = runtime.queue.outbox("shop").notice("prices", "quote", {"fruit": "fig"}, ttl_s=3600)
    inbox.fail(inbox.claim(), "no such fruit")
    return message_id


def test_looking(runtime: Runtime) -> None:
    message_id = a_failed_message(runtime)
    counts, newest = statements("Look")
    with runtime.database.read() as tx:
        assert tx.rows(Query("look", counts, uses_now=False), {}) == [("prices", "ERR", 1)]
        [row] = tx.rows(Query("look", newest, uses_now=False), {})
    assert message_id in row


def test_making_a_message_wait_again(runtime: Runtime) -> None:
    message_id = a_failed_message(runtime)
    [statement] = statements("Make a message wait again")
    assert run_by_hand(runtime, statement, message_id) == 1
    [claimed] = runtime.queue.inbox("prices").claim()
    assert (claimed.id, claimed.attempts) == (message_id, 1)


@pytest.mark.parametrize("claimed", [False, True])
def test_giving_a_message_up(runtime: Runtime, claimed: bool) -> None:
    inbox = runtime.queue.inbox("prices")
    message_id = runtime.queue.outbox("shop").notice("prices", "quote", {"fruit": "fig"})
    if claimed:
        inbox.claim()
    [statement] = statements("Give a message up")
    assert run_by_hand(runtime, statement, message_id) == 1
    assert runtime.queue.browser().message(message_id).state is MessageState.DEAD
