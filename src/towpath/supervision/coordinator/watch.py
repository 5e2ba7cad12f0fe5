"""What the coordinator decides about every duty, as pure code: values in, decisions out.

A process proves that it lives by a beat in the database or by the answer to a ping; an answer counts for the moment of
its question. Dead is who has ended for certain, and who has proved nothing for `silent_s`. Three rules keep the living
safe:

1. Whoever's beat is younger than `beating_s` is never declared dead for its silence.
2. Who has never answered a ping, or goes on beating without answering, has a network in its way: it is judged by its
   beats alone, after `beats_silent_s`.
3. A coordinator that has not looked for a while (it was paused, or the database was away) has missed signs of life. It
   declares nobody silent before it has watched for a whole `silent_s` again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from towpath.supervision.duties.model import DeathKind, DutyState

MARGIN_S = 0.001  # sums of float seconds
FUTURE_S = 1.0  # beats are read before the time is: one that is younger by more than this is of another time
WELL = 1.5  # so many times `ping_s` may pass between the pings of one that beats; answers count as regular up to 2


@dataclass(frozen=True, slots=True)
class WatchTimeouts:
    """How long the coordinator waits for signs of life, and between starts."""

    ping_s: float = 1.0  # between pings that are answered, of one that does not beat
    hurry_s: float = 0.25  # until a ping that is not answered is sent again
    silent_s: float = 2.5  # without any sign of life: dead
    beating_s: float = 2.0  # a beat that is younger saves, whatever else is missed
    beats_silent_s: float = 10.0  # the same as `silent_s` for one that is judged by its beats alone
    blind_s: float = 1.0  # a pause between two looks after which silence is counted anew
    launch_timeout_s: float = 5.0  # a launch of which no launcher knows anything
    start_timeout_s: float = 60.0  # a process that has not registered since its launch
    first_rest_s: float = 0.5  # after the first death before it was ready; doubled by each further one
    longest_rest_s: float = 30.0
    young_s: float = 5.0  # one that dies so soon after it was ready
    young_rest_s: float = 1.0  # rests that long
    early_deaths: int = 5  # so many in a row before it was ready: given up
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if self.silent_s < self.beating_s or self.beats_silent_s < self.silent_s:
            raise ValueError("beating_s, silent_s and beats_silent_s must not fall: who beats lives")


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended, as its launcher saw it: a code, or a signal; neither when nobody saw it."""

    code: int | None = None
    signal: int | None = None

    @property
    def how(self) -> DeathKind:
        if self.signal is not None:
            return DeathKind.SIGNAL
        return DeathKind.GONE if self.code is None else DeathKind.EXIT


@dataclass(frozen=True, slots=True)
class Watched:
    """A duty as it was just read; ages are seconds by the database's time at that moment."""

    name: str
    state: DutyState
    launch: int  # number of the present launch; 0: never launched
    is_wanted: bool = True
    is_replaced: bool = False  # this launch is to make way for another
    reports: bool = True  # it registers and beats; otherwise only its end can be seen
    can_be_pinged: bool = False  # it has told its address
    is_launched: bool = True  # a launcher has taken the launch
    launched_s: float = 0.0  # age of the launch
    in_state_s: float = 0.0  # since the last move
    grace_s: float = 15.0  # for it to end when told
    ready_s: float | None = None  # how long it has been ready; none: it is not
    beat_s: float | None = None  # age of the last beat of this launch; none: it has not registered
    exit: Exit | None = None  # this launch has ended
    early_deaths: int = 0
    next_try_s: float = 0.0  # until then it rests


@dataclass(frozen=True, slots=True)
class DutyDecision:
    """What is to be done about one launch of a duty. The class says what."""

    name: str
    launch: int


class StartProcess(DutyDecision):
    """Take a launch after this one, and tell the launcher."""


class StopProcess(DutyDecision):
    """Tell the process to end, and kill it after its grace."""


class KillProcess(DutyDecision):
    """It was told to stop, and its grace is over: make sure that nothing of this launch is left."""


class FinishStop(DutyDecision):
    """The process that was told to stop has ended."""


class Cancel(DutyDecision):
    """It rests or waits, and is not wanted any more."""


@dataclass(frozen=True, slots=True)
class SendPing(DutyDecision):
    """Ask a process whether it lives."""

    nonce: int


