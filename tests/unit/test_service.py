"""The one shape of every loop: starts and stops any number of times, and no error ends it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from towpath.core.events import Event, EventKind, Events
from towpath.core.service import FIRST_PAUSE_S, LONGEST_PAUSE_S, PAUSE_JITTER, RoundResult, Service
from towpath.errors import DatabaseUnavailable, TowpathError
from towpath.testing.clock import wait_until


class Counting(Service):
    """Counts its rounds; `work` decides what a round does; rests are noted and not slept."""

    name = "counting"

    def __init__(self, work: Callable[[int], RoundResult] = lambda _: RoundResult(1, 1000.0)) -> None:
        super().__init__(Events())
        self.rounds = 0
        self.rests: list[float] = []
        self.ends = 0
        self.threads: set[int] = set()
        self.enough = threading.Event()
        self.published: list[Event] = []
        self.events.subscribe(self.published.append)
        self._work = work

    def run_once(self) -> RoundResult:
        self.rounds += 1
        self.threads.add(threading.get_ident())
        return self._work(self.rounds)

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        if len(self.rests) >= 14 or seconds >= 1000.0:
            self.enough.set()
            super().rest(seconds)

    def on_stop(self) -> None:
        self.ends += 1


def test_runs_in_a_thread_of_its_own_until_stopped() -> None:
    service = Counting()
    running = [service.is_running]
    service.start()
    assert service.enough.wait(10)
    running.append(service.is_running)
    service.stop()
    running.append(service.is_running)
    assert running == [False, True, False]
    assert (service.rounds, service.ends) == (1, 1)
    assert threading.get_ident() not in service.threads


def test_start_and_stop_may_be_repeated() -> None:
    service = Counting()
    service.stop()
    for turn in range(1, 4):
        service.start()
        service.start()
        wait_until(lambda turn=turn: service.rounds == turn)  # type: ignore[misc]
        service.stop()
        service.stop()
    assert (service.rounds, service.ends) == (3, 3)


def test_no_rest_means_the_next_round_at_once() -> None:
    service = Counting(lambda turn: RoundResult(1, 0 if turn < 5 else 1000.0))
    service.start()
    assert service.enough.wait(10)
    service.stop()
    assert service.rounds == 5
    assert service.rests == [1000.0]


def fail_twelve_times(turn: int) -> RoundResult:
    if turn <= 12:
        raise DatabaseUnavailable(f"away {turn}")
    return RoundResult(1, 1000.0)


def test_errors_are_survived_with_growing_pauses_and_two_events(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    service = Counting(fail_twelve_times)
    service.start()
    assert service.enough.wait(10)
    service.stop()
    assert service.published == [
        Event(EventKind.SERVICE_FAILED, "counting", why="away 1"),
        Event(EventKind.SERVICE_RECOVERED, "counting", data={"failed_rounds": 12}),
    ]
    assert service.rests[12:] == [1000.0]
    for failure, pause in enumerate(service.rests[:12]):
        middle = min(FIRST_PAUSE_S * 2**failure, LONGEST_PAUSE_S)
        assert middle * (1 - PAUSE_JITTER) <= pause <= middle * (1 + PAUSE_JITTER)
    assert ["counting" in record.getMessage() for record in caplog.records] == [True, True]


def test_an_unknown_error_is_logged_with_its_trace_and_a_known_one_without(caplog: pytest.LogCaptureFixture) -> None:
    def work(turn: int) -> RoundResult:
        match turn:
            case 1:
                raise ZeroDivisionError("unknown")
            case 3:
                raise TowpathError("known")
        return RoundResult(0, 0 if turn < 4 else 1000.0)

    service = Counting(work)
    service.start()
    assert service.enough.wait(10)
    service.stop()
    assert [bool(record.exc_info) for record in caplog.records if "failed:" in record.getMessage()] == [True, False]


def test_stop_ends_a_long_rest_at_once() -> None:
    service = Counting()
    service.start()
    assert service.enough.wait(10)
    service.stop(timeout_s=60)  # of 1000
    assert not service.is_running


def test_a_round_that_does_not_end_is_reported() -> None:
    go_on = threading.Event()

    def work(_: int) -> RoundResult:
        go_on.wait(10)
        return RoundResult(0, 1000.0)

    service = Counting(work)
    service.start()
    wait_until(lambda: service.rounds == 1)
    with pytest.raises(TowpathError, match=r"counting .*0\.01 s"):
        service.stop(timeout_s=0.01)
    go_on.set()
    service.stop()
    assert not service.is_running


def test_a_service_may_stop_itself() -> None:
    stop: list[Callable[[], None]] = []

    def work(_: int) -> RoundResult:
        stop[0]()
        return RoundResult(0, 0)

    service = Counting(work)
    stop.append(service.stop)
    service.start()
    wait_until(lambda: not service.is_running)
    assert (service.rounds, service.ends) == (1, 1)


def test_a_service_that_stopped_itself_can_be_started_again() -> None:
    service = Counting(lambda turn: RoundResult(0, 1000.0))
    service.start()
    assert service.enough.wait(10)
    service.stop()
    service.start()
    wait_until(lambda: service.rounds == 2)
    service.stop()
