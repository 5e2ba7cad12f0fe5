"""A batch that goes in several commits and is cut off between two says which of its messages are in the queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from tests.support.tables import rows

from towpath.errors import CommitUnknown, DatabaseError, DatabaseUnavailable, PartlySent
from towpath.queue import outbox as outbox_module
from towpath.queue.store import MessageStore
from towpath.runtime import Runtime


@pytest.mark.parametrize(
    ("error", "sent", "unknown", "unsent"), [(DatabaseUnavailable, 4, 0, 6), (CommitUnknown, 4, 2, 4)]
)
def test_it_says_how_far_it_came(
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    error: type[DatabaseError],
    sent: int,
    unknown: int,
    unsent: int,
) -> None:
    runtime.queue.inbox("work")
    monkeypatch.setattr(outbox_module, "MOST_PER_COMMIT", 2)
    real, calls = MessageStore.insert_many, []

    def insert_many(store: MessageStore, *arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 3:
            raise error("cut off")
        real(store, *arguments)

    monkeypatch.setattr(MessageStore, "insert_many", insert_many)
    with pytest.raises(PartlySent) as raised:
        runtime.queue.outbox("me").notice_many("work", "DO", range(10))
    assert (len(raised.value.sent), len(raised.value.unknown), raised.value.unsent) == (sent, unknown, unsent)
    assert ids(rows(runtime.database, "message")) == raised.value.sent


def test_a_first_portion_that_fails_wrote_nothing(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.queue.inbox("work")

    def insert_many(*arguments: Any) -> None:
        raise DatabaseUnavailable("away; nothing was written")

    monkeypatch.setattr(MessageStore, "insert_many", insert_many)
    with pytest.raises(DatabaseUnavailable):
        runtime.queue.outbox("me").notice_many("work", "DO", range(10))
    assert rows(runtime.database, "message") == []


def ids(found: Iterable[dict[str, Any]]) -> Sequence[str]:
    return [row["id"] for row in found]
