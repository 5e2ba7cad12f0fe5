"""The coordinator: looks at all duties again and again, and does what the watch decides.

It acts only under its term. Every change is a transaction that holds the term from its begin to its end, and what is
done outside the database comes after the commit that says so; a coordinator that dies in between, or is paused, leaves
a row from which the next one goes on:

- A launch is taken before its launcher is told. `starting` without a handle: the launcher is told again; for one
  launch it starts one process, however often it is told.
- A silent process is called dead in its own row first, unless it has beaten meanwhile; then it is ended by force, then
  its death is written down, then what it held is freed. A death without counts of what was freed: it is freed again.
- A process is told to stop after its row says so. `stopping`: it is told again.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from towpath.core import crash
from towpath.core.clock import MICROS, Clock
from towpath.core.crash import CrashPoint
from towpath.core.events import Event, EventKind
from towpath.core.service import RoundResult, Service
from towpath.db.processes import Beat, beats_within
from towpath.errors import IllegalDutyMove, NotCoordinator, UnknownDuty
from towpath.notify.model import Notice, NoticeKind
from towpath.supervision.coordinator.reach import CoordinatorContext
from towpath.supervision.coordinator.watch import (
    Cancel,
    Decision,
    DeclareDead,
    DutyWatch,
    Exit,
    FinishStop,
    GiveUp,
    KillProcess,
    SendPing,
    StartProcess,
    StopProcess,
    Watched,
    WatchTimeouts,
)
from towpath.supervision.duties.launch import ready_event
from towpath.supervision.duties.model import BELL, DeathKind, Duty, DutyState
from towpath.supervision.duties.store import NewDeath
from towpath.supervision.election.messages import Pong
from towpath.supervision.peers.socket import read_address
from towpath.supervision.service import holdings

logger = logging.getLogger(__name__)

PRESSURE = Path("/proc/pressure/cpu")
STRAINED_PERCENT = 40.0  # of the last ten seconds somebody waited for a processor
READ_EVERY_S = 1.0
LATE_S = 0.5
REMEMBERED_S = 10.0
LOOK_S = 0.25
CALM_LOOK_S = 0.5  # while all is ready: what ends or changes rings the bell
AT_REST = (DutyState.READY, DutyState.STOPPED, DutyState.FAILED)
MEMBER_LOOKS_S = 0.1
JANITOR_S = 300.0
FORGOTTEN_AT_ONCE = 500


class Coordinator(Service):
    """Acts while this peer has the term, and rests otherwise."""

    name = "coordinator"

    def __init__(self, parts: CoordinatorContext, term: Callable[[], int], clock: Clock) -> None:
        """`term` says under which term this peer may act; 0: none."""
        super().__init__(parts.events)
        self.longest_pause_s = LOOK_S
        self._parts = parts
        self._term = term
        self._clock = clock
        self._timeouts = _watch_timeouts(parts)
        self._pongs: deque[tuple[str, Pong]] = deque(maxlen=10_000)
        self._bell = parts.database.wakeups.hang(BELL)
        self._watch: DutyWatch | None = None
        self._watched_term = 0
        self._condemned: dict[str, DeclareDead] = {}  # by launch id: being ended by force
        self._told_to_stop: set[str] = set()  # launch ids
        self._strain = Strain()
        self._rest_s = LOOK_S
        self._cleaned_at = float("-inf")

    def pong(self, name: str, pong: Pong) -> None:
        """A process has answered; may be called from any thread."""
        self._pongs.append((name, pong))

    def rest(self, seconds: float) -> None:
        self._bell.wait(seconds)

    def wake(self) -> None:
        self._bell.ring()

    def on_stop(self) -> None:
        self._watch = None

    def run_once(self) -> RoundResult:
        self._bell.clear()
        term = self._term()
        if term == 0:
            self._step_down()
            return RoundResult(0, MEMBER_LOOKS_S)
        try:
            done = self._look(term)
        except NotCoordinator as error:
            logger.warning("%s", error)
            self._step_down()
            return RoundResult(0, MEMBER_LOOKS_S)
        return RoundResult(done, self._rest_s)

    def _step_down(self) -> None:
        self._watch = None
        self._condemned.clear()
        self._told_to_stop.clear()

    def _look(self, term: int) -> int:
        parts, read_at = self._parts, self._clock.monotonic()
        watch = self._watch_of(term, read_at)
        self._strain.note_look(read_at, self._rest_s)
        starting = parts.reach.being_started()  # before it is read: who is not any more has its handle in its row
        snapshot = DutySnapshot.read(parts)
        while self._pongs:
            name, pong = self._pongs.popleft()
            watch.pong(name, pong.nonce, pong.launch)
        now = self._clock.monotonic()
        found = [
            snapshot.watched(duty, is_being_started=duty.launch_id in starting) for duty in snapshot.duties.values()
        ]
        decisions = watch.look(found, read_at, now)
        condemned = self._go_on(term, snapshot)
        for decision in decisions:
            if decision.name not in condemned:
                self._carry_out(term, snapshot, decision)
        self._free(term)
        self._clean(term)
        is_calm = all(duty.state in AT_REST for duty in snapshot.duties.values())
        self._rest_s = CALM_LOOK_S if is_calm else LOOK_S
        return len(decisions)

    def _watch_of(self, term: int, now: float) -> DutyWatch:
        """A new term begins with a new memory: what the last one saw is not ours."""
        if self._watch is None or self._watched_term != term:
            self._watch = DutyWatch(self._timeouts, random.SystemRandom(), now)
            self._watched_term = term
            self._pongs.clear()
        return self._watch

    # What an earlier coordinator, or an earlier look, has begun

    def _go_on(self, term: int, snapshot: DutySnapshot) -> set[str]:
        """Returns the names of those about which nothing more is to be decided."""
        launches = {duty.launch_id for duty in snapshot.duties.values() if duty.launch_id is not None}
        self._condemned = {id: verdict for id, verdict in self._condemned.items() if id in launches}
        self._told_to_stop &= launches
        self._parts.reach.forget(launches)
        condemned = {duty.name for duty in snapshot.duties.values() if duty.launch_id in self._condemned}
        for duty in snapshot.duties.values():
            if duty.name in condemned:
                self._end_condemned(term, snapshot, duty, self._condemned[duty.launch_id or ""])
            elif duty.state is DutyState.STARTING and duty.handle is None and not duty.has_exited:
                self._parts.reach.do("start", duty)
            elif duty.state is DutyState.STOPPING and duty.launch_id not in self._told_to_stop:
                self._tell_to_stop(duty)
            elif snapshot.is_settled(duty, self._parts.settings.settle_s):
                self._settle(term, duty)
        return condemned

    def _end_condemned(self, term: int, snapshot: DutySnapshot, duty: Duty, verdict: DeclareDead) -> None:
        """Its death is written down when nothing of it can be left."""
        if duty.has_exited or self._is_out_of_lease(snapshot, duty):
            self._declare_dead(term, snapshot, duty, verdict)
        else:
            self._parts.reach.do("kill", duty)

    def _is_out_of_lease(self, snapshot: DutySnapshot, duty: Duty) -> bool:
        """On a host that does not answer: a process that could not renew its lease has stopped by itself."""
        if self._parts.reach.is_here(duty):
            return False
        beat = snapshot.beat_of(duty)
        return duty.spec.reports if beat is None else bool(beat.is_dead) or beat.until_us < snapshot.now_us

    def _tell_to_stop(self, duty: Duty) -> None:
        self._told_to_stop.add(duty.launch_id or "")
        self._parts.reach.do("stop", duty)

    def _settle(self, term: int, duty: Duty) -> None:
        parts = self._parts
        with parts.terms.under(term) as tx:
            ready = parts.duties.settle(tx, duty.launch_id or "")
            if ready is not None:
                parts.deaths.note_back(tx, duty.name)
                parts.event_log.record(tx, ready_event(ready))

    # What the watch decides

    def _carry_out(self, term: int, snapshot: DutySnapshot, decision: Decision) -> None:
        duty = snapshot.duties[decision.name]
        try:
            self._do(term, snapshot, duty, decision)
        except (IllegalDutyMove, UnknownDuty) as error:
            logger.debug("somebody was faster: %s", error)

    def _do(self, term: int, snapshot: DutySnapshot, duty: Duty, decision: Decision) -> None:
        match decision:
            case SendPing():
                self._ping(duty, snapshot.beat_of(duty), decision.nonce)
            case StartProcess():
                self._launch(term, duty)
            case StopProcess():
                self._stop_duty(term, duty)
            case KillProcess():
                self._parts.reach.do("kill", duty)
            case FinishStop():
                self._finish(term, duty)
            case DeclareDead():
                self._handle_verdict(term, snapshot, duty, decision)
            case GiveUp():
                self._give_up(term, duty)
            case Cancel():
                with self._parts.terms.under(term) as tx:
                    self._parts.duties.cancel(tx, duty.name)

    def _ping(self, duty: Duty, beat: Beat | None, nonce: int) -> None:
        if beat is not None and beat.ping_address is not None:
            self._parts.ping(duty.name, read_address(beat.ping_address), nonce)

    def _launch(self, term: int, duty: Duty) -> None:
        parts = self._parts
        with parts.terms.under(term) as tx:
            launched = parts.duties.launch(tx, duty.name, str(uuid4()))
            data = {"launch": launched.launch, "host": launched.host, "term": term}
            parts.event_log.record(tx, Event(EventKind.DUTY_LAUNCHED, duty.name, data=data))
            crash.here(CrashPoint.LAUNCH_BEFORE_COMMIT)
        crash.here(CrashPoint.LAUNCH_AFTER_COMMIT)
        parts.reach.do("start", launched)

    def _stop_duty(self, term: int, duty: Duty) -> None:
        parts = self._parts
        with parts.terms.under(term) as tx:
            stopping = parts.duties.tell_to_stop(tx, duty)
            crash.here(CrashPoint.DUTY_STOP_BEFORE_COMMIT)
        crash.here(CrashPoint.DUTY_STOP_AFTER_COMMIT)
        self._tell_to_stop(stopping)

    def _finish(self, term: int, duty: Duty) -> None:
        parts = self._parts
        with parts.terms.under(term) as tx:
            ended = parts.duties.end(tx, duty)
            data = {"launch": duty.launch, "exit_code": duty.exit_code, "signal": duty.exit_signal}
            parts.event_log.record(
                tx,
                Event(
                    EventKind.DUTY_STOPPED, duty.name, who=duty.who, why=duty.why, data={**data, "then": ended.state}
                ),
            )
            crash.here(CrashPoint.DUTY_END_BEFORE_COMMIT)
        crash.here(CrashPoint.DUTY_END_AFTER_COMMIT)
        if duty.process_id is not None:
            parts.freeing.free(duty.process_id)  # it may have been ended by force; nothing happens if it was not

    def _handle_verdict(self, term: int, snapshot: DutySnapshot, duty: Duty, verdict: DeclareDead) -> None:
        if verdict.is_certain:
            self._declare_dead(term, snapshot, duty, verdict)
        elif self._is_too_early(verdict):
            logger.debug("%s is silent, and so is all of this machine", duty.name)
        elif duty.process_id is None or self._mark_silent(term, duty.process_id):
            self._condemned[duty.launch_id or ""] = verdict  # until it is certain that it is gone
            self._parts.reach.do("kill", duty)

    def _is_too_early(self, verdict: DeclareDead) -> bool:
        """On a machine that has no time for its processes a silent one is waited for as long as its lease lasts."""
        is_strained = self._strain.is_strained(self._clock.monotonic())
        return verdict.how is DeathKind.SILENCE and is_strained and verdict.silent_s < self._timeouts.beats_silent_s

    def _mark_silent(self, term: int, process_id: str) -> bool:
        """Ask once more: who has beaten since it was read is left alone. Who is marked leaves, should it wake."""
        parts, silent_us = self._parts, int(self._timeouts.beating_s * MICROS)
        with parts.terms.under(term) as tx, beats_within(parts.database, tx) as beats:
            return parts.processes.mark_silent(beats, process_id, silent_us)

    def _declare_dead(self, term: int, snapshot: DutySnapshot, duty: Duty, verdict: DeclareDead) -> None:
        parts, beat = self._parts, snapshot.beat_of(duty)
        death = _new_death(duty, verdict, beat, term, parts.terms.holder)
        early = duty.early_deaths + 1 if verdict.is_early else duty.early_deaths
        with parts.terms.under(term) as tx:
            next_try_us = parts.database.now() + int(verdict.rest_s * MICROS)
            trouble = _trouble(duty, death)
            parts.duties.die(tx, duty, next_try_us, early, trouble)
            parts.deaths.record(tx, death)
            parts.event_log.record(tx, _death_event(duty, death, verdict, trouble, early))
            crash.here(CrashPoint.DEATH_BEFORE_COMMIT)
        crash.here(CrashPoint.DEATH_AFTER_COMMIT)
        self._condemned.pop(duty.launch_id or "", None)
        self._bell.ring()  # the next start may be due already

    def _give_up(self, term: int, duty: Duty) -> None:
        parts = self._parts
        with parts.terms.under(term) as tx:
            failed = parts.duties.give_up(tx, duty.name)
            title = (
                f"{duty.name} on {duty.host} has died {failed.early_deaths} times before it was ready and is not "
                f"started again: {failed.trouble}"
            )
            data = {"host": duty.host, "launch": duty.launch, "kind": duty.kind}
            parts.teller.tell(tx, Notice(NoticeKind.DUTY_FAILED, duty.name, title, data))

    # Afterwards

    def _free(self, term: int) -> None:
        """What the dead had is others' now, and the record of each death says how much that was."""
        parts = self._parts
        with parts.database.glance() as tx:
            unfreed = parts.deaths.unfreed(tx)
        for death in unfreed:
            held = holdings(parts.database, death.process_id or "")
            messages = parts.freeing.free(death.process_id or "")
            if messages is None:
                continue  # at the next look
            crash.here(CrashPoint.DEATH_FREED)
            with parts.terms.under(term) as tx:
                parts.deaths.note_freed(tx, death.seq, {"messages": messages, **held})

    def _clean(self, term: int) -> None:
        parts, now = self._parts, self._clock.monotonic()
        if parts.settings.retention_s is None or now - self._cleaned_at < JANITOR_S:
            return
        self._cleaned_at = now
        older_us = parts.database.now() - int(parts.settings.retention_s * MICROS)
        with parts.terms.under(term) as tx:
            parts.deaths.forget(tx, older_us, FORGOTTEN_AT_ONCE)


