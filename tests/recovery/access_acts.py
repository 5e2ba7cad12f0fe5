"""What child processes of tests of access and notifications do: `python -m tests.recovery.access_acts '{…}'`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import towpath
from towpath.access.changes import AuditRequest, ChangeAnswer, Idempotency, RequestedChange
from towpath.core.logs import configure
from towpath.errors import RequestRunning
from towpath.notify.model import Notice, NoticeKind
from towpath.runtime import Runtime
from towpath.settings import LoggingSettings
from towpath.testing.clock import wait_until
from towpath.testing.processes import leave_with_parent, order
from towpath.testing.queue_ledger import Journal

KEY = Idempotency("the-key", "0" * 64)


def main() -> None:
    leave_with_parent()
    configure(LoggingSettings(level="warning"))
    told = order()
    journal = Journal(Path(told["journal"]))
    with towpath.connect(**told["sections"]) as runtime:
        {"add_user": add_user, "hand_over": hand_over, "deliver": deliver}[told["act"]](runtime, journal)


def add_user(runtime: Runtime, journal: Journal) -> None:
    """Ask for a user with an idempotency key, as the HTTP interface does."""
    access = runtime.access
    asked = AuditRequest("ada", "key:1", "add user", "bob", "r-1")

    def act() -> Any:
        journal.write(did="acted")
        return access.add_user("bob", "viewer", who="ada", why="a test")

    change = RequestedChange(act, lambda made: ChangeAnswer(201, (made or access.user("bob")).name))

    def answered() -> ChangeAnswer | None:
        try:
            return access.changes.make(asked, change, KEY)
        except RequestRunning:
            return None  # as a client would, who is told to ask again a little later

    answer = wait_until(answered, 60, "an answer")
    assert answer is not None
    journal.write(did="answered", status=answer.status, body=answer.body, is_repeated=answer.is_repeated)


def hand_over(runtime: Runtime, journal: Journal) -> None:
    """Find something and tell it, once; hand over what waits."""
    if not runtime.notify.page():
        with runtime.database.transaction() as tx:
            for number in range(3):
                runtime.notify.notices.tell(tx, Notice(NoticeKind.GROUP_FOUND, f"shop/{number}", "new"))
    journal.write(did="handed", count=runtime.notify.collector().hand_over())


def deliver(runtime: Runtime, journal: Journal) -> None:
    """Deliver until nothing is left to deliver."""
    services = runtime.notify.services()
    for service in services:
        service.start()
    wait_until(lambda: _is_at_rest(runtime), 60, "all delivered")
    for service in services:
        service.stop()
    journal.write(did="delivered")


def _is_at_rest(runtime: Runtime) -> bool:
    from tests.support.tables import rows

    return {row["state"] for row in rows(runtime.database, "message")} == {"OK"}


if __name__ == "__main__":
    main()