@dataclass(frozen=True, slots=True)
class DeclareDead(DutyDecision):
    """A process has died: free what it held, and start it again after `rest_s`.

    Unless that is certain, a beat may have come since the duties were read: whoever declares it asks once more, and
    only then kills what is left.
    """

    how: DeathKind
    exit: Exit
    is_early: bool  # it died before it was ready, by its own doing
    rest_s: float
    silent_s: float  # since its last sign of life

    @property
    def is_certain(self) -> bool:
        """Whether its end was seen, and not only inferred."""
        return self.how in (DeathKind.EXIT, DeathKind.SIGNAL, DeathKind.GONE)


@dataclass(frozen=True, slots=True)
class GiveUp(DutyDecision):
    """It has died too often before it was ready: failed, and somebody is told."""

    early_deaths: int


Decision = SendPing | StartProcess | StopProcess | KillProcess | FinishStop | DeclareDead | GiveUp | Cancel


@dataclass(slots=True)
class _Signs:
    """What is known of one launch: when it was alive, and which pings are out."""

    launch: int
    since: float  # no silence is counted from before
    beat_at: float | None = None
    pong_at: float | None = None
    left_at: float | None = None  # who had registered has ended in order, and another may
    ask_at: float = 0.0  # the next ping is due
    pings: dict[int, float] = field(default_factory=dict)

    @property
    def alive_at(self) -> float:
        return max(self.since, self.beat_at or self.since, self.pong_at or self.since)


