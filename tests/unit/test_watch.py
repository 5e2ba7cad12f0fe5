"""What the coordinator decides about duties: who is dead, who is not, and when the next start is due."""

from __future__ import annotations

import random
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from towpath.supervision.duties.model import DeathKind, DutyState

PATIENCE = WatchTimeouts(jitter=0.0)
READY = Watched("orders", DutyState.READY, 3, can_be_pinged=True, ready_s=100.0, beat_s=0.5, launched_s=110.0)
STARTING = Watched("orders", DutyState.STARTING, 3, launched_s=1.0)
DOWN = Watched("orders", DutyState.DOWN, 3)


class Watching:
    """A watch that looks every quarter of a second, and a process that beats and answers as it is told."""

    def __init__(self, duty: Watched = READY) -> None:
        self.pings = 0
        self.now = 1000.0
        self.watch = DutyWatch(PATIENCE, random.Random(1), self.now)
        self.duty = duty
        self.beat_at: float | None = None if duty.beat_s is None else self.now - duty.beat_s

    def look(self, step_s: float = 0.25) -> list[Decision]:
        self.now += step_s
        beat_s = None if self.beat_at is None else self.now - self.beat_at
        return self.watch.look([replace(self.duty, beat_s=beat_s)], self.now, self.now)

    def live(self, seconds: float, answers: bool = True, beats: bool = True) -> list[Decision]:
        """What is decided besides pings."""
        decided: list[Decision] = []
        until = self.now + seconds
        while self.now < until:
            if beats and (self.beat_at is None or self.now - self.beat_at >= 1.0):
                self.beat_at = self.now
            for decision in self.look():
                if not isinstance(decision, SendPing):
                    decided.append(decision)
                    continue
                self.pings += 1
                if answers:
                    assert self.watch.pong(decision.name, decision.nonce, decision.launch)
        return decided

    def until_dead(self, answers: bool = False, beats: bool = False) -> tuple[DeclareDead, float]:
        began = self.now
        while not (decided := self.live(0.2, answers, beats)):
            assert self.now - began < 100.0
        assert isinstance(decided[0], DeclareDead)
        return decided[0], self.now - began


def decide(duty: Watched) -> list[Decision]:
    return DutyWatch(PATIENCE, random.Random(1), 0.0).look([duty], 0.0, 0.0)


def test_who_answers_and_beats_is_left_alone() -> None:
    assert Watching().live(60.0) == []


@pytest.mark.parametrize(("answers", "beats"), [(True, False), (False, True)])
def test_one_sign_of_life_is_enough(answers: bool, beats: bool) -> None:
    watching = Watching()
    watching.live(5.0)
    assert watching.live(60.0, answers, beats) == []


def test_who_does_neither_is_dead_within_three_seconds() -> None:
    watching = Watching()
    watching.live(5.0)
    dead, took_s = watching.until_dead()
    assert (dead.how, dead.is_early, dead.is_certain, dead.rest_s) == (DeathKind.SILENCE, False, False, 0.0)
    assert 2.0 < took_s <= 3.0


def test_who_has_never_answered_is_judged_by_its_beats_alone() -> None:
    """A network that takes no pings must not kill."""
    watching = Watching()
    watching.live(5.0, answers=False)
    _, took_s = watching.until_dead()
    assert took_s == pytest.approx(PATIENCE.beats_silent_s, abs=1.5)


def test_whose_answers_stop_while_it_beats_is_judged_by_its_beats_alone() -> None:
    watching = Watching()
    watching.live(5.0)
    watching.live(5.0, answers=False)
    _, took_s = watching.until_dead()
    assert took_s == pytest.approx(PATIENCE.beats_silent_s, abs=1.5)


