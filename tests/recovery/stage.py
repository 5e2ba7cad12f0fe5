"""One database, the processes that a test lets loose on it, and what is left when they are gone."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.leases import LONG_LEASE, LONG_LEASE_S

from towpath import Runtime, Settings, settings
from towpath.core.events import EventKind
from towpath.queue import MessageState
from towpath.testing.clock import wait_until, wait_while_it_goes_on
from towpath.testing.processes import WAIT_S, ChildProcess
from towpath.testing.queue_ledger import (
    Entry,
    QueueLedger,
    entries,
    handled_again,
    problems,
    read_ledger,
    verify_schema,
)

ROOT = Path(__file__).parents[2]
POLLING = {"poll_s": 0.5, "caretaker_s": 0.05}
# PostgreSQL goes on with the commit of a thread that has died before it heard of it. Our own session asks.
TRANSACTIONS = """select count(*) from pg_stat_activity where datname = current_database()
and backend_type = 'client backend' and pid <> pg_backend_pid() and state <> 'idle'"""


class Stage:
    """Starts children, remembers whom it killed, and reads the tables and the journal."""

    def __init__(self, database_settings: dict[str, Any], home: Path, lease_s: float = LONG_LEASE_S) -> None:
        self.dialect = "sqlite" if database_settings["url"].startswith("sqlite") else "postgres"
        self.home = home
        self.killed: set[int] = set()
        self.left: set[str] = set()  # claims that the dead left behind
        self.left_handled: set[str] = set()  # those of them that a handler had already done
        self._sections = {
            "process": {"heartbeat_s": min(LONG_LEASE["heartbeat_s"], lease_s / 3), "lease_s": lease_s},
            "queue": POLLING,
            "database": database_settings,
        }
        self._journal = home / "journal"
        self._ended_at_exit = ExitStack()
        self._runtime: Runtime | None = None

    @property
    def settings(self) -> Settings:
        return settings.load(self._sections)

    @property
    def runtime(self) -> Runtime:
        """This process's own view, for preparing and looking. It claims nothing, so it has no process row."""
        if self._runtime is None:
            self._runtime = self._ended_at_exit.enter_context(Runtime(self.settings))
        return self._runtime

    def start(
        self,
        act: str,
        *,
        crash_at: str | None = None,
        portion: int = 1000,
        name: str = "towpath",
        queue: dict[str, Any] | None = None,
        **args,
    ) -> ChildProcess:
        """Let a child do an act."""
        process = {**self._sections["process"], "name": name}
        sections = {**self._sections, "process": process, "queue": {**POLLING, **(queue or {})}}
        told = {"act": act, "sections": sections, "journal": str(self._journal), "portion": portion, "args": args}
        child = ChildProcess("tests.recovery.acts", told, log=self.home / "children.log", crash_at=crash_at, cwd=ROOT)
        return self._ended_at_exit.enter_context(child)

    def run(self, act: str, **options) -> None:
        """Let a child do an act to its end, as long as it gets anywhere."""
        child = self.start(act, **options)
        wait_while_it_goes_on(lambda: not child.is_running, lambda: len(self.journal()), WAIT_S, f"the end of {act!r}")
        child.wait_done()

    def crash(self, act: str, crash_at: str, **options) -> None:
        """Let a child do an act until it dies at the point; dying in any other way is a failure."""
        child = self.start(act, crash_at=crash_at, **options)
        child.wait_killed()
        self.killed.add(child.pid)

    def look_at_what_is_left(self) -> None:
        """Remember, between death and recovery, what the dead held: exactly this has to be freed."""
        if self.dialect == "postgres":
            wait_until(lambda: self._transactions() == 0, 60, "the end of the transactions of the dead")
        self.left = {message.id for message in self.ledger().asked if message.state is MessageState.ACK}
        self.left_handled = self.left & set(self.handled)

    def _transactions(self) -> int:
        """How many the server has under way, but for this look."""
        database: Any = self.runtime.database
        return int(database.connection().execute(TRANSACTIONS).fetchone()[0])

    def kill(self, child: ChildProcess) -> None:
        child.kill()
        self.killed.add(child.pid)

    def stop(self, child: ChildProcess) -> None:
        """Ask a child to end in order, and see that it does."""
        child.signal(signal.SIGTERM)
        child.wait_done()

    def journal(self, did: str | None = None) -> list[Entry]:
        return [entry for entry in entries(self._journal) if did in (None, entry["did"])]

    def wait_for(self, did: str, count: int = 1) -> list[Entry]:
        """Wait until the children have done something so many times."""
        return wait_until(
            lambda: found if len(found := self.journal(did)) >= count else [], 60, f"{count} × {did!r} in the journal"
        )

    @property
    def handled(self) -> Counter[str]:
        """How often each message was handled, by the handlers' own record."""
        return Counter(entry["id"] for entry in self.journal("handled"))

    @property
    def sent(self) -> set[str]:
        return {entry["id"] for entry in self.journal("sent")}

    def ledger(self) -> QueueLedger:
        return read_ledger(self.runtime.database)

    def settled_ledger(self) -> QueueLedger:
        """The complete tables at the end, after the checks that hold whatever happened.

        Each claim that a death left behind was freed once, by the name of who died; of these, what had been handled was
        handled once more; and nothing else was.
        """
        ledger = self.ledger()
        assert problems(ledger, self.sent, self.handled, self.killed) == []
        freed = ledger.count(EventKind.CLAIM_FREED) + ledger.count(EventKind.MESSAGE_GIVEN_UP)
        assert freed == Counter(self.left)
        assert handled_again(self.handled) == dict.fromkeys(self.left_handled, 2)
        verify_schema(self.runtime.database)
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended_at_exit.close()