def _watch_timeouts(parts: CoordinatorContext) -> WatchTimeouts:
    """The settings as the watch takes them."""
    settings = parts.settings
    return WatchTimeouts(
        ping_s=settings.ping_s,
        hurry_s=min(0.25, settings.ping_s),
        silent_s=settings.silent_s,
        beating_s=min(2.0, settings.silent_s),
        beats_silent_s=max(parts.lease_s, settings.silent_s),
        start_timeout_s=settings.start_s,
        first_rest_s=settings.retry_least_s,
        longest_rest_s=settings.retry_most_s,
        early_deaths=settings.early_deaths,
    )


def _new_death(duty: Duty, verdict: DeclareDead, beat: Beat | None, term: int, coordinator: str) -> NewDeath:
    # What could not be started has no exit that anybody could have seen.
    is_unstarted = verdict.how is DeathKind.GONE and duty.handle is None
    return NewDeath(
        duty=duty.name,
        launch=duty.launch,
        process_id=duty.process_id,
        host=duty.host,
        pid=None if beat is None else beat.pid,
        how=DeathKind.NEVER_READY if is_unstarted else verdict.how,
        exit_code=duty.exit_code,
        exit_signal=duty.exit_signal,
        trouble=duty.trouble,
        last_beat_us=None if beat is None else beat.beat_us,
        term=term,
        coordinator=coordinator,
    )