def test_an_answer_counts_for_the_time_of_its_question() -> None:
    """A late pong must not save a dead process."""
    watching = Watching()
    watching.live(5.0)
    ping = next(each for _ in range(8) for each in watching.look() if isinstance(each, SendPing))
    asked_at = watching.now
    while not (decided := [each for each in watching.look() if not isinstance(each, SendPing)]):
        if watching.now - asked_at > 1.2:
            watching.watch.pong(ping.name, ping.nonce, ping.launch)
    assert isinstance(decided[0], DeclareDead)
    assert watching.now - asked_at == pytest.approx(PATIENCE.silent_s, abs=0.3)


def test_a_pong_must_answer_a_ping_of_this_launch() -> None:
    watching = Watching()
    ping = watching.look()[0]
    assert isinstance(ping, SendPing)
    assert not watching.watch.pong("orders", ping.nonce + 1, 3)
    assert not watching.watch.pong("orders", ping.nonce, 2)
    assert not watching.watch.pong("others", ping.nonce, 3)
    assert watching.watch.pong("orders", ping.nonce, 3)
    assert not watching.watch.pong("orders", ping.nonce, 3)  # once


def test_pings_come_every_second_and_sooner_when_they_are_not_answered() -> None:
    watching = Watching()
    asked = [each for _ in range(40) for each in watching.look() if isinstance(each, SendPing)]
    assert len(asked) == 40
    watching = Watching()
    asked = []
    for _ in range(40):
        for decision in watching.look():
            assert isinstance(decision, SendPing)
            asked.append(decision)
            watching.watch.pong(decision.name, decision.nonce, decision.launch)
    assert len(asked) == 10


def test_who_beats_is_asked_less_and_as_soon_as_it_does_not_asked_again() -> None:
    watching = Watching()
    watching.live(5.0)
    before = watching.pings
    watching.live(60.0)
    assert 35 <= watching.pings - before <= 45
    before = watching.pings
    watching.live(60.0, beats=False)
    assert 58 <= watching.pings - before <= 62


def test_a_coordinator_that_did_not_look_has_to_watch_again_first() -> None:
    """It was paused, or the database was away for a minute: nobody is to be restarted for that."""
    watching = Watching()
    watching.live(5.0)
    assert not any(isinstance(decision, DeclareDead) for decision in watching.look(step_s=60.0))
    _, took_s = watching.until_dead()
    assert took_s >= PATIENCE.silent_s - 0.3


def test_an_old_reading_kills_nobody() -> None:
    watch = DutyWatch(PATIENCE, random.Random(1), 0.0)
    silent = replace(READY, beat_s=50.0)
    for now in (0.0, 0.9, 1.8, 2.7, 3.6, 4.5, 5.4, 6.3, 7.2, 8.1, 9.0, 9.9, 10.8, 11.7):
        decided = watch.look([silent], now - 0.5, now)
        assert not any(isinstance(decision, DeclareDead) for decision in decided)
    assert any(isinstance(decision, DeclareDead) for decision in watch.look([silent], 12.0, 12.0))


@given(
    beats=st.lists(st.floats(0.05, 2.0), min_size=5, max_size=60),
    answered=st.lists(st.booleans(), min_size=10, max_size=200),
    steps=st.lists(st.floats(0.05, 5.0), min_size=20, max_size=200),
)
def test_a_process_whose_beats_come_within_two_seconds_is_never_declared_dead(
    beats: list[float], answered: list[bool], steps: list[float]
) -> None:
    now, beat_at, beat_number = 0.0, 0.0, 0
    watch = DutyWatch(WatchTimeouts(), random.Random(1), now)
    for number, step_s in enumerate(steps):
        now += step_s
        while beat_at + beats[beat_number % len(beats)] <= now:
            beat_at += beats[beat_number % len(beats)]
            beat_number += 1
        for decision in watch.look([replace(READY, beat_s=now - beat_at)], now, now):
            assert isinstance(decision, SendPing)
            if answered[number % len(answered)]:
                watch.pong(decision.name, decision.nonce, decision.launch)


