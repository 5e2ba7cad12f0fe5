"""Bringing everything up, and down again, from whatever is there: a second `up` takes over what runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from towpath.clock import Clock, SystemClock, to_micros
from towpath.supervision.duties_wanted import PEER_KIND
from towpath.supervision.duty import Duty, Wanted
from towpath.supervision.duty_desk import DutyDesk, Overview
from towpath.supervision.duty_state import DutyState
from towpath.supervision.steward import Steward
from towpath.supervision.term import Term

MOVED = "it is to run elsewhere, or in another way"
SETTLED = frozenset({DutyState.READY, DutyState.FAILED, DutyState.STOPPED})


@dataclass(frozen=True, slots=True)
class Ended:
    """How it came out."""

    is_in_time: bool
    overview: Overview


class Signs:
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


class Up:
    """Wishes that are seen to: by the peers, and by this process while there is none."""

    def __init__(
        self, desk: DutyDesk, steward: Callable[[], Steward], me: str, lease_s: float, clock: Clock | None = None
    ) -> None:
        """`me` is the id of this process: a term of its own is not that of a peer. `lease_s` is that of processes."""
        self._desk = desk
        self._steward = steward
        self._me = me
        self._signs = Signs(lease_s, clock or SystemClock())

    def up(
        self,
        wanted: list[Wanted],
        *,
        who: str,
        why: str,
        timeout_s: float,
        show: Callable[[Overview], None],
        is_told: Callable[[], bool] = lambda: False,
    ) -> Ended:
        """Let all this run, until each is ready or failed and a peer sees to it, or this process is told to end."""
        if not self._end_moved(wanted, who, timeout_s, show, is_told):
            return Ended(False, self._desk.overview())
        self._desk.want(wanted, who=who, why=why)
        names = {each.name for each in wanted}
        is_done = self._shown(show, lambda found: is_told() or self._is_up(found, names))
        return Ended(self._work(is_done, timeout_s), self._desk.overview())

    def _end_moved(
        self,
        wanted: list[Wanted],
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
        hosts = {self._desk.host, *(duty.host for duty in peers if _is_living(found, duty))}
        moved = [
            duty.name
            for duty in found.duties
            if duty.is_running
            and duty.host in hosts
            and places.get(duty.name, (duty.host, duty.spec.launcher)) != (duty.host, duty.spec.launcher)
        ]
        if not moved:
            return True
        self._desk.stop(*moved, who=who, why=MOVED)
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
    ) -> Ended:
        """Let nothing run any more (on one host, or on all): the peers last."""
        is_in_time = True
        for names in self._in_turn(host):
            self._desk.stop(*names, who=who, why=why)
            is_done = self._shown(show, lambda found, names=names: _is_down(found, names))  # type: ignore[misc]
            is_in_time = self._work(is_done, timeout_s) and is_in_time
        return Ended(is_in_time, self._desk.overview())

    def _in_turn(self, host: str | None) -> list[list[str]]:
        """Names that are stopped together, in the order in which they are."""
        duties = [duty for duty in self._desk.overview().duties if host is None or duty.host == host]
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
        found = self._desk.overview()
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


def _is_living(found: Overview, duty: Duty) -> bool:
    process = found.processes.get(duty.process_id or "")
    is_alive = process is not None and process.state == "alive" and to_micros(process.lease_until) >= found.now_us
    return is_alive and duty.state is DutyState.READY and duty.is_wanted


def _is_at_rest(duty: Duty) -> bool:
    return duty.state in SETTLED and not duty.is_replaced


def _is_down(found: Overview, names: Collection[str]) -> bool:
    return all(duty.state is DutyState.STOPPED for duty in found.duties if duty.name in names)
