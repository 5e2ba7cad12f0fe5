"""Every kind of service is started and stopped many times by several threads at once."""

from __future__ import annotations

import inspect
import random
import tempfile
import threading
from collections.abc import Callable
from typing import cast

import pytest
from tests.support.quiet import Quiet

import towpath.runtime  # noqa: F401 - loads every module that defines a service
from towpath.db.processes import Heartbeat
from towpath.events import Event, EventKind
from towpath.log import open_log
from towpath.log.janitor import LogJanitor
from towpath.log.sqlite_log import SqliteLog
from towpath.queue.asynchronous import AsynchronousInbox
from towpath.queue.caretaker import Caretaker
from towpath.queue.janitor import Janitor
from towpath.queue.synchronous import SynchronousInbox
from towpath.service import Service
from towpath.settings import LogSettings
from towpath.testing.waiting import wait_until


def log_janitor(quiet: Quiet) -> LogJanitor:
    """Of a log in a file of its own, whichever the database is."""
    settings = LogSettings(url=f"sqlite:///{tempfile.mkdtemp()}/topics.db")
    log = cast(SqliteLog, open_log(settings, quiet.database))
    quiet.closed_with_it.append(log)
    return LogJanitor(log, quiet.runtime.events, lambda tx, event: None)


MAKERS: dict[type[Service], Callable[[Quiet], Service]] = {
    Heartbeat: lambda quiet: Heartbeat(quiet.process, quiet.runtime.events),
    Caretaker: lambda quiet: quiet.queue.caretaker(),
    Janitor: lambda quiet: quiet.queue.janitor(),
    LogJanitor: log_janitor,
    SynchronousInbox: lambda quiet: quiet.queue.synchronous("work"),
    AsynchronousInbox: lambda quiet: quiet.queue.asynchronous("work", workers=2),
}


def concrete(kind: type[Service]) -> set[type[Service]]:
    below = {found for child in kind.__subclasses__() for found in concrete(child)}
    ours = kind.__module__.startswith("towpath.") and not inspect.isabstract(kind)
    return below | ({kind} if ours else set())


def test_every_service_is_stressed_here() -> None:
    assert concrete(Service) == set(MAKERS)  # type: ignore[type-abstract]


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("kind", MAKERS, ids=lambda kind: kind.__name__)
def test_started_and_stopped_many_times_at_once(quiet: Quiet, kind: type[Service]) -> None:
    service = MAKERS[kind](quiet)
    failed: list[Event] = []
    quiet.runtime.events.subscribe(lambda e: failed.append(e) if e.kind is EventKind.SERVICE_FAILED else None)
    errors: list[BaseException] = []

    def hammer(seed: int) -> None:
        choice = random.Random(seed)
        try:
            for _ in range(25):
                choice.choice((service.start, service.stop))()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=hammer, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    service.stop()
    assert errors == []
    assert failed == []
    assert names().count(service.name) == 0
    service.start()
    wait_until(lambda: names().count(service.name) == 1)
    service.stop()
    assert not service.is_running
