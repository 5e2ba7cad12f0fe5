"""What is done to processes on one host: started, told to stop, ended by force; and how that came out is written down.

Facts about a launch are written by whoever sees them, not only by the coordinator: they count only while that launch
is the current one. Everything may be done again, by another process too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db import Database
from towpath.errors import BadSettings, CannotLaunch, LauncherAway, LauncherError, Refused
from towpath.supervision.bell import BELL
from towpath.supervision.duty import Duty
from towpath.supervision.duty_store import DutyStore
from towpath.supervision.launch_specs import launch_spec
from towpath.supervision.launchers.launcher import Launcher, Looked, LookedState

LONGEST_LINE = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class Hands:
    """Works for the duties of one host, through its launchers."""

    def __init__(self, database: Database, launchers: Mapping[str, Launcher]) -> None:
        self._database = database
        self.launchers = tuple(launchers)  # their names
        self._launchers = launchers
        self._duties = DutyStore(database)

    def start(self, duty: Duty) -> None:
        """Start its launch, unless that was done before; raises `LauncherAway` when it should be tried again."""
        launch_id = duty.launch_id or ""
        try:
            handle = self._launcher(duty).start(launch_spec(duty))
        except (CannotLaunch, Refused) as error:
            self._cannot(launch_id, str(error))
            return
        except LauncherAway as error:
            self._trouble(launch_id, str(error))
            raise
        crash.here(CrashPoint.LAUNCH_STARTED)
        with self._database.transaction() as tx:
            old = self._duties.note_handle(tx, launch_id, handle)
        crash.here(CrashPoint.LAUNCH_NOTED)
        for each in old:
            with suppress(LauncherError, Refused):
                self._launcher(duty).forget(each)
        self._database.bells.ring([BELL])

    def stop(self, duty: Duty) -> None:
        """Ask its process to end, and let it be ended by force after its grace time."""
        handle = self._handle(duty)
        if handle is None:
            self.note_exit(duty, Looked(LookedState.UNKNOWN))
        else:
            self._launcher(duty).stop(handle, duty.spec.grace_s)

    def kill(self, duty: Duty) -> None:
        """End its process by force; when this returns nothing of it runs, and its row says so."""
        handle = self._handle(duty)
        if handle is None:
            self.note_exit(duty, Looked(LookedState.UNKNOWN))
            return
        launcher = self._launcher(duty)
        launcher.kill(handle)
        crash.here(CrashPoint.DUTY_KILLED)
        self.note_exit(duty, launcher.look(handle))

    def end(self, duty: Duty) -> None:
        """End its process by force, without a word to the database: that may be what it keeps from everybody."""
        if duty.handle is not None:
            self._launcher(duty).kill(duty.handle)

    def note_exit(self, duty: Duty, looked: Looked) -> None:
        """Write down that the process of its launch has ended, and the last that it wrote, if that is news."""
        said = looked.reason or ("" if duty.handle is None else self._last_line(duty))
        with self._database.single() as tx:
            is_news = self._duties.note_exit(tx, duty.launch_id or "", looked.exit_code, looked.signal, said)
        if is_news:
            self._database.bells.ring([BELL])

    def wait(self, duties: Mapping[str, Duty], launcher: str, timeout_s: float) -> list[str]:
        """Which of these, by handle, have ended; returns as soon as one has, or when the time is over."""
        return self._launchers[launcher].wait(list(duties), timeout_s)

    def look(self, duty: Duty) -> Looked:
        handle = self._handle(duty)
        return Looked(LookedState.UNKNOWN) if handle is None else self._launcher(duty).look(handle)

    def logs(self, duty: Duty, *, tail: int | None, follow: bool) -> Iterator[str]:
        """What its process, or its last one, has written."""
        if duty.handle is None:
            return iter(())
        return self._launcher(duty).logs(duty.handle, tail=tail, follow=follow)

    def _last_line(self, duty: Duty) -> str:
        """Most programs say there what went wrong; nothing when that cannot be read."""
        with suppress(LauncherError, Refused):
            for line in self.logs(duty, tail=1, follow=False):
                return _CONTROL.sub(" ", line).strip()[:LONGEST_LINE]
        return ""

    def _handle(self, duty: Duty) -> str | None:
        return duty.handle or self._launcher(duty).find(duty.launch_id or "")

    def _launcher(self, duty: Duty) -> Launcher:
        try:
            return self._launchers[duty.spec.launcher]
        except KeyError:
            known = ", ".join(self._launchers)
            raise BadSettings(f"duty {duty.name}: there is no launcher {duty.spec.launcher!r} here; {known}") from None

    def _cannot(self, launch_id: str, trouble: str) -> None:
        """It will never run: that is its end."""
        with self._database.transaction() as tx:
            self._duties.note_trouble(tx, launch_id, trouble)
            self._duties.note_exit(tx, launch_id, None, None)
        self._database.bells.ring([BELL])

    def _trouble(self, launch_id: str, trouble: str) -> None:
        with self._database.single() as tx:
            self._duties.note_trouble(tx, launch_id, trouble)