@pytest.mark.parametrize(
    ("exit_", "how"),
    [
        (Exit(code=1), DeathKind.EXIT),
        (Exit(code=0), DeathKind.EXIT),
        (Exit(signal=9), DeathKind.SIGNAL),
        (Exit(), DeathKind.GONE),
    ],
)
def test_an_end_that_was_seen_is_a_death_at_once(exit_: Exit, how: DeathKind) -> None:
    [dead] = decide(replace(READY, exit=exit_))
    assert isinstance(dead, DeclareDead)
    assert (dead.how, dead.exit, dead.is_certain, dead.is_early) == (how, exit_, True, False)


def test_back_off_doubles_with_each_death_before_ready() -> None:
    def rest_s(early_deaths: int) -> float:
        [dead] = decide(replace(STARTING, exit=Exit(code=1), early_deaths=early_deaths))
        assert isinstance(dead, DeclareDead)
        assert dead.is_early
        return dead.rest_s

    assert [rest_s(number) for number in (0, 1, 2, 3)] == [0.5, 1.0, 2.0, 4.0]
    assert rest_s(50) == PATIENCE.longest_rest_s


def test_rests_are_spread() -> None:
    watch = DutyWatch(WatchTimeouts(), random.Random(1), 0.0)
    ended = replace(STARTING, exit=Exit(code=1))
    [first], [second] = (watch.look([ended], 0.0, 0.0) for _ in range(2))
    assert isinstance(first, DeclareDead)
    assert isinstance(second, DeclareDead)
    assert first.rest_s != second.rest_s


@pytest.mark.parametrize(("ready_s", "rest_s"), [(1.0, 1.0), (60.0, 0.0)])
def test_one_that_was_ready_comes_back_at_once_unless_it_died_young(ready_s: float, rest_s: float) -> None:
    [dead] = decide(replace(READY, exit=Exit(signal=9), ready_s=ready_s, early_deaths=3))
    assert isinstance(dead, DeclareDead)
    assert (dead.is_early, dead.rest_s) == (False, rest_s)


@pytest.mark.parametrize(
    ("duty", "decision"),
    [
        (Watched("orders", DutyState.WAITING, 0), StartProcess("orders", 0)),
        (Watched("orders", DutyState.WAITING, 0, is_wanted=False), Cancel("orders", 0)),
        (DOWN, StartProcess("orders", 3)),
        (replace(DOWN, next_try_s=0.1), None),
        (replace(DOWN, next_try_s=3600.0), StartProcess("orders", 3)),  # the clock was set back
        (replace(DOWN, is_wanted=False, next_try_s=9.0), Cancel("orders", 3)),
        (replace(DOWN, early_deaths=5, next_try_s=9.0), GiveUp("orders", 3, 5)),
        (replace(READY, is_wanted=False), StopProcess("orders", 3)),
        (replace(READY, is_replaced=True), StopProcess("orders", 3)),
        (replace(READY, state=DutyState.STOPPING), None),
        (replace(READY, state=DutyState.STOPPING, exit=Exit(code=0)), FinishStop("orders", 3)),
        (replace(READY, state=DutyState.STOPPING, in_state_s=99.0), KillProcess("orders", 3)),
        (replace(DOWN, state=DutyState.STOPPED), None),
        (replace(DOWN, state=DutyState.FAILED), None),
    ],
)
def test_each_state_has_its_decision(duty: Watched, decision: Decision | None) -> None:
    assert decide(duty) == ([] if decision is None else [decision])


def test_a_launch_of_which_no_launcher_knows_is_taken_again_and_counts_for_nothing() -> None:
    watching = Watching(replace(STARTING, is_launched=False, launched_s=PATIENCE.launch_timeout_s + 0.1))
    dead, _ = watching.until_dead()
    assert (dead.how, dead.is_early, dead.rest_s) == (DeathKind.NEVER_READY, False, 0.0)


def test_a_process_that_does_not_register_is_dead_after_its_time() -> None:
    assert Watching(STARTING).live(10.0, beats=False) == []
    watching = Watching(replace(STARTING, launched_s=PATIENCE.start_timeout_s + 0.1))
    dead, _ = watching.until_dead()
    assert (dead.how, dead.is_early) == (DeathKind.NEVER_READY, True)


