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
from uuid import uuid4

from towpath import crash
from towpath.clock import MICROS, Clock
from towpath.crash import CrashPoint
from towpath.db.processes import Beat, beats_within
from towpath.errors import IllegalDutyMove, NotCoordinator, UnknownDuty
from towpath.events import Event, EventKind
from towpath.notify.notice import Notice, NoticeKind
from towpath.service import Result, Service
from towpath.supervision.bell import BELL
from towpath.supervision.coordinator_parts import CoordinatorParts
from towpath.supervision.death import NewDeath
from towpath.supervision.death_kind import DeathKind
from towpath.supervision.duty import Duty
from towpath.supervision.duty_state import DutyState
from towpath.supervision.fence import ready_event
from towpath.supervision.host import read_address
from towpath.supervision.messages import Pong
from towpath.supervision.reading import Reading, is_settled, read, watched
from towpath.supervision.strain import Strain
from towpath.supervision.watch import (
    Cancel,
    Decision,
    DeclareDead,
    Finish,
    GiveUp,
    Kill,
    Patience,
    SendPing,
    Start,
    Stop,
    Watch,
)

logger = logging.getLogger(__name__)

LOOK_S = 0.25
CALM_LOOK_S = 0.5  # while all is ready: what ends or changes rings the bell
AT_REST = (DutyState.READY, DutyState.STOPPED, DutyState.FAILED)
MEMBER_LOOKS_S = 0.1
JANITOR_S = 300.0
FORGOTTEN_AT_ONCE = 500