def _trouble(duty: Duty, death: NewDeath) -> str:
    """What people read: how it died, and the last that it said."""
    if duty.handle is None:
        return duty.trouble or f"it {death.said}"
    return f"it {death.said}: {duty.trouble}" if duty.trouble else f"it {death.said}"


def _death_event(duty: Duty, death: NewDeath, verdict: DeclareDead, trouble: str, early: int) -> Event:
    data = {
        "launch": duty.launch,
        "process": death.process_id,
        "host": death.host,
        "pid": death.pid,
        "how": death.how,
        "exit_code": death.exit_code,
        "signal": death.exit_signal,
        "silent_s": round(verdict.silent_s, 3),
        "early_deaths": early,
        "again_after_s": round(verdict.rest_s, 3),
    }
    return Event(EventKind.DUTY_DIED, duty.name, why=trouble, data=data)


@dataclass(frozen=True, slots=True)
class DutySnapshot:
    """All duties and beats at one moment, by the database's time."""

    now_us: int
    duties: dict[str, Duty]
    beats: dict[str, Beat]  # by process id

    @classmethod
    def read(cls, parts: CoordinatorContext) -> DutySnapshot:
        """Beats first: a process that registers in between has no beat yet, and not a beat without its duty."""
        with parts.database.beats.glance() as tx:
            beats = {beat.process_id: beat for beat in parts.processes.beats(tx)}
        duties = {duty.name: duty for duty in parts.cache.all()}
        return cls(parts.database.now(), duties, beats)

    def beat_of(self, duty: Duty) -> Beat | None:
        return self.beats.get(duty.process_id or "")

    def watched(self, duty: Duty, *, is_being_started: bool) -> Watched:
        """A duty as the watch takes it. `is_being_started`: its launcher is at it this moment, however slow it is."""
        beat = self.beat_of(duty)
        return Watched(
            name=duty.name,
            state=duty.state,
            launch=duty.launch,
            is_wanted=duty.is_wanted,
            is_replaced=duty.is_replaced,
            reports=duty.spec.reports or beat is not None,
            can_be_pinged=beat is not None and beat.ping_address is not None,
            is_launched=duty.handle is not None or duty.has_exited or is_being_started,
            launched_s=self._age_s(duty.launched_us),
            in_state_s=self._age_s(duty.updated_us),
            grace_s=duty.spec.grace_s,
            ready_s=None if duty.ready_us is None else self._age_s(duty.ready_us),
            beat_s=None if beat is None else self._age_s(beat.beat_us),
            exit=Exit(duty.exit_code, duty.exit_signal) if duty.has_exited else None,
            early_deaths=duty.early_deaths,
            next_try_s=-self._age_s(duty.next_try_us),
        )

    def is_settled(self, duty: Duty, settle_s: float) -> bool:
        """Whether a process that cannot say that it is ready has run for long enough."""
        is_silent_start = duty.state is DutyState.STARTING and not duty.spec.reports and duty.handle is not None
        return is_silent_start and not duty.has_exited and self._age_s(duty.launched_us) >= settle_s

    def _age_s(self, at_us: int | None) -> float:
        return 0.0 if at_us is None else (self.now_us - at_us) / MICROS


class Strain:
    """Whether this machine has too little time for its processes: then silence says less about who is dead.

    The kernel tells, and how late the coordinator's own looks come.
    """

    def __init__(self, pressure: Path = PRESSURE) -> None:
        self._pressure = pressure
        self._read_at = float("-inf")
        self._percent = 0.0
        self._late_at = float("-inf")
        self._looked_at: float | None = None

    def note_look(self, now: float, rest_s: float) -> None:
        """A look that was to come `rest_s` after the one before, or sooner."""
        if self._looked_at is not None and now - self._looked_at > rest_s + LATE_S:
            self._late_at = now
        self._looked_at = now

    def is_strained(self, now: float) -> bool:
        if now - self._read_at >= READ_EVERY_S:
            self._read_at, self._percent = now, self._read()
        return self._percent >= STRAINED_PERCENT or now - self._late_at < REMEMBERED_S

    def _read(self) -> float:
        """As in `some avg10=98.15 avg60=…`; 0 where the kernel does not tell."""
        try:
            first = self._pressure.read_text().split()[1]
            return float(first.removeprefix("avg10="))
        except (OSError, ValueError, IndexError):
            return 0.0