def test_one_that_was_ready_is_silent_also_when_its_beats_are_forgotten() -> None:
    """Nobody coordinated for a minute after its last beat."""
    watching = Watching(replace(READY, launched_s=PATIENCE.start_timeout_s + 0.1, beat_s=None))
    dead, _ = watching.until_dead()
    assert (dead.how, dead.is_early) == (DeathKind.SILENCE, False)


def test_a_process_that_beats_has_all_the_time_to_get_ready() -> None:
    watching = Watching(replace(STARTING, launched_s=900.0, can_be_pinged=True))
    assert watching.live(30.0) == []


def test_a_script_may_run_one_command_after_another() -> None:
    """The first one has ended in order, and the next has not shown itself yet."""
    watching = Watching(replace(STARTING, launched_s=900.0, can_be_pinged=True, beat_s=0.5))
    watching.live(5.0)
    watching.beat_at = None
    assert watching.live(PATIENCE.start_timeout_s - 1, answers=False, beats=False) == []
    dead, _ = watching.until_dead()
    assert dead.how is DeathKind.NEVER_READY


def test_a_foreign_program_is_dead_only_when_it_has_ended() -> None:
    watching = Watching(replace(READY, reports=False, can_be_pinged=False, beat_s=None))
    assert watching.live(120.0, answers=False, beats=False) == []


def test_a_new_launch_begins_with_a_clean_record() -> None:
    watching = Watching()
    watching.live(5.0)
    watching.live(2.0, answers=False, beats=False)
    watching.duty = replace(STARTING, launch=4)
    watching.beat_at = None
    assert watching.live(5.0, answers=False, beats=False) == []


def test_patience_that_would_kill_the_living_is_refused() -> None:
    with pytest.raises(ValueError, match="beats"):
        WatchTimeouts(silent_s=1.0)


@pytest.mark.parametrize("set_back_s", [5.0, 3600.0])
def test_who_dies_after_the_clock_was_set_back_is_noticed_as_soon(set_back_s: float) -> None:
    """A beat of before seems to be one of the future; it saves nobody when that comes."""
    watching = Watching()
    assert watching.live(10.0) == []
    watching.beat_at = watching.now + set_back_s
    assert watching.live(1.5, beats=False) == [], "it has not had the time to beat by the new time"
    living = Watching()
    living.live(10.0)
    living.beat_at = living.now + set_back_s
    living.live(1.0, beats=False)
    living.beat_at = living.now
    assert living.live(30.0) == []
    dead, took_s = watching.until_dead()
    assert dead.how is DeathKind.SILENCE
    assert took_s <= PATIENCE.beats_silent_s


# What is waited for, to the moment


def test_the_times_are_those_of_the_documentation() -> None:
    assert asdict(WatchTimeouts()) == {
        "ping_s": 1.0,
        "hurry_s": 0.25,
        "silent_s": 2.5,
        "beating_s": 2.0,
        "beats_silent_s": 10.0,
        "blind_s": 1.0,
        "launch_timeout_s": 5.0,
        "start_timeout_s": 60.0,
        "first_rest_s": 0.5,
        "longest_rest_s": 30.0,
        "young_s": 5.0,
        "young_rest_s": 1.0,
        "early_deaths": 5,
        "jitter": 0.2,
    }


def test_a_duty_of_which_nothing_is_known() -> None:
    assert asdict(Watched("orders", DutyState.WAITING, 0)) == {
        "name": "orders",
        "state": DutyState.WAITING,
        "launch": 0,
        "is_wanted": True,
        "is_replaced": False,
        "reports": True,
        "can_be_pinged": False,
        "is_launched": True,
        "launched_s": 0.0,
        "in_state_s": 0.0,
        "grace_s": 15.0,
        "ready_s": None,
        "beat_s": None,
        "exit": None,
        "early_deaths": 0,
        "next_try_s": 0.0,
    }


