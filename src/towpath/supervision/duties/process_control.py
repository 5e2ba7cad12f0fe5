"""What is done to the processes of one host: they are started, told to stop, ended by force, and watched.

Facts about a launch are written by whoever sees them, not only by the coordinator: they count only while that launch
is the current one. Everything may be done again, by another process too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from towpath.core import crash
from towpath.core.clock import Clock
from towpath.core.crash import CrashPoint
from towpath.core.events import Events
from towpath.core.os_processes import is_standing_still
from towpath.core.service import RoundResult, Service
from towpath.db import Database
from towpath.errors import BadSettings, CannotLaunch, DatabaseError, LauncherAway, LauncherError, Refused
from towpath.supervision.duties.launch import launch_spec
from towpath.supervision.duties.model import BELL, Duty
from towpath.supervision.duties.store import DutyCache, DutyStore
from towpath.supervision.launchers.launcher import Launcher, LaunchState, LaunchStatus

logger = logging.getLogger(__name__)

LONGEST_LINE = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
WAIT_S = 0.4  # until it looks whether there are new ones
LOOK_S = 2.0
LEASES = 2  # so that a coordinator that can act is faster, and says why


class ProcessControl:
    """Starts, stops and kills the processes of the duties of one host, through its launchers."""

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
            with self._database.single() as tx:
                self._duties.note_trouble(tx, launch_id, str(error))
            raise
        crash.here(CrashPoint.LAUNCH_STARTED)
        with self._database.transaction() as tx:
            old = self._duties.note_handle(tx, launch_id, handle)
        crash.here(CrashPoint.LAUNCH_NOTED)
        for each in old:
            with suppress(LauncherError, Refused):
                self._launcher(duty).forget(each)
        self._database.wakeups.ring([BELL])

    def stop(self, duty: Duty) -> None:
        """Ask its process to end, and let it be ended by force after its grace time."""
        handle = self._handle(duty)
        if handle is None:
            self.note_exit(duty, LaunchStatus(LaunchState.UNKNOWN))
        else:
            self._launcher(duty).stop(handle, duty.spec.grace_s)

    def kill(self, duty: Duty) -> None:
        """End its process by force; when this returns nothing of it runs, and its row says so."""
        handle = self._handle(duty)
        if handle is None:
            self.note_exit(duty, LaunchStatus(LaunchState.UNKNOWN))
            return
        launcher = self._launcher(duty)
        launcher.kill(handle)
        crash.here(CrashPoint.DUTY_KILLED)
        self.note_exit(duty, launcher.look(handle))

    def end(self, duty: Duty) -> None:
        """End its process by force, without a word to the database: that may be what it keeps from everybody."""
        if duty.handle is not None:
            self._launcher(duty).kill(duty.handle)

    def note_exit(self, duty: Duty, looked: LaunchStatus) -> None:
        """Write down that the process of its launch has ended, and the last that it wrote, if that is news."""
        said = looked.reason or ("" if duty.handle is None else self._last_line(duty))
        with self._database.single() as tx:
            is_news = self._duties.note_exit(tx, duty.launch_id or "", looked.exit_code, looked.signal, said)
        if is_news:
            self._database.wakeups.ring([BELL])

    def wait(self, duties: Mapping[str, Duty], launcher: str, timeout_s: float) -> list[str]:
        """Which of these, by handle, have ended; returns as soon as one has, or when the time is over."""
        return self._launchers[launcher].wait(list(duties), timeout_s)

    def look(self, duty: Duty) -> LaunchStatus:
        handle = self._handle(duty)
        return LaunchStatus(LaunchState.UNKNOWN) if handle is None else self._launcher(duty).look(handle)

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
        self._database.wakeups.ring([BELL])


class ExitWatch(Service):
    """Writes down at once when a process of this host ends. A launcher that is away holds up no other's watch."""

    def __init__(self, duties: DutyCache, host: str, control: ProcessControl, launcher: str, events: Events) -> None:
        super().__init__(events)
        self.name = f"exits of {launcher}"
        self._host = host
        self._control = control
        self._launcher = launcher
        self._duties = duties

    def run_once(self) -> RoundResult:
        running = {duty.handle or "": duty for duty in self._duties.all() if self._is_mine(duty)}
        if not running:
            return RoundResult(0, WAIT_S)
        ended = self._control.wait(running, self._launcher, WAIT_S)
        for handle in ended:
            self._control.note_exit(running[handle], self._control.look(running[handle]))
        return RoundResult(len(ended), 0)

    def _is_mine(self, duty: Duty) -> bool:
        return duty.spec.launcher == self._launcher and _is_kept_on(self._host, duty)


class StoppedWatch(Service):
    """Ends processes of this host that stand still (SIGSTOP, a debugger) for longer than two leases.

    Usually the coordinator is faster: such a process is silent. But one that stands still in the middle of a
    transaction keeps its locks, on SQLite the only one that there is; then no coordinator can act, and no peer can take
    the term. So every peer does this by itself, without the database: what has stood still for a whole lease is dead by
    the rules of leases, and to end a process by force is safe at any moment.

    The same goes for a keeper: while it stands still, nobody sees that its process has ended.
    """

    name = "stopped"

    def __init__(
        self, duties: DutyCache, host: str, control: ProcessControl, lease_s: float, events: Events, clock: Clock
    ) -> None:
        super().__init__(events)
        self._host = host
        self._control = control
        self._limit_s = LEASES * lease_s
        self._clock = clock
        self._duties = duties
        self._pids: dict[str, set[int]] = {}  # by launch id: its process and what keeps it
        self._since: dict[str, float] = {}  # launch id: stands still since

    def run_once(self) -> RoundResult:
        with suppress(DatabaseError):  # then those that were known last
            self._duties.all()
        now = self._clock.monotonic()
        mine = {duty.launch_id or "": duty for duty in self._duties.last if _is_kept_on(self._host, duty)}
        self._pids = {launch_id: pids for launch_id, pids in self._pids.items() if launch_id in mine}
        still = {launch_id: duty for launch_id, duty in mine.items() if self._stands_still(launch_id, duty)}
        self._since = {launch_id: self._since.get(launch_id, now) for launch_id in still}
        late = [duty for launch_id, duty in still.items() if now - self._since[launch_id] > self._limit_s]
        for duty in late:
            logger.warning("%s has stood still for longer than %g s: it is ended", duty.name, self._limit_s)
            self._control.end(duty)
        return RoundResult(len(late), LOOK_S)

    def _stands_still(self, launch_id: str, duty: Duty) -> bool:
        """Its numbers are asked for once: to ask the launcher costs more than to ask the kernel."""
        if launch_id not in self._pids:
            with suppress(LauncherError):
                if self._control.look(duty).pid is not None:
                    self._pids[launch_id] = self._numbers(duty)
        still = {pid for pid in self._pids.get(launch_id, ()) if is_standing_still(pid)}
        # Asked again before anything is done: a number may be another's by now.
        return bool(still) and bool(still & self._numbers(duty))

    def _numbers(self, duty: Duty) -> set[int]:
        looked = self._control.look(duty)
        return {pid for pid in (looked.pid, looked.keeper) if pid is not None}


def _is_kept_on(host: str, duty: Duty) -> bool:
    """Whether a launcher of that host has started it, and its end has not been seen."""
    return duty.host == host and duty.is_running and duty.handle is not None and not duty.has_exited
