"""The connection to PostgreSQL is cut at the worst moment: nothing is lost, nothing counts twice, nobody is lied to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.support.quiet import LEASE_S, Quiet
from tests.support.tables import message_row, rows, states

from towpath.core.events import Event, EventKind
from towpath.errors import CommitUnknown, DatabaseUnavailable, DuplicateMessage
from towpath.queue import GiveBack, Message
from towpath.queue.payload import new_id
from towpath.runtime import Runtime
from towpath.settings import Settings
from towpath.stack.postgres import PostgresServer
from towpath.testing.clock import wait_until
from towpath.testing.proxy import CuttingProxy

CLAIM = b"skip locked"
COMMIT = b"commit"


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[CuttingProxy]:
    with CuttingProxy(postgres.port) as made:
        yield made


@pytest.fixture
def schema() -> str:
    return f"c{uuid4().hex[:12]}"


def settings(port: int, postgres: PostgresServer, schema: str, **queue: Any) -> Settings:
    return Settings.model_validate(
        {
            "database": {"url": postgres.url.replace(str(postgres.port), str(port)), "schema": schema},
            "process": {"heartbeat_s": LEASE_S / 5, "lease_s": LEASE_S},
            "queue": queue,
        }
    )


@pytest.fixture
def quiet(proxy: CuttingProxy, postgres: PostgresServer, schema: str) -> Iterator[Quiet]:
    """Reaches the server through the proxy."""
    made = Quiet.open(settings(proxy.port, postgres, schema))
    made.queue.inbox("work")
    made.queue.outbox("me").send("work", "DO", "first")
    yield made
    made.runtime.close()


@pytest.fixture
def direct(quiet: Quiet, postgres: PostgresServer, schema: str) -> Iterator[Quiet]:
    """Reaches the server without the proxy, and sees what is really there."""
    made = Quiet.open(settings(postgres.port, postgres, schema))
    yield made
    made.runtime.close()


@pytest.mark.parametrize("limit", [1, 10])
def test_a_claim_whose_answer_was_lost_is_found_again(
    quiet: Quiet, direct: Quiet, proxy: CuttingProxy, limit: int
) -> None:
    inbox = quiet.queue.inbox("work")
    proxy.lose_answer(CLAIM)
    with pytest.raises(CommitUnknown):
        inbox.claim(limit)
    before = rows(direct.database, "message")
    assert [row["state"] for row in before] == ["ACK"]
    [message] = inbox.claim(limit)
    assert rows(direct.database, "message") == before
    assert (message.id, message.attempts) == (before[0]["id"], 1)
    inbox.finish(message, "done")
    assert inbox.claim(limit) == []


def test_a_claim_that_never_arrived_is_made_again(quiet: Quiet, direct: Quiet, proxy: CuttingProxy) -> None:
    inbox = quiet.queue.inbox("work")
    proxy.lose_question(CLAIM)
    with pytest.raises(CommitUnknown):
        inbox.claim()
    assert states(direct.database) == ["NEW"]
    [message] = inbox.claim()
    assert message.attempts == 1


def test_a_doubtful_claim_is_asked_about_until_it_is_known(quiet: Quiet, direct: Quiet, proxy: CuttingProxy) -> None:
    inbox = quiet.queue.inbox("work")
    proxy.lose_answer(CLAIM)
    with pytest.raises(CommitUnknown):
        inbox.claim()
    proxy.lose_answer(b"owner_tick")
    with pytest.raises((CommitUnknown, DatabaseUnavailable)):
        inbox.claim()
    [message] = inbox.claim()
    assert message.attempts == 1
    assert states(direct.database) == ["ACK"]


def test_a_claim_stays_in_doubt_for_one_lease(quiet: Quiet, proxy: CuttingProxy) -> None:
    """A server that has lost us may be at work on it for that long; then nobody asks any more."""
    inbox = quiet.queue.inbox("work")
    proxy.lose_question(CLAIM)
    with pytest.raises(CommitUnknown):
        inbox.claim()
    inbox.release(inbox.claim())
    for passed_s, is_in_doubt in ((LEASE_S - 1, True), (2, False)):
        quiet.clock.advance(passed_s)
        quiet.process.renew()
        inbox.release(inbox.claim())
        assert bool(inbox._doubtful) is is_in_doubt


def test_an_exchange_whose_answer_was_lost(quiet: Quiet, direct: Quiet, proxy: CuttingProxy) -> None:
    """The first is finished and the next is claimed, but nobody was told: both are found out."""
    quiet.queue.outbox("me").notice("work", "DO", "second")
    inbox = quiet.queue.inbox("work")
    [first] = inbox.claim()
    proxy.lose_answer(COMMIT)
    with pytest.raises(CommitUnknown):
        inbox.exchange(first, "done")
    found = {row["payload"]: row["state"] for row in rows(direct.database, "message")}
    assert found == {'"first"': "OK", '"second"': "ACK", '"done"': "NEW"}
    [second] = inbox.claim()
    assert (second.payload, second.attempts) == ("second", 1)


@pytest.mark.parametrize("arrives", [True, False])
def test_a_send_may_be_repeated_with_its_id(quiet: Quiet, direct: Quiet, proxy: CuttingProxy, arrives: bool) -> None:
    outbox = quiet.queue.outbox("me")
    chosen = new_id()
    (proxy.lose_answer if arrives else proxy.lose_question)(b"insert into message")
    with pytest.raises(CommitUnknown):
        outbox.notice("work", "DO", "second", message_id=chosen)
    if arrives:
        with pytest.raises(DuplicateMessage):
            outbox.notice("work", "DO", "second", message_id=chosen)
    else:
        outbox.notice("work", "DO", "second", message_id=chosen)
    assert [row["payload"] for row in rows(direct.database, "message")] == ['"first"', '"second"']


@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_that_nobody_knows_about(quiet: Quiet, direct: Quiet, proxy: CuttingProxy, arrives: bool) -> None:
    """Whole or not at all, and the caller is told that it cannot be known which."""
    outbox = quiet.queue.outbox("me")
    rung: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quiet.database.wakeups, "ring", rung.extend)
        with pytest.raises(CommitUnknown), quiet.database.transaction() as tx:
            outbox.notice("work", "DO", 2, tx=tx)
            outbox.notice("work", "DO", 3, tx=tx)
            (proxy.lose_answer if arrives else proxy.lose_question)(COMMIT)
    assert len(rows(direct.database, "message")) == (3 if arrives else 1)
    assert rung == []
    outbox.notice("work", "DO", 4)


def test_a_cut_inside_a_transaction_writes_nothing(quiet: Quiet, direct: Quiet, proxy: CuttingProxy) -> None:
    outbox = quiet.queue.outbox("me")
    before = rows(direct.database, "message")
    with pytest.raises(DatabaseUnavailable), quiet.database.transaction() as tx:
        outbox.notice("work", "DO", 2, tx=tx)
        proxy.cut_all()
        outbox.notice("work", "DO", 3, tx=tx)
    assert rows(direct.database, "message") == before
    outbox.notice("work", "DO", 4)


def test_idle_connections_that_were_cut(quiet: Quiet, proxy: CuttingProxy) -> None:
    """One call may fail, with a type; the next works."""
    proxy.cut_all()
    for act in (lambda: quiet.queue.browser().page(), lambda: quiet.queue.outbox("me").notice("work", "DO")):
        try:
            act()
        except (CommitUnknown, DatabaseUnavailable):
            act()
        proxy.cut_all()


def test_a_beat_whose_answer_was_lost(quiet: Quiet, proxy: CuttingProxy) -> None:
    proxy.lose_answer(b"update process")
    with pytest.raises((CommitUnknown, DatabaseUnavailable)):
        quiet.process.renew()
    quiet.process.renew()
    assert quiet.process.is_leased


class Worker:
    """A running worker behind the proxy, without other loops that would commit in between."""

    def __init__(self, proxy: CuttingProxy, postgres: PostgresServer, schema: str, kind: str) -> None:
        self.runtime = Runtime(settings(proxy.port, postgres, schema, caretaker_s=1000, janitor_s=1000, poll_s=0.2))
        self.inbox = getattr(self.runtime.queue, kind)("work")
        self.happened: list[Event] = []
        self.runtime.events.subscribe(self.happened.append)

    def stop(self) -> None:
        self.inbox.stop()
        self.runtime.close()


@pytest.fixture(params=["synchronous", "asynchronous"])
def worker(
    request: pytest.FixtureRequest, direct: Quiet, proxy: CuttingProxy, postgres: PostgresServer, schema: str
) -> Iterator[Worker]:
    made = Worker(proxy, postgres, schema, request.param)
    yield made
    made.stop()


@pytest.mark.part("kills")
@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("outcome", ["ok", "error", "give back"])
def test_a_finish_whose_answer_was_lost_counts_once(
    worker: Worker, direct: Quiet, proxy: CuttingProxy, arrives: bool, outcome: str
) -> None:
    [asked] = [row["id"] for row in rows(direct.database, "message")]
    handled: list[int] = []

    @worker.inbox.on("DO")
    def handle(message: Message) -> Any:
        handled.append(message.attempts)
        if len(handled) == 1:
            text = b"give_backs = give_backs + 1" if outcome == "give back" else COMMIT
            (proxy.lose_answer if arrives else proxy.lose_question)(text)
            if outcome == "give back":
                return GiveBack()
        if outcome == "error":
            raise LookupError("broke")
        return "done"

    worker.inbox.start()
    answer = direct.queue.outbox("me").wait(asked, 20)
    assert answer.payload == ({"error": "LookupError: broke"} if outcome == "error" else "done")
    assert len(handled) == (2 if outcome == "give back" else 1)
    assert proxy.cuts >= 1
    assert [row["function"] for row in rows(direct.database, "message")] == ["DO", "REPLY"]
    assert message_row(direct.database, asked)["give_backs"] == (1 if outcome == "give back" else 0)


def test_a_worker_whose_claim_was_lost_goes_on(worker: Worker, direct: Quiet, proxy: CuttingProxy) -> None:
    handled: list[int] = []
    worker.inbox.on("DO")(lambda message: handled.append(message.attempts))
    [asked] = [row["id"] for row in rows(direct.database, "message")]
    proxy.lose_answer(CLAIM)
    worker.inbox.start()
    direct.queue.outbox("me").wait(asked, 20)
    assert handled == [1]
    wait_until(lambda: EventKind.SERVICE_RECOVERED in [event.kind for event in worker.happened])


def test_waiting_for_an_answer_survives_a_cut(quiet: Quiet, direct: Quiet, proxy: CuttingProxy) -> None:
    [asked] = [row["id"] for row in rows(direct.database, "message")]
    got: list[Any] = []
    outbox = quiet.queue.outbox("me")
    polled = threading.Event()
    poll = outbox.poll

    def noted(message_id: str) -> Any:
        try:
            return poll(message_id)
        finally:
            polled.set()

    outbox.poll = noted  # type: ignore[method-assign]
    waiting = threading.Thread(target=lambda: got.append(outbox.wait(asked, 20).payload))
    waiting.start()
    assert polled.wait(10)
    polled.clear()
    proxy.cut_all()
    assert polled.wait(10)
    inbox = direct.queue.inbox("work")
    inbox.finish(inbox.claim(), "done")
    waiting.join(20)
    assert got == ["done"]