def test_patience_may_be_the_same_throughout() -> None:
    WatchTimeouts(beating_s=2.0, silent_s=2.0, beats_silent_s=2.0)
    for wrong in ({"silent_s": 1.99}, {"beats_silent_s": 2.49}):
        with pytest.raises(ValueError, match="beating_s, silent_s and beats_silent_s"):
            WatchTimeouts(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("duty", "decision"),
    [
        (replace(DOWN, early_deaths=4), StartProcess("orders", 3)),
        (replace(DOWN, early_deaths=6), GiveUp("orders", 3, 6)),
        (replace(DOWN, next_try_s=-1.0), StartProcess("orders", 3)),
        (replace(DOWN, next_try_s=60.0), None),  # no rest is longer than twice the longest
        (replace(DOWN, next_try_s=60.01), StartProcess("orders", 3)),
        (replace(READY, state=DutyState.STOPPING, in_state_s=20.0), None),  # 15 s of grace and 5 for the launcher
        (replace(READY, state=DutyState.STOPPING, in_state_s=20.01), KillProcess("orders", 3)),
        (replace(READY, state=DutyState.STOPPING, in_state_s=20.01, grace_s=16.0), None),
        (replace(STARTING, is_replaced=True), StopProcess("orders", 3)),
    ],
)
def test_limits_of_decisions(duty: Watched, decision: Decision | None) -> None:
    assert decide(duty) == ([] if decision is None else [decision])


def test_an_end_comes_before_all_that_is_wanted() -> None:
    ended = replace(STARTING, exit=Exit(code=0))
    for duty in (replace(ended, is_wanted=False), replace(ended, is_replaced=True)):
        [dead] = decide(duty)
        assert isinstance(dead, DeclareDead)


@pytest.mark.parametrize(("ready_s", "rest_s"), [(0.0, 1.0), (4.99, 1.0), (5.0, 0.0)])
def test_one_is_young_for_five_seconds(ready_s: float, rest_s: float) -> None:
    [dead] = decide(replace(READY, exit=Exit(signal=9), ready_s=ready_s))
    assert isinstance(dead, DeclareDead)
    assert dead.rest_s == rest_s


@pytest.mark.parametrize("deaths", [5, 6, 1_000])
def test_no_rest_is_longer_than_the_longest(deaths: int) -> None:
    """Eight times doubled would be more; a thousand times is more than a number can be."""
    [dead] = decide(replace(STARTING, exit=Exit(code=1), early_deaths=deaths))
    assert isinstance(dead, DeclareDead)
    assert dead.rest_s == {5: 16.0}.get(deaths, 30.0)


def test_rests_are_a_fifth_more_or_less() -> None:
    ended = replace(STARTING, exit=Exit(code=1))
    watch = DutyWatch(WatchTimeouts(), random.Random(1), 0.0)
    rests = [each.rest_s for _ in range(300) for each in watch.look([ended], 0.0, 0.0) if isinstance(each, DeclareDead)]
    assert 0.4 <= min(rests) < 0.41
    assert 0.59 < max(rests) <= 0.6


def test_a_death_says_what_is_known_of_it() -> None:
    [dead] = decide(replace(READY, exit=Exit(signal=9), beat_s=0.5))
    assert dead == DeclareDead("orders", 3, DeathKind.SIGNAL, Exit(signal=9), False, 0.0, 0.0)
    watch = DutyWatch(PATIENCE, random.Random(1), 1000.0)
    watch.look([replace(READY, beat_s=0.0, can_be_pinged=False)], 1000.0, 1000.0)
    found: list[Decision] = []
    silent_s = 0.0
    while not found:
        silent_s += 0.5
        silent = replace(READY, beat_s=silent_s, can_be_pinged=False)
        found = watch.look([silent], 1000.0 + silent_s, 1000.0 + silent_s)
    assert found == [DeclareDead("orders", 3, DeathKind.SILENCE, Exit(), False, 0.0, 10.5)]


