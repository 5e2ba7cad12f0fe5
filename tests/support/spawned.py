"""Spawners for tests, and a rig that runs them in this process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.leases import LONG_LEASE_S
from tests.support.tables import rows

from towpath.actors import Spawner
from towpath.actors.engine.host import Host
from towpath.actors.instance import Instance, Phase
from towpath.actors.spawner.store import Spawned, spawned_of
from towpath.queue import Message
from towpath.queue.outbox import Outbox
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

JOURNAL = "TEST_JOURNAL"
CALM = {"heartbeat_s": 0.5, "lease_s": LONG_LEASE_S}


class Hand(Spawner):
    """Does what the messages say."""

    inbox = "hand-work"
    entry = "tests.support.spawned_work:work"
    look_s = 0.2
    linger_s = 0.3
    grace_s = 2.0


class Patient(Hand):
    """Stays for a long time."""

    inbox = "patient-work"
    linger_s = 60.0


class Stubborn(Hand):
    """Does not let itself be ended."""

    inbox = "stubborn-work"
    entry = "tests.support.spawned_work:stubborn"


class Broken(Hand):
    """Cannot be imported."""

    inbox = "broken-work"
    entry = "tests.support.spawned_broken:work"


class Missing(Hand):
    """Has no such function."""

    inbox = "missing-work"
    entry = "tests.support.spawned_work:no_such_function"


class Late(Hand):
    """Is killed before it can take a message."""

    inbox = "late-work"
    entry = "tests.support.spawned_late:work"
    retries = 1


class Absent(Hand):
    """Has no such program."""

    inbox = "absent-work"
    entry = ""
    command = ("no-such-program-anywhere",)


def command(inbox: str, program: str) -> type[Spawner]:
    """A spawner that runs a small Python program as a plain command."""

    class Made(Hand):
        """Runs a command."""

    Made.name = f"made-{inbox}"
    Made.inbox = inbox
    Made.entry = ""
    Made.command = (sys.executable, "-I", "-c", program)
    return Made


class Rig:
    """A runtime with a host, and what processes have written."""

    def __init__(self, runtime: Runtime, journal: Path) -> None:
        self.runtime = runtime
        self.actors = runtime.actors
        self.outbox: Outbox = runtime.queue.outbox("tests")
        self.journal_file = journal
        self.host: Host | None = None
        self.pids: set[int] = set()

    def run(self, *classes: type[Spawner]) -> None:
        """Register, start and host them."""
        self.actors.register(*classes)
        for cls in classes:
            self.actors.start(cls)
        self.host = self.actors.host()
        self.host.start()

    def ask(self, cls: type[Spawner], payload: Any, timeout_s: float = 60) -> Any:
        return self.outbox.request(cls.inbox, "DO", payload, timeout_s=timeout_s)

    def send(self, cls: type[Spawner], payload: Any) -> str:
        return self.outbox.send(cls.inbox, "DO", payload)

    def row(self, cls: type[Spawner]) -> Spawned | None:
        row = spawned_of(self.runtime.database, name_of(cls))
        if row is not None and row.pid is not None:
            self.pids.add(row.pid)
        return row

    def wait_row(self, cls: type[Spawner], condition: Callable[[Spawned], Any], timeout_s: float = 60) -> Spawned:
        def found() -> Spawned | None:
            row = self.row(cls)
            return row if row is not None and condition(row) else None

        return wait_until(found, timeout_s, f"the row of {cls.__name__}")  # type: ignore[return-value]

    def wait_message(self, message_id: str, *states: str, timeout_s: float = 60) -> Message:
        def found() -> Message | None:
            message = self.message(message_id)
            return message if message.state in states else None

        return wait_until(found, timeout_s, f"message {' or '.join(states)}")  # type: ignore[return-value]

    def message(self, message_id: str) -> Message:
        with self.runtime.database.glance() as tx:
            return self.runtime.queue.parts.messages.read(tx, message_id)

    def instance(self, cls: type[Spawner]) -> Instance:
        return self.actors.instance(name_of(cls))

    def wait_failed(self, cls: type[Spawner]) -> str:
        wait_until(lambda: self.instance(cls).phase is Phase.FAILED, 60, f"the failure of {cls.__name__}")
        return self.instance(cls).reason or ""

    def journal(self, begins: str = "") -> list[str]:
        lines = self.journal_file.read_text().splitlines() if self.journal_file.exists() else []
        return [line for line in lines if line.startswith(begins)]

    def end(self) -> None:
        if self.host is not None:
            self.host.stop()
        for line in self.journal("process "):
            self.pids.add(int(line.split()[1]))
        self.pids |= {row["pid"] for row in rows(self.runtime.database, "spawned") if row["pid"] is not None}
        for pid in self.pids:
            if is_spawned(pid):
                os.killpg(pid, signal.SIGKILL)
        self.tell()

    def tell(self) -> None:
        """What pytest shows when the test has failed."""
        told = [*rows(self.runtime.database, "spawned"), *rows(self.runtime.database, "actor_instance")]
        logs = [log.read_text(errors="replace")[-5_000:] for log in self.journal_file.parent.rglob("*.log")]
        sys.stdout.write("\n".join([*map(str, told), *self.journal(), *logs]))


def name_of(cls: type[Spawner]) -> str:
    return cls.name or cls.__name__.lower()


def is_spawned(pid: int) -> bool:
    """Whether a process of that number lives that a spawner has started."""
    try:
        return b"towpath.actors.spawner.main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture
def spawned_lease_s() -> float:
    """Young processes import a lot while others want the machine: they must not be taken for dead."""
    return LONG_LEASE_S


@pytest.fixture
def rig(
    make_runtime: Callable[..., Runtime], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spawned_lease_s: float
) -> Iterator[Rig]:
    journal = tmp_path / "journal"
    monkeypatch.setenv(JOURNAL, str(journal))
    made = Rig(
        make_runtime(actors={"directory": str(tmp_path / "actors")}, process={**CALM, "lease_s": spawned_lease_s}),
        journal,
    )
    yield made
    made.end()
