"""Ends processes of this host that stand still (SIGSTOP, a debugger) for longer than two leases.

Usually the coordinator is faster: such a process is silent. But one that stands still in the middle of a transaction
keeps its locks, on SQLite the only one that there is; then no coordinator can act, and no peer can take the term. So
every peer does this by itself, without the database: what has stood still for a whole lease is dead by the rules of
leases, and to end a process by force is safe at any moment.

The same goes for a keeper: while it stands still, nobody sees that its process has ended.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from towpath.clock import Clock
from towpath.db.machine import is_standing_still
from towpath.errors import DatabaseError, LauncherError
from towpath.events import Events
from towpath.service import Result, Service
from towpath.supervision.duty import Duty
from towpath.supervision.duty_cache import DutyCache
from towpath.supervision.hands import Hands

logger = logging.getLogger(__name__)

LOOK_S = 2.0
LEASES = 2  # so that a coordinator that can act is faster, and says why


class StoppedWatch(Service):
    """Looks at the processes of this host's duties, as far as they are known."""

    name = "stopped"

    def __init__(
        self, duties: DutyCache, host: str, hands: Hands, lease_s: float, events: Events, clock: Clock
    ) -> None:
        super().__init__(events)
        self._host = host
        self._hands = hands
        self._limit_s = LEASES * lease_s
        self._clock = clock
        self._duties = duties
        self._pids: dict[str, set[int]] = {}  # by launch id: its process and what keeps it
        self._since: dict[str, float] = {}  # launch id: stands still since

    def run_once(self) -> Result:
        with suppress(DatabaseError):  # then those that were known last
            self._duties.all()
        now = self._clock.monotonic()
        mine = {duty.launch_id or "": duty for duty in self._duties.last if self._is_mine(duty)}
        self._pids = {launch_id: pids for launch_id, pids in self._pids.items() if launch_id in mine}
        still = {launch_id: duty for launch_id, duty in mine.items() if self._stands_still(launch_id, duty)}
        self._since = {launch_id: self._since.get(launch_id, now) for launch_id in still}
        late = [duty for launch_id, duty in still.items() if now - self._since[launch_id] > self._limit_s]
        for duty in late:
            logger.warning("%s has stood still for longer than %g s: it is ended", duty.name, self._limit_s)
            self._hands.end(duty)
        return Result(len(late), LOOK_S)

    def _is_mine(self, duty: Duty) -> bool:
        return duty.host == self._host and duty.is_running and duty.handle is not None and not duty.has_exited

    def _stands_still(self, launch_id: str, duty: Duty) -> bool:
        """Its numbers are asked for once: to ask the launcher costs more than to ask the kernel."""
        if launch_id not in self._pids:
            with suppress(LauncherError):
                if self._hands.look(duty).pid is not None:
                    self._pids[launch_id] = self._numbers(duty)
        still = {pid for pid in self._pids.get(launch_id, ()) if is_standing_still(pid)}
        # Asked again before anything is done: a number may be another's by now.
        return bool(still) and bool(still & self._numbers(duty))

    def _numbers(self, duty: Duty) -> set[int]:
        looked = self._hands.look(duty)
        return {pid for pid in (looked.pid, looked.keeper) if pid is not None}