class Coordinator(Service):
    """Acts while this peer has the term, and rests otherwise."""

    name = "coordinator"

    def __init__(self, parts: CoordinatorParts, term: Callable[[], int], clock: Clock) -> None:
        """`term` says under which term this peer may act; 0: none."""
        super().__init__(parts.events)
        self.longest_pause_s = LOOK_S
        self._parts = parts
        self._term = term
        self._clock = clock
        self._patience = patience_of(parts)
        self._pongs: deque[tuple[str, Pong]] = deque(maxlen=10_000)
        self._bell = parts.database.bells.hang(BELL)
        self._watch: Watch | None = None
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

    def run_once(self) -> Result:
        self._bell.clear()
        term = self._term()
        if term == 0:
            self._step_down()
            return Result(0, MEMBER_LOOKS_S)
        try:
            done = self._look(term)
        except NotCoordinator as error:
            logger.warning("%s", error)
            self._step_down()
            return Result(0, MEMBER_LOOKS_S)
        return Result(done, self._rest_s)

    def _step_down(self) -> None:
        self._watch = None
        self._condemned.clear()
        self._told_to_stop.clear()

    def _look(self, term: int) -> int:
        parts, read_at = self._parts, self._clock.monotonic()
        watch = self._watch_of(term, read_at)
        self._strain.note_look(read_at, self._rest_s)
        starting = parts.reach.being_started()  # before it is read: who is not any more has its handle in its row
        reading = read(parts.database, parts.cache, parts.processes)
        self._take_pongs(watch)
        now = self._clock.monotonic()
        found = [
            watched(reading, duty, is_being_started=duty.launch_id in starting) for duty in reading.duties.values()
        ]
        decisions = watch.look(found, read_at, now)
        condemned = self._go_on(term, reading)
        for decision in decisions:
            if decision.name not in condemned:
                self._carry_out(term, reading, decision)
        self._free(term)
        self._clean(term)
        is_calm = all(duty.state in AT_REST for duty in reading.duties.values())
        self._rest_s = CALM_LOOK_S if is_calm else LOOK_S
        return len(decisions)

    def _watch_of(self, term: int, now: float) -> Watch:
        """A new term begins with a new memory: what the last one saw is not ours."""
        if self._watch is None or self._watched_term != term:
            self._watch = Watch(self._patience, random.SystemRandom(), now)
            self._watched_term = term
            self._pongs.clear()
        return self._watch

    def _take_pongs(self, watch: Watch) -> None:
        while self._pongs:
            name, pong = self._pongs.popleft()
            watch.pong(name, pong.nonce, pong.launch)

    # What an earlier coordinator, or an earlier look, has begun

    def _go_on(self, term: int, reading: Reading) -> set[str]:
        """Returns the names of those about which nothing more is to be decided."""
        launches = {duty.launch_id for duty in reading.duties.values() if duty.launch_id is not None}
        self._condemned = {id: verdict for id, verdict in self._condemned.items() if id in launches}
        self._told_to_stop &= launches
        self._parts.reach.forget(launches)
        condemned = {duty.name for duty in reading.duties.values() if duty.launch_id in self._condemned}
        for duty in reading.duties.values():
            if duty.name in condemned:
                self._end_condemned(term, reading, duty, self._condemned[duty.launch_id or ""])
            elif duty.state is DutyState.STARTING and duty.handle is None and not duty.has_exited:
                self._parts.reach.do("start", duty)
            elif duty.state is DutyState.STOPPING and duty.launch_id not in self._told_to_stop:
                self._tell_to_stop(duty)
            elif is_settled(reading, duty, self._parts.settings):
                self._settle(term, duty)
        return condemned

    def _end_condemned(self, term: int, reading: Reading, duty: Duty, verdict: DeclareDead) -> None:
        """Its death is written down when nothing of it can be left."""
        if duty.has_exited or self._is_out_of_lease(reading, duty):
            self._declare_dead(term, reading, duty, verdict)
        else:
            self._parts.reach.do("kill", duty)

    def _is_out_of_lease(self, reading: Reading, duty: Duty) -> bool:
        """On a host that does not answer: a process that could not renew its lease has stopped by itself."""
        if self._parts.reach.is_here(duty):
            return False
        beat = reading.beat_of(duty)
        return duty.spec.reports if beat is None else bool(beat.is_dead) or beat.until_us < reading.now_us

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

    def _carry_out(self, term: int, reading: Reading, decision: Decision) -> None:
        duty = reading.duties[decision.name]
        try:
            self._do(term, reading, duty, decision)
        except (IllegalDutyMove, UnknownDuty) as error:
            logger.debug("somebody was faster: %s", error)

    def _do(self, term: int, reading: Reading, duty: Duty, decision: Decision) -> None:
        match decision:
            case SendPing():
                self._ping(duty, reading.beat_of(duty), decision.nonce)
            case Start():
                self._launch(term, duty)
            case Stop():
                self._stop_duty(term, duty)
            case Kill():
                self._parts.reach.do("kill", duty)
            case Finish():
                self._finish(term, duty)
            case DeclareDead():
                self._judge(term, reading, duty, decision)
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

    def _judge(self, term: int, reading: Reading, duty: Duty, verdict: DeclareDead) -> None:
        if verdict.is_certain:
            self._declare_dead(term, reading, duty, verdict)
        elif self._is_too_early(verdict):
            logger.debug("%s is silent, and so is all of this machine", duty.name)
        elif duty.process_id is None or self._mark_silent(term, duty.process_id):
            self._condemned[duty.launch_id or ""] = verdict  # until it is certain that it is gone
            self._parts.reach.do("kill", duty)

    def _is_too_early(self, verdict: DeclareDead) -> bool:
        """On a machine that has no time for its processes a silent one is waited for as long as its lease lasts."""
        is_strained = self._strain.is_strained(self._clock.monotonic())
        return verdict.how is DeathKind.SILENCE and is_strained and verdict.silent_s < self._patience.beats_silent_s

    def _mark_silent(self, term: int, process_id: str) -> bool:
        """Ask once more: who has beaten since it was read is left alone. Who is marked leaves, should it wake."""
        parts, silent_us = self._parts, int(self._patience.beating_s * MICROS)
        with parts.terms.under(term) as tx, beats_within(parts.database, tx) as beats:
            return parts.processes.mark_silent(beats, process_id, silent_us)

    def _declare_dead(self, term: int, reading: Reading, duty: Duty, verdict: DeclareDead) -> None:
        parts, beat = self._parts, reading.beat_of(duty)
        death = new_death(duty, verdict, beat, term, parts.terms.holder)
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
            held = self._held(death.process_id or "")
            messages = parts.freeing.free(death.process_id or "")
            if messages is None:
                continue  # at the next look
            crash.here(CrashPoint.DEATH_FREED)
            with parts.terms.under(term) as tx:
                parts.deaths.note_freed(tx, death.seq, {"messages": messages, **held})

    def _held(self, process_id: str) -> dict[str, int]:
        with self._parts.database.glance() as tx:
            return self._parts.freeing.held(tx, process_id)

    def _clean(self, term: int) -> None:
        parts, now = self._parts, self._clock.monotonic()
        if parts.settings.retention_s is None or now - self._cleaned_at < JANITOR_S:
            return
        self._cleaned_at = now
        older_us = parts.database.now() - int(parts.settings.retention_s * MICROS)
        with parts.terms.under(term) as tx:
            parts.deaths.forget(tx, older_us, FORGOTTEN_AT_ONCE)


def patience_of(parts: CoordinatorParts) -> Patience:
    """The settings as the watch takes them."""
    settings = parts.settings
    return Patience(
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


def new_death(duty: Duty, verdict: DeclareDead, beat: Beat | None, term: int, coordinator: str) -> NewDeath:
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
