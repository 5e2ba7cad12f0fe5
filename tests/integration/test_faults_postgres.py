"""A PostgreSQL server that kills connections, stops, or crashes while everybody is at work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from tests.support.leases import LONG_LEASE
from tests.support.quiet import Quiet
from tests.support.shared_servers import own_postgres
from tests.support.tables import events, rows, states

from towpath.core.events import Event, EventKind
from towpath.errors import AnswerTimeout, CommitUnknown, DatabaseUnavailable
from towpath.queue import Message
from towpath.runtime import Runtime
from towpath.settings import Settings
from towpath.stack.postgres import PostgresServer
from towpath.testing.clock import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own, since it is stopped and crashed."""
    with own_postgres() as made:
        yield made


@pytest.fixture
def settings(server: PostgresServer) -> Iterator[Settings]:
    yield Settings.model_validate(
        {
            "database": {"url": server.url, "schema": f"f{uuid4().hex[:12]}", "lock_timeout_s": 3},
            "process": LONG_LEASE,
            "queue": {"poll_s": 0.3, "caretaker_s": 0.1},
        }
    )
    server.start()


@pytest.fixture
def quiet(settings: Settings) -> Iterator[Quiet]:
    made = Quiet.open(settings)
    made.queue.inbox("work")
    yield made
    made.runtime.close()


def kill_connections(server: PostgresServer) -> int:
    """As an administrator would."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        killed = admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'towpath'"
        )
        return len(killed.fetchall())


def test_killed_inside_a_transaction(quiet: Quiet, server: PostgresServer) -> None:
    outbox = quiet.queue.outbox("me")
    with pytest.raises(DatabaseUnavailable), quiet.database.transaction() as tx:
        outbox.notice("work", "DO", 1, tx=tx)
        assert kill_connections(server) >= 1
        outbox.notice("work", "DO", 2, tx=tx)
    assert rows(quiet.database, "message") == []
    outbox.notice("work", "DO", 3)
    assert len(rows(quiet.database, "message")) == 1


def test_killed_before_the_commit(quiet: Quiet, server: PostgresServer) -> None:
    outbox = quiet.queue.outbox("me")
    with pytest.raises((CommitUnknown, DatabaseUnavailable)), quiet.database.transaction() as tx:
        outbox.notice("work", "DO", 1, tx=tx)
        kill_connections(server)
    assert rows(quiet.database, "message") == []
    outbox.notice("work", "DO", 2)


def test_killed_while_idle(quiet: Quiet, server: PostgresServer) -> None:
    """At most one call of each thread fails, and says with its type whether it may be repeated."""
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    sent = outbox.send("work", "DO")
    calls: list[Any] = [
        inbox.claim,
        lambda: inbox.eavesdrop(),
        lambda: outbox.poll(sent),
        lambda: quiet.process.renew(),
        lambda: quiet.caretaker.reap(),
        lambda: quiet.database.now(),
    ]
    for call in calls:
        kill_connections(server)
        try:
            call()
        except (CommitUnknown, DatabaseUnavailable):
            call()


def test_a_server_that_is_away(quiet: Quiet, server: PostgresServer) -> None:
    outbox = quiet.queue.outbox("me")
    inbox = quiet.queue.inbox("work")
    sent = outbox.send("work", "DO")
    server.stop()
    for _ in range(2):
        for call in (lambda: outbox.notice("work", "DO"), inbox.claim, quiet.process.renew, quiet.database.now):
            with pytest.raises((CommitUnknown, DatabaseUnavailable)):
                call()
    with pytest.raises(AnswerTimeout):
        outbox.wait(sent, 0.3)
    server.start()
    assert [message.id for message in inbox.claim(10)] == [sent]


class Workers:
    """A synchronous and an asynchronous inbox at work in a runtime with all its services."""

    def __init__(self, settings: Settings) -> None:
        self.runtime = Runtime(settings, on_dead=lambda: self.deaths.append("dead"))
        self.deaths: list[str] = []
        self.happened: list[Event] = []
        self.handled: list[tuple[str, int]] = []
        self.runtime.events.subscribe(self.happened.append)
        self.inboxes = [self.runtime.queue.synchronous("one"), self.runtime.queue.asynchronous("many", 3)]
        for inbox in self.inboxes:
            inbox.on("DO")(self.handle)
            inbox.start()

    def handle(self, message: Message) -> int:
        self.handled.append((message.inbox, message.payload))
        return int(message.payload)

    def stop(self) -> None:
        for inbox in self.inboxes:
            inbox.stop()
        self.runtime.close()


@pytest.fixture
def workers(settings: Settings) -> Iterator[Workers]:
    made = Workers(settings)
    yield made
    made.stop()


@pytest.mark.part("kills")
@pytest.mark.realtime
@pytest.mark.parametrize("how", ["stop", "kill", "connections"])
def test_services_go_on_by_themselves(workers: Workers, server: PostgresServer, how: str) -> None:
    outbox = workers.runtime.queue.outbox("me")
    for inbox in ("one", "many"):
        assert outbox.request(inbox, "DO", 1, timeout_s=20).payload == 1
    if how == "connections":
        kill_connections(server)
    else:
        getattr(server, how)()
        wait_until(
            lambda: (
                {"heartbeat", "inbox:one"}
                <= {event.subject for event in workers.happened if event.kind is EventKind.SERVICE_FAILED}
            ),
            what="failed rounds of the services",
        )
        server.start()

    def ask(inbox: str) -> Any:
        try:
            return outbox.request(inbox, "DO", 2, timeout_s=20).payload
        except (CommitUnknown, DatabaseUnavailable):
            return None

    for inbox in ("one", "many"):
        assert wait_until(lambda inbox=inbox: ask(inbox)) == 2  # type: ignore[misc]
    assert workers.deaths == []
    failed = {event.subject for event in workers.happened if event.kind is EventKind.SERVICE_FAILED}
    wait_until(
        lambda: failed <= {event.subject for event in workers.happened if event.kind is EventKind.SERVICE_RECOVERED},
        what="the recovery of every service that failed",
    )
    assert events(workers.runtime.database, EventKind.PROCESS_DIED, EventKind.CLAIM_FREED) == []


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_a_handler_that_ends_while_the_server_is_away(workers: Workers, server: PostgresServer) -> None:
    """Its result is written when the server is back, once, by the same claim."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(message: Message) -> str:
        begun.set()
        assert go_on.wait(20)
        return "kept"

    for inbox in workers.inboxes:
        inbox.on("HOLD")(hold)
    outbox = workers.runtime.queue.outbox("me")
    sent = [outbox.send(inbox, "HOLD") for inbox in ("one", "many")]
    assert begun.wait(20)
    wait_until(lambda: states(workers.runtime.database) == ["ACK", "ACK"])
    server.kill()
    go_on.set()
    server.start()
    assert [outbox.wait(one, 20).payload for one in sent] == ["kept", "kept"]
    attempts = {row["id"]: row["attempts"] for row in rows(workers.runtime.database, "message")}
    assert [attempts[one] for one in sent] == [1, 1]