@pytest.mark.parametrize(
    ("state", "is_launched", "launched_s", "is_dead"),
    [
        (DutyState.STARTING, False, 5.0, False),
        (DutyState.STARTING, False, 5.01, True),
        (DutyState.STARTING, True, 60.0, False),
        (DutyState.STARTING, True, 60.01, True),
    ],
)
def test_a_launch_that_never_comes_is_given_its_time(
    state: DutyState, is_launched: bool, launched_s: float, is_dead: bool
) -> None:
    """And only by a coordinator that has watched for more than a second."""
    launch = Watched("orders", state, 3, is_launched=is_launched, launched_s=launched_s)
    watch = DutyWatch(PATIENCE, random.Random(1), 1000.0)
    for now in (1000.0, 1000.5, 1001.0):
        assert watch.look([launch], now, now) == []
    found = watch.look([launch], 1001.01, 1001.01)
    assert [type(each) for each in found] == ([DeclareDead] if is_dead else [])


def test_a_command_of_a_script_that_has_left_is_given_a_minute() -> None:
    watch = DutyWatch(PATIENCE, random.Random(1), 0.0)
    duty = replace(STARTING, launched_s=900.0)
    watch.look([replace(duty, beat_s=0.0)], 0.0, 0.0)
    watch.look([duty], 1.0, 1.0)
    found: list[Decision] = []
    now = 1.0
    while not found:
        now += 0.5
        found = watch.look([duty], now, now)
    assert now == 61.5
    assert isinstance(found[0], DeclareDead)
    assert found[0].how is DeathKind.NEVER_READY


def silent_since(beat_s: float, silent_for_s: float, *, answers: bool) -> list[Decision]:
    """Of one that has last beaten, and answered if it does, at the first look."""
    watch = DutyWatch(PATIENCE, random.Random(1), 0.0)
    duty = replace(READY, beat_s=beat_s)
    for decision in watch.look([duty], 0.0, 0.0):
        if answers and isinstance(decision, SendPing):
            watch.pong(decision.name, decision.nonce, decision.launch)
    now = 0.0
    found: list[Decision] = []
    while now < silent_for_s:
        now = min(now + 0.5, silent_for_s)
        found = watch.look([replace(duty, beat_s=beat_s + now)], now, now)
    return [each for each in found if not isinstance(each, SendPing)]


@pytest.mark.parametrize(
    ("beat_s", "silent_for_s", "answers", "is_dead"),
    [
        (0.0, 2.5, True, False),
        (0.0, 2.51, True, True),
        (0.0, 10.0, False, False),
        (0.0, 10.01, False, True),
    ],
)
def test_silence_is_death_after_its_time(beat_s: float, silent_for_s: float, answers: bool, is_dead: bool) -> None:
    found = silent_since(beat_s, silent_for_s, answers=answers)
    assert [type(each) for each in found] == ([DeclareDead] if is_dead else [])


def test_a_pause_of_a_second_is_no_blindness_and_a_longer_one_is() -> None:
    for step_s, is_dead in ((1.0, True), (1.01, False)):
        watch = DutyWatch(PATIENCE, random.Random(1), 0.0)
        duty = replace(READY, beat_s=0.0)
        for decision in watch.look([duty], 0.0, 0.0):
            assert isinstance(decision, SendPing)
            watch.pong(decision.name, decision.nonce, decision.launch)
        found: list[Decision] = []
        for number in (1, 2, 3):
            found = watch.look([replace(duty, beat_s=number * step_s)], number * step_s, number * step_s)
        assert any(isinstance(each, DeclareDead) for each in found) is is_dead


def test_who_was_blind_asks_at_once() -> None:
    watch = DutyWatch(PATIENCE, random.Random(1), 0.0)
    duty = replace(STARTING, can_be_pinged=True)
    [ping] = watch.look([duty], 0.0, 0.0)
    assert isinstance(ping, SendPing)
    watch.pong(ping.name, ping.nonce, ping.launch)
    assert watch.look([duty], 0.5, 0.5) == [], "it has answered, and is asked again after a second"
    watch.was_blind(0.5)
    assert [type(each) for each in watch.look([duty], 0.51, 0.51)] == [SendPing]


