"""Sees at once when a process of this host ends, and writes it down. Every peer does this for its own host."""

from __future__ import annotations

from towpath.events import Events
from towpath.service import Result, Service
from towpath.supervision.duty import Duty
from towpath.supervision.duty_cache import DutyCache
from towpath.supervision.hands import Hands

WAIT_S = 0.4  # until it looks whether there are new ones


class ExitWatch(Service):
    """Waits for the end of all that one launcher has started on this host; another that is away holds nobody up."""

    def __init__(self, duties: DutyCache, host: str, hands: Hands, launcher: str, events: Events) -> None:
        super().__init__(events)
        self.name = f"exits of {launcher}"
        self._host = host
        self._hands = hands
        self._launcher = launcher
        self._duties = duties

    def run_once(self) -> Result:
        running = {duty.handle or "": duty for duty in self._duties.all() if self._is_mine(duty)}
        if not running:
            return Result(0, WAIT_S)
        ended = self._hands.wait(running, self._launcher, WAIT_S)
        for handle in ended:
            self._hands.note_exit(running[handle], self._hands.look(running[handle]))
        return Result(len(ended), 0)

    def _is_mine(self, duty: Duty) -> bool:
        is_here = duty.host == self._host and duty.spec.launcher == self._launcher
        return is_here and duty.is_running and duty.handle is not None and not duty.has_exited
