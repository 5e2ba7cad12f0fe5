"""Bringing everything up, and down again, from whatever is there: a second `up` takes over what runs.

While no peer coordinates, a `Steward` in this process does: before the first peer is there, and after the last one has
gone. It takes the term only when nobody has it, and gives it back at once, so that it is never in a peer's way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from towpath.core.clock import Clock, SystemClock, to_micros
from towpath.core.service import Service
from towpath.errors import DatabaseError
from towpath.supervision.coordinator.coordinator import Coordinator
from towpath.supervision.coordinator.reach import CoordinatorContext
from towpath.supervision.duties.model import BELL, Duty, DutyState, NewDuty
from towpath.supervision.duties.plan import PEER_KIND
from towpath.supervision.service import DutyService, Overview
from towpath.supervision.term import Term

logger = logging.getLogger(__name__)

MOVED = "it is to run elsewhere, or in another way"
SETTLED = frozenset({DutyState.READY, DutyState.FAILED, DutyState.STOPPED})
STEP_S = 0.1
RENEWED_PART = 3  # of a lease


class Up:
    """Brings duties up and down. Peers carry it out, and this process does while there is no peer."""

    def __init__(
        self, duties: DutyService, steward: Callable[[], Steward], me: str, lease_s: float, clock: Clock | None = None
    ) -> None:
        """`me` is the id of this process: a term of its own is not that of a peer. `lease_s` is that of processes."""
        self._duties = duties
        self._steward = steward
        self._me = me
        self._signs = SignsOfLife(lease_s, clock or SystemClock())

    def up(
        self,
        wanted: list[NewDuty],
        *,
        who: str,
        why: str,
        timeout_s: float,
        show: Callable[[Overview], None],
        is_told: Callable[[], bool] = lambda: False,
    ) -> UpOutcome:
        """Let all this run, until each is ready or failed and a peer sees to it, or this process is told to end."""
        if not self._end_moved(wanted, who, timeout_s, show, is_told):
            return UpOutcome(False, self._duties.overview())
        self._duties.want(wanted, who=who, why=why)
        names = {each.name for each in wanted}
        is_done = self._shown(show, lambda found: is_told() or self._is_up(found, names))
        return UpOutcome(self._work(is_done, timeout_s), self._duties.overview())

    def _end_moved(
        self,
        wanted: list[NewDuty],
        who: str,
        timeout_s: float,
        show: Callable[[Overview], None],
        is_told: Callable[[], bool],
    ) -> bool:
        """Stop what is to run on another host, or in another way, where it runs now: its row will not know that then.

        On a host where nobody is left to do it, nothing can be stopped; what runs there leaves by itself if it can.
        """
        found = self._look()
        places = {each.name: (each.host, each.spec.launcher) for each in wanted if each.kind != PEER_KIND}
        peers = (duty for duty in found.duties if duty.kind == PEER_KIND)
        hosts = {self._duties.host, *(duty.host for duty in peers if _is_living(found, duty))}
        moved = [
            duty.name
            for duty in found.duties
            if duty.is_running
            and duty.host in hosts
            and places.get(duty.name, (duty.host, duty.spec.launcher)) != (duty.host, duty.spec.launcher)
        ]
        if not moved:
            return True
        self._duties.stop(*moved, who=who, why=MOVED)
        return self._work(self._shown(show, lambda found: is_told() or _is_down(found, moved)), timeout_s)

    def stay(self, is_told: Callable[[], bool], timeout_s: float = float("inf")) -> None:
        """Be there in case that all peers are gone."""
        self._work(is_told, timeout_s)

    def down(
        self,
        *,
        who: str,
        why: str,
        timeout_s: float,
        show: Callable[[Overview], None],
        host: str | None = None,
    ) -> UpOutcome:
        """Let nothing run any more (on one host, or on all): the peers last."""
        is_in_time = True
        for names in self._in_turn(host):
            self._duties.stop(*names, who=who, why=why)
            is_done = self._shown(show, lambda found, names=names: _is_down(found, names))  # type: ignore[misc]
            is_in_time = self._work(is_done, timeout_s) and is_in_time
        return UpOutcome(is_in_time, self._duties.overview())

    def _in_turn(self, host: str | None) -> list[list[str]]:
        """Names that are stopped together, in the order in which they are."""
        duties = [duty for duty in self._duties.overview().duties if host is None or duty.host == host]
        duties.sort(key=lambda duty: -duty.spec.order)
        return [[duty.name for duty in group] for _, group in groupby(duties, key=lambda duty: duty.spec.order)]

    def _shown(self, show: Callable[[Overview], None], is_so: Callable[[Overview], bool]) -> Callable[[], bool]:
        def look() -> bool:
            found = self._look()
            show(found)
            return is_so(found)

        return look

    def _work(self, is_done: Callable[[], bool], timeout_s: float) -> bool:
        return self._steward().work(is_done, timeout_s, lambda: not self._has_living_peer())

    def _look(self) -> Overview:
        found = self._duties.overview()
        self._signs.look(found)
        return found

    def _is_up(self, found: Overview, names: Collection[str]) -> bool:
        is_seen_to = self._signs.is_coordinated(found, self._me)
        return is_seen_to and all(_is_at_rest(duty) for duty in found.duties if duty.name in names)

    def _has_living_peer(self) -> bool:
        """Whether a peer is there that could see to everything."""
        found = self._look()
        peers = [duty for duty in found.duties if duty.kind == PEER_KIND and _is_living(found, duty)]
        return any(self._signs.is_living(duty.process_id or "") for duty in peers)


@dataclass(frozen=True, slots=True)
class UpOutcome:
    """How `up` or `down` ended."""

    is_in_time: bool
    overview: Overview


class SignsOfLife:
    """Who lives, by what has changed since we look: what a row says may be of the dead, or of another clock."""

    def __init__(self, lease_s: float, clock: Clock) -> None:
        self._lease_s = lease_s
        self._clock = clock
        self._begun_at = clock.monotonic()
        self._beats: dict[str, tuple[datetime, float]] = {}  # by process id: its last beat, and when we saw that
        self._renewed = 0
        self._term: Term | None = None

    def look(self, found: Overview) -> None:
        """Note what has changed."""
        now = self._clock.monotonic()
        for process in found.processes.values():
            if self._beats.get(process.id, (None, 0.0))[0] != process.beat_at:
                self._beats[process.id] = process.beat_at, now
        if self._term is not None and self._term.until_us != found.term.until_us:
            self._renewed = found.term.number
        self._term = found.term

    def is_coordinated(self, found: Overview, me: str) -> bool:
        """Whether another has taken or renewed the term that lasts, while we looked."""
        return found.has_coordinator and found.term.holder != me and found.term.number == self._renewed

    def is_living(self, process_id: str) -> bool:
        """Whether it has beaten within the last lease, as far as we can know."""
        return self._clock.monotonic() - self._beats.get(process_id, (None, self._begun_at))[1] <= self._lease_s


class Steward:
    """A coordinator without an election."""

    def __init__(self, parts: CoordinatorContext, local: Sequence[Service], clock: Clock) -> None:
        """`local` is what every peer does for its own host."""
        self._parts = parts
        self._local = local
        self._clock = clock
        self._term = 0
        self._is_away = False
        self._held_until = float("-inf")
        self._coordinator = Coordinator(parts, self._held, clock)

    def work(self, is_done: Callable[[], bool], timeout_s: float, is_needed: Callable[[], bool]) -> bool:
        """Keep duties, where that is needed, until something is so; false when the time is over before."""
        deadline = self._clock.monotonic() + timeout_s
        wakeup = self._parts.database.wakeups.hang(BELL)
        for service in self._local:
            service.start()
        try:
            while not self._step(is_done, is_needed):
                if self._clock.monotonic() > deadline:
                    return False
                wakeup.wait(STEP_S)
                wakeup.clear()
            return True
        finally:
            self._parts.database.wakeups.take_down(BELL, wakeup)
            for service in self._local:
                service.stop()
            self._let_go()
            self._parts.reach.close()

    def _step(self, is_done: Callable[[], bool], is_needed: Callable[[], bool]) -> bool:
        """Whether it is done. A database that is away is waited for."""
        try:
            if is_done():
                return True
            if not is_needed():
                self._let_go()
            elif self._hold():
                self._coordinator.run_once()
            self._is_away = False
        except DatabaseError as error:
            if not self._is_away:
                logger.warning("%s; waiting for it", error)
            self._is_away = True
        return False

    def _held(self) -> int:
        return self._term if self._clock.monotonic() < self._held_until else 0

    def _hold(self) -> bool:
        """Whether this process coordinates now."""
        lease_s, now = self._parts.settings.lease_s, self._clock.monotonic()
        if now < self._held_until - lease_s * (1 - 1 / RENEWED_PART):
            return True
        terms = self._parts.terms
        if self._held() and terms.renew(self._term):
            self._held_until = now + lease_s
        elif (term := terms.take()) is not None:
            self._term, self._held_until = term, now + lease_s
        else:
            self._held_until = float("-inf")
        return self._held() > 0

    def _let_go(self) -> None:
        if self._held():
            with suppress(DatabaseError):  # then it ends by itself
                self._parts.terms.release(self._term)
        self._held_until = float("-inf")


def _is_living(found: Overview, duty: Duty) -> bool:
    process = found.processes.get(duty.process_id or "")
    is_alive = process is not None and process.state == "alive" and to_micros(process.lease_until) >= found.now_us
    return is_alive and duty.state is DutyState.READY and duty.is_wanted


def _is_at_rest(duty: Duty) -> bool:
    return duty.state in SETTLED and not duty.is_replaced


def _is_down(found: Overview, names: Collection[str]) -> bool:
    return all(duty.state is DutyState.STOPPED for duty in found.duties if duty.name in names)