class DutyWatch:
    """The coordinator's memory of signs of life. A new coordinator begins with a new one."""

    def __init__(self, timeouts: WatchTimeouts, rng: random.Random, now: float) -> None:
        self._timeouts = timeouts
        self._rng = rng
        self._looked_at = now
        self._signs: dict[str, _Signs] = {}

    def pong(self, name: str, nonce: int, launch: int) -> bool:
        """An answer to a ping; false when it answers nothing that was asked of this launch."""
        signs = self._signs.get(name)
        if signs is None or signs.launch != launch or nonce not in signs.pings:
            return False
        asked_at = signs.pings.pop(nonce)
        signs.pong_at = max(signs.pong_at or asked_at, asked_at)
        # Spread, so that not all are asked in the same moment for ever.
        signs.ask_at = max(signs.ask_at, asked_at + self._spread(self._timeouts.ping_s))
        return True

    def look(self, duties: Iterable[Watched], read_at: float, now: float) -> list[Decision]:
        """Decide about all duties, as they were read at `read_at`."""
        if now - self._looked_at > self._timeouts.blind_s:
            self.was_blind(now)
        self._looked_at = now
        decisions: list[Decision] = []
        known = self._signs
        self._signs = {}
        for duty in duties:
            signs = known.get(duty.name)
            if signs is None or signs.launch != duty.launch:
                signs = _Signs(duty.launch, now)
            self._signs[duty.name] = signs
            self._note_beat(duty, signs, read_at)
            decisions += self._decide(duty, signs, read_at, now)
        return decisions

    def was_blind(self, now: float) -> None:
        """Signs of life may have been missed until now: count all silence anew."""
        for signs in self._signs.values():
            signs.since = now
            signs.ask_at = now

    def _note_beat(self, duty: Watched, signs: _Signs, read_at: float) -> None:
        if duty.beat_s is not None and duty.beat_s < -FUTURE_S:
            return  # the clock was set back since: nobody knows when that was, and the next beat comes soon
        if duty.beat_s is not None:
            at = read_at - max(0.0, duty.beat_s)
            signs.beat_at = max(signs.beat_at or at, at)
        elif signs.beat_at is not None:  # a script may run one command after another; the next has to show itself
            signs.beat_at = signs.pong_at = None
            signs.left_at = read_at

    def _decide(self, duty: Watched, signs: _Signs, read_at: float, now: float) -> list[Decision]:
        match duty.state:
            case DutyState.WAITING:
                return [StartProcess(duty.name, duty.launch) if duty.is_wanted else Cancel(duty.name, duty.launch)]
            case DutyState.DOWN:
                return self._decide_down(duty)
            case DutyState.STOPPING:
                return self._decide_stopping(duty)
            case DutyState.STARTING | DutyState.READY:
                return self._decide_running(duty, signs, read_at, now)
        return []

    def _decide_down(self, duty: Watched) -> list[Decision]:
        if not duty.is_wanted:
            return [Cancel(duty.name, duty.launch)]
        if duty.early_deaths >= self._timeouts.early_deaths:
            return [GiveUp(duty.name, duty.launch, duty.early_deaths)]
        # One that would rest longer than any was told to had its time before the clock was set back.
        is_due = duty.next_try_s <= 0 or duty.next_try_s > 2 * self._timeouts.longest_rest_s
        return [StartProcess(duty.name, duty.launch)] if is_due else []

    def _decide_stopping(self, duty: Watched) -> list[Decision]:
        if duty.exit is not None:
            return [FinishStop(duty.name, duty.launch)]
        # Whoever told it to stop may have died before the launcher heard of it.
        return (
            [KillProcess(duty.name, duty.launch)]
            if duty.in_state_s > duty.grace_s + self._timeouts.launch_timeout_s
            else []
        )

    def _decide_running(self, duty: Watched, signs: _Signs, read_at: float, now: float) -> list[Decision]:
        if duty.exit is not None:
            return [self._dead(duty, signs, duty.exit.how, now)]
        if not duty.is_wanted or duty.is_replaced:
            return [StopProcess(duty.name, duty.launch)]
        if now - read_at <= self._timeouts.hurry_s and (how := self._silence(duty, signs, now)) is not None:
            return [self._dead(duty, signs, how, now)]
        return self._ping(duty, signs, now) if duty.can_be_pinged else []

    def _silence(self, duty: Watched, signs: _Signs, now: float) -> DeathKind | None:
        """How it has died, if it is to be taken for dead without an exit."""
        if not duty.is_launched:
            return DeathKind.NEVER_READY if self._is_over(duty, signs, self._timeouts.launch_timeout_s, now) else None
        if not duty.reports:
            return None
        if signs.beat_at is None and signs.pong_at is None:
            how = DeathKind.NEVER_READY if duty.ready_s is None else DeathKind.SILENCE  # its beats are forgotten
            return how if self._is_over(duty, signs, self._timeouts.start_timeout_s, now) else None
        return DeathKind.SILENCE if self._is_silent(signs, now) else None

    def _is_over(self, duty: Watched, signs: _Signs, timeout_s: float, now: float) -> bool:
        if signs.left_at is not None:
            return now - signs.left_at > timeout_s
        return duty.launched_s > timeout_s and now - signs.since > self._timeouts.blind_s

    def _is_silent(self, signs: _Signs, now: float) -> bool:
        timeouts = self._timeouts
        if signs.beat_at is not None and now - signs.beat_at <= timeouts.beating_s + MARGIN_S:
            return False
        limit_s = timeouts.silent_s if self._answers(signs) else timeouts.beats_silent_s
        return now - signs.alive_at > limit_s

    def _answers(self, signs: _Signs) -> bool:
        """Whether pings reach it: it has answered, and its answers did not stop while it went on beating."""
        if signs.pong_at is None:
            return False
        return signs.beat_at is None or signs.beat_at - signs.pong_at <= 2 * self._timeouts.ping_s

    def _ping(self, duty: Watched, signs: _Signs, now: float) -> list[Decision]:
        if now < signs.ask_at or self._is_well(signs, now):
            return []
        nonce = self._rng.getrandbits(63)
        signs.pings = {n: at for n, at in signs.pings.items() if now - at < self._timeouts.silent_s}
        signs.pings[nonce] = now
        signs.ask_at = now + self._timeouts.hurry_s
        return [SendPing(duty.name, duty.launch, nonce)]

    def _is_well(self, signs: _Signs, now: float) -> bool:
        """It has beaten just now, and answered not long ago: with hundreds of processes, pings are what costs."""
        if signs.beat_at is None or signs.pong_at is None:
            return False
        return now - min(signs.beat_at, signs.pong_at) < WELL * self._timeouts.ping_s

    def _dead(self, duty: Watched, signs: _Signs, how: DeathKind, now: float) -> DeclareDead:
        is_early = duty.ready_s is None and duty.is_launched
        exit_ = duty.exit or Exit()
        silent_s = max(0.0, now - signs.alive_at)
        return DeclareDead(duty.name, duty.launch, how, exit_, is_early, self._rest_s(duty, is_early), silent_s)

    def _rest_s(self, duty: Watched, is_early: bool) -> float:
        timeouts = self._timeouts
        if is_early:
            rest_s = min(timeouts.first_rest_s * 2.0 ** min(duty.early_deaths, 20), timeouts.longest_rest_s)
        elif duty.ready_s is not None and duty.ready_s < timeouts.young_s:
            rest_s = timeouts.young_rest_s
        else:
            return 0.0
        return self._spread(rest_s)

    def _spread(self, seconds: float) -> float:
        part = self._timeouts.jitter
        return seconds * self._rng.uniform(1 - part, 1 + part)