@pytest.mark.part("kills")
@pytest.mark.realtime
def test_waiting_through_a_crash_of_the_server(workers: Workers, server: PostgresServer) -> None:
    go_on = threading.Event()

    def hold(message: Message) -> str:
        assert go_on.wait(20)
        return "after the crash"

    workers.inboxes[0].on("HOLD")(hold)
    outbox = workers.runtime.queue.outbox("me")
    sent = outbox.send("one", "HOLD")
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(outbox.wait(sent, 30).payload))
    waiting.start()
    wait_until(lambda: "ACK" in states(workers.runtime.database))
    server.kill()
    server.start()
    go_on.set()
    waiting.join(30)
    assert got == ["after the crash"]


def test_what_was_committed_before_a_crash_is_there(quiet: Quiet, server: PostgresServer) -> None:
    ids = quiet.queue.outbox("me").notice_many("work", "DO", range(100))
    inbox = quiet.queue.inbox("work")
    claimed = inbox.claim(10)
    inbox.finish(claimed[:5])
    before = rows(quiet.database, "message")
    server.kill()
    server.start()
    try:
        after = rows(quiet.database, "message")
    except psycopg.OperationalError:  # this thread's connection was the old server's
        after = rows(quiet.database, "message")
    assert after == before
    assert [row["id"] for row in after] == ids
