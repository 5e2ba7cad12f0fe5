"""SQLite locked, full or not writable: a typed error, nothing written, and it works again afterwards."""

from __future__ import annotations

import ctypes
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.quiet import LEASE_S, Quiet
from tests.support.tables import rows, states

from towpath.core.events import Event, EventKind
from towpath.errors import DatabaseUnavailable
from towpath.queue import MessageState
from towpath.runtime import Runtime
from towpath.settings import Settings
from towpath.testing.clock import wait_until

CAPABILITIES_VERSION = 0x20080522
OVERRIDE = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def settings(home: Path, lock_timeout_s: float = 0.1) -> Settings:
    return Settings.model_validate(
        {
            "database": {
                "url": f"sqlite:///{home}/towpath.db",
                "synchronous": "normal",
                "lock_timeout_s": lock_timeout_s,
            },
            "process": {"heartbeat_s": LEASE_S / 5, "lease_s": LEASE_S},
        }
    )


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Quiet]:
    made = Quiet.open(settings(tmp_path))
    yield made
    made.runtime.close()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program holds the file, as a backup or a person at a prompt would."""
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("begin exclusive")
        yield
        other.execute("rollback")
    finally:
        other.close()


CALLS: dict[str, Callable[[Any], Any]] = {
    "notice": lambda s: s.outbox.notice("work", "DO"),
    "send": lambda s: s.outbox.send("work", "DO"),
    "notice_many": lambda s: s.outbox.notice_many("work", "DO", [1, 2]),
    "claim": lambda s: s.inbox.claim(),
    "finish": lambda s: s.inbox.finish(s.claimed.pop()),
    "release": lambda s: s.inbox.release(s.claimed.pop()),
    "operator": lambda s: s.quiet.queue.operator("ada").set_state(s.waiting, MessageState.DEAD, "why"),
    "reap": lambda s: s.quiet.caretaker.reap(),
    "clean": lambda s: s.quiet.queue.janitor().clean(),
}


class Scene:
    def __init__(self, quiet: Quiet) -> None:
        self.quiet = quiet
        self.inbox = quiet.queue.inbox("work")
        self.outbox = quiet.queue.outbox("me")
        self.outbox.send("work", "DO")
        self.claimed = self.inbox.claim()
        self.waiting = self.outbox.notice("work", "DO")

    def everything(self) -> list[Any]:
        return [rows(self.quiet.database, table) for table in ("message", "event", "inbox")]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_locked_by_another_program(quiet: Quiet, tmp_path: Path, call: Callable[[Scene], Any]) -> None:
    scene = Scene(quiet)
    before, claimed = scene.everything(), list(scene.claimed)
    with locked(tmp_path / "towpath.db"):
        with pytest.raises(DatabaseUnavailable, match="locked"):
            call(scene)
        assert scene.everything() == before
    scene.claimed = claimed
    call(scene)


def test_reading_goes_on_while_it_is_locked(quiet: Quiet, tmp_path: Path) -> None:
    scene = Scene(quiet)
    with locked(tmp_path / "towpath.db"):
        assert quiet.queue.browser().message(scene.waiting).id == scene.waiting


def test_a_heartbeat_does_not_wait_for_a_long_write(quiet: Quiet, tmp_path: Path) -> None:
    with locked(tmp_path / "towpath.db"):
        quiet.process.renew()


def test_services_wait_and_go_on(tmp_path: Path) -> None:
    with Runtime(settings(tmp_path, lock_timeout_s=2.0)) as runtime:
        worker = runtime.queue.synchronous("work")
        worker.on("DO")(lambda message: message.payload)
        happened: list[Event] = []
        runtime.events.subscribe(happened.append)
        outbox = runtime.queue.outbox("me")
        worker.start()
        try:
            assert outbox.request("work", "DO", 1, timeout_s=20).payload == 1
            with locked(tmp_path / "towpath.db"):
                worker.wake()
                failed = Event(EventKind.SERVICE_FAILED, "inbox:work")
                wait_until(lambda: [e for e in happened if (e.kind, e.subject) == (failed.kind, failed.subject)])
            assert outbox.request("work", "DO", 2, timeout_s=20).payload == 2
            recovered = Event(EventKind.SERVICE_RECOVERED, "inbox:work")
            wait_until(lambda: [e for e in happened if (e.kind, e.subject) == (recovered.kind, recovered.subject)])
        finally:
            worker.stop()


@pytest.mark.parametrize("kind", ["notice", "notice_many", "transaction"])
def test_full(quiet: Quiet, kind: str) -> None:
    inbox = quiet.queue.inbox("work")
    outbox = quiet.queue.outbox("me")
    outbox.notice("work", "DO", "first")
    before = rows(quiet.database, "message")
    connection = quiet.database.connection()  # type: ignore[attr-defined]
    [pages] = connection.execute("pragma page_count").fetchone()
    connection.execute(f"pragma max_page_count = {pages + 20}")

    def fill() -> None:
        match kind:
            case "notice":
                outbox.notice("work", "DO", "x" * 500_000)
            case "notice_many":
                outbox.notice_many("work", "DO", ["x" * 1_000] * 500)
            case _:
                with quiet.database.transaction() as tx:
                    outbox.notice("work", "DO", "small", tx=tx)
                    outbox.notice("work", "DO", "x" * 500_000, tx=tx)

    with pytest.raises(DatabaseUnavailable, match="full"):
        fill()
    assert rows(quiet.database, "message") == before
    assert len(inbox.claim()) == 1  # what needs no new pages still works
    connection.execute("pragma max_page_count = 1000000")
    fill()
    assert len(states(quiet.database)) > 1


@contextmanager
def without_override() -> Iterator[None]:
    """Root may read and write everything. For a moment permissions count for this thread as for any other owner.

    To become another user would be no test: that user may not be able to read the code itself.
    """
    if os.geteuid() != 0:
        yield
        return
    libc, header = ctypes.CDLL(None, use_errno=True), (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0)
    before, without = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    for each in (before, without):
        assert libc.capget(header, each) == 0, os.strerror(ctypes.get_errno())
    without[0] &= ~OVERRIDE
    assert libc.capset(header, without) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0, os.strerror(ctypes.get_errno())


@pytest.fixture
def home() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="towpath-test-"))
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


def test_a_directory_that_may_not_be_written(home: Path) -> None:
    home.chmod(0o555)
    with (
        without_override(),
        pytest.raises(DatabaseUnavailable, match=f"{home}/towpath.db.*unable to open database file"),
    ):
        Runtime(settings(home))


def test_a_file_that_may_not_be_written(home: Path) -> None:
    quiet = Quiet.open(settings(home))
    quiet.queue.inbox("work")
    quiet.runtime.close()
    for file in home.iterdir():
        file.chmod(0o444)
    home.chmod(0o555)
    with (
        without_override(),
        pytest.raises(DatabaseUnavailable, match=r"towpath\.db.*(readonly|read-only|unable to open)"),
    ):
        Quiet.open(settings(home)).queue.inbox("other")


def test_a_file_that_may_not_be_read(home: Path) -> None:
    Quiet.open(settings(home)).runtime.close()
    for file in home.iterdir():
        file.chmod(0o000)
    with without_override(), pytest.raises(DatabaseUnavailable, match="unable to open database file"):
        Runtime(settings(home))