def test_an_old_ping_may_not_be_answered_any_more() -> None:
    watch = DutyWatch(PATIENCE, random.Random(1), 0.0)
    duty = replace(READY, beat_s=0.0)

    def ping(at: float) -> SendPing:
        found = [each for each in watch.look([replace(duty, beat_s=at)], at, at) if isinstance(each, SendPing)]
        return found[0]

    first, second = ping(0.0), ping(0.5)
    for now in (1.0, 1.5, 2.0, 2.5):
        ping(now)
    assert not watch.pong("orders", first.nonce, 3), "it is older than the silence that kills"
    assert watch.pong("orders", second.nonce, 3)


def test_the_newest_answer_counts() -> None:
    """Answers may overtake each other."""
    watch = DutyWatch(PATIENCE, random.Random(1), 0.0)
    duty = replace(READY, beat_s=0.0)
    pings = []
    for now in (0.0, 0.5, 1.0):
        pings += [each for each in watch.look([replace(duty, beat_s=now)], now, now) if isinstance(each, SendPing)]
    assert len(pings) == 3
    for ping in reversed(pings):
        assert watch.pong(ping.name, ping.nonce, ping.launch)
    decided: dict[float, list[Decision]] = {}
    for now in (1.9, 2.8, 3.5, 3.51):
        decided[now] = watch.look([replace(duty, beat_s=now)], now, now)
    is_dead = {now: any(isinstance(each, DeclareDead) for each in found) for now, found in decided.items()}
    assert is_dead == {1.9: False, 2.8: False, 3.5: False, 3.51: True}


def test_a_beat_of_just_now_may_seem_to_be_of_the_future() -> None:
    """Beats are read before the time is."""
    watch = DutyWatch(PATIENCE, random.Random(1), 100.0)
    watch.look([replace(READY, beat_s=-0.9, can_be_pinged=False)], 100.0, 100.0)
    found: list[Decision] = []
    now = 100.0
    while not found:
        now += 0.25
        found = watch.look([replace(READY, beat_s=-5.0, can_be_pinged=False)], now, now)
    assert now == 110.25, "counted from when it was read, not from the future"


def test_pings_are_numbers_that_nobody_can_guess() -> None:
    watch = DutyWatch(PATIENCE, random.Random(1), 0.0)
    nonces = []
    for number in range(50):
        now = number * 0.25
        found = watch.look([replace(READY, beat_s=0.0, name=f"orders-{number % 5}")], now, now)
        nonces += [each.nonce for each in found if isinstance(each, SendPing)]
    assert len(set(nonces)) == len(nonces) > 10
    assert (1 << 60) < max(nonces) < (1 << 63)


def test_who_is_no_duty_any_more_is_forgotten() -> None:
    watch = DutyWatch(PATIENCE, random.Random(1), 0.0)
    [ping] = watch.look([replace(READY, beat_s=None)], 0.0, 0.0)
    assert isinstance(ping, SendPing)
    assert watch.look([], 0.5, 0.5) == []
    assert not watch.pong(ping.name, ping.nonce, ping.launch)


@pytest.mark.parametrize(("beat_s", "is_dead"), [(-1.0, False), (-1.01, True)])
def test_a_beat_of_more_than_a_second_ahead_is_of_another_time(beat_s: float, is_dead: bool) -> None:
    """It is as if it had not registered, which it had a minute for."""
    watch = DutyWatch(PATIENCE, random.Random(1), 1000.0)
    late = replace(STARTING, launched_s=900.0)
    for now in (1000.0, 1000.5, 1001.0):
        assert watch.look([replace(late, beat_s=beat_s)], now, now) == []
    found = watch.look([replace(late, beat_s=beat_s)], 1001.5, 1001.5)
    assert [type(each) for each in found] == ([DeclareDead] if is_dead else [])


