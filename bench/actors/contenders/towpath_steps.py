"""Towpath: five states that do nothing, of many instances."""

from __future__ import annotations

import threading
import time

import towpath
from bench.actors.cast import CAST, One, Stepper
from bench.actors.contenders.contract import STATES, Order, Shape, order, tell, wait_for_start
from bench.actors.looking import number
from towpath.actors.engine.host import Host
from towpath.actors.engine.run import TurnResult
from towpath.runtime import Runtime

SYNCHRONOUS = {"normal": 1, "full": 2}
ANSWER_WITHIN_S = 60.0
ENDED_WITHIN_S = 300.0
WARM_UPS = 2


def connect(given: Order) -> Runtime:
    database = {"url": given.url}
    if given.url.startswith("sqlite"):
        database["synchronous"] = given.synchronous
    runtime = towpath.connect(database=database, actors={"workers": given.at_once})
    runtime.actors.register(*CAST)
    return runtime


def start_all(runtime: Runtime, runs: int) -> None:
    for run in range(runs):
        runtime.actors.start(Stepper, One(run), instance=f"run-{run}")


class Countdown:
    """Listens to a host until so many runs have ended; asking the database would slow it down."""

    def __init__(self, host: Host, runs: int) -> None:
        self._left = runs
        self._is_over = threading.Event()
        host.listen(self._heard)

    def _heard(self, done: TurnResult) -> None:
        if done.planned is None:  # the clean-up of a run is written down, and nothing follows
            self._left -= 1
            if self._left == 0:
                self._is_over.set()

    def wait(self) -> None:
        assert self._is_over.wait(ENDED_WITHIN_S), f"{self._left} runs have not ended"


def one_by_one(runtime: Runtime, runs: int, prefix: str = "run") -> None:
    outbox = runtime.actors.outbox()
    for run in range(runs):
        run_id = runtime.actors.start(Stepper, One(run), instance=f"{prefix}-{run}", wants_answer=True)
        assert outbox.wait(run_id, ANSWER_WITHIN_S).payload == run


def measure(runtime: Runtime, host: Host, given: Order) -> float:
    """How long it took, in seconds."""
    warm_ups = 0 if given.shape is Shape.AT_ONCE else WARM_UPS
    countdown = Countdown(host, given.runs + warm_ups)
    if given.shape is Shape.AT_ONCE:
        start_all(runtime, given.runs)
        wait_for_start()
        began = time.perf_counter()
        host.start()
    else:
        host.start()
        one_by_one(runtime, warm_ups, "warm-up")
        wait_for_start()
        began = time.perf_counter()
        if given.shape is Shape.ONE_BY_ONE:
            one_by_one(runtime, given.runs)
            return time.perf_counter() - began
        start_all(runtime, given.runs)
    countdown.wait()
    return time.perf_counter() - began


def check(runtime: Runtime, given: Order) -> None:
    """That everything is written down, with the durability that was asked for."""
    for function in ("One", "Two", "Three", "Four", "Five", "End"):
        ended = "state = 'OK' and substr(inbox, 1, 18) = 'actor:stepper:run-'"
        states = f"select count(*) from message where function = '{function}' and {ended}"
        written = number(runtime.database, "written", states)
        # The start, which is answered when its run ends, has the name of the first state.
        expected = given.runs * (2 if function == "One" else 1)
        assert written == expected, f"{written} of {expected} messages {function} are written down"
    if given.url.startswith("sqlite"):
        assert number(runtime.database, "synchronous", "pragma synchronous") == SYNCHRONOUS[given.synchronous]
    else:
        on = "select count(*) from pg_settings where name = 'synchronous_commit' and setting = 'on'"
        assert number(runtime.database, "synchronous", on) == 1


def main() -> None:
    given = order()
    with connect(given) as runtime:
        host = runtime.actors.host()
        took_s = measure(runtime, host, given)
        check(runtime, given)
        tell(STATES * given.runs / took_s)
        host.stop()


if __name__ == "__main__":
    main()