@pytest.mark.parametrize(("age_s", "is_dead"), [(0.25, True), (0.26, False)])
def test_only_a_reading_of_just_now_kills(age_s: float, is_dead: bool) -> None:
    watch = DutyWatch(PATIENCE, random.Random(1), 100.0)
    silent = replace(READY, beat_s=50.0, can_be_pinged=False)
    for number in range(20):
        now = 100.0 + number
        assert watch.look([silent], now - 0.5, now) == []
    found = watch.look([silent], 120.0 - age_s, 120.0)
    assert [type(each) for each in found] == ([DeclareDead] if is_dead else [])


@pytest.mark.parametrize(("beat_s", "is_dead"), [(2.0005, False), (2.002, True)])
def test_a_beat_saves_for_its_time_and_a_millisecond(beat_s: float, is_dead: bool) -> None:
    """Where silence may be no longer than that: sums of seconds are not exact."""
    watch = DutyWatch(WatchTimeouts(silent_s=2.0, jitter=0.0), random.Random(1), 0.0)
    for ping in watch.look([replace(READY, beat_s=0.0)], 0.0, 0.0):
        assert isinstance(ping, SendPing)
        watch.pong(ping.name, ping.nonce, ping.launch)
    found: list[Decision] = []
    for now in (0.9, 1.8, beat_s):
        found = watch.look([replace(READY, beat_s=now)], now, now)
    assert any(isinstance(each, DeclareDead) for each in found) is is_dead


def answered_at_first(patience: WatchTimeouts) -> DutyWatch:
    """One that has beaten and answered at the time 0."""
    watch = DutyWatch(patience, random.Random(1), 0.0)
    [ping] = watch.look([replace(READY, beat_s=0.0)], 0.0, 0.0)
    assert isinstance(ping, SendPing)
    assert watch.pong(ping.name, ping.nonce, ping.launch)
    return watch


@pytest.mark.parametrize(
    ("ping_s", "last_beat", "is_dead"), [(1.0, 2.0, True), (1.0, 2.01, False), (2.0, 3.0, True), (2.0, 4.01, False)]
)
def test_answers_are_regular_up_to_twice_the_time_between_pings(ping_s: float, last_beat: float, is_dead: bool) -> None:
    """Who beats on without them for longer has a network in its way, and is judged by its beats alone."""
    watch = answered_at_first(WatchTimeouts(ping_s=ping_s, jitter=0.0))
    found: list[Decision] = []
    times = [0.9, 1.8, 2.7, 3.6, 4.5, 5.4, 6.3]
    for now in sorted({*(each for each in times if each < last_beat + 2.51), last_beat, last_beat + 2.51}):
        found = watch.look([replace(READY, beat_s=max(0.0, now - last_beat))], now, now)
    assert any(isinstance(each, DeclareDead) for each in found) is is_dead


def test_a_ping_is_sent_again_after_a_quarter_of_a_second() -> None:
    watch = DutyWatch(PATIENCE, random.Random(1), 100.0)
    silent = replace(READY, beat_s=None)
    asked = [len(watch.look([silent], now, now)) for now in (100.0, 100.125, 100.25, 100.375, 100.5)]
    assert asked == [1, 0, 1, 0, 1]


@pytest.mark.parametrize(("ping_s", "quiet", "asked"), [(1.0, 1.49, 1.5), (2.0, 2.99, 3.0)])
def test_who_beats_is_asked_after_half_as_long_again(ping_s: float, quiet: float, asked: float) -> None:
    watch = answered_at_first(WatchTimeouts(ping_s=ping_s, jitter=0.0))
    for now in (0.9, 1.4, 2.2, quiet):
        if now <= quiet:
            assert watch.look([replace(READY, beat_s=0.0)], now, now) == []
    assert [type(each) for each in watch.look([replace(READY, beat_s=0.0)], asked, asked)] == [SendPing]
