"""The threads that run states."""

from __future__ import annotations

import subprocess
import sys
import threading

from towpath.actors.engine.host import Workers
from towpath.testing.clock import wait_until


class Doing:
    """Notes what is done, and by whom; what is in `held` waits until it is let go."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.threads: set[str] = set()
        self.held: set[int] = set()
        self.let_go = threading.Event()

    def __call__(self, work: int) -> None:
        self.threads.add(threading.current_thread().name)
        if work in self.held:
            assert self.let_go.wait(60)
        self.done.append(work)


def test_as_many_run_at_once_as_there_may_be() -> None:
    doing = Doing()
    doing.held = set(range(3))
    workers = Workers(3, doing)
    for number in range(5):
        workers.begin(number, number + 1)
    wait_until(lambda: len(doing.threads) == 3, timeout_s=30)
    assert doing.done == []
    doing.let_go.set()
    wait_until(lambda: sorted(doing.done) == [0, 1, 2, 3, 4], timeout_s=30)
    assert len(doing.threads) == 3
    workers.end()


def test_what_comes_one_by_one_needs_one_thread() -> None:
    doing = Doing()
    workers = Workers(16, doing)
    for number in range(5):
        workers.begin(number, 1)
        wait_until(lambda upto=number: len(doing.done) == upto + 1, timeout_s=30)  # type: ignore[misc]
    assert len(doing.threads) == 1
    workers.end()


def test_after_an_end_all_of_them_can_be_used_again() -> None:
    """One is still in something long: what it was told to do next, which is to end, is not for the others."""
    doing = Doing()
    doing.held = {0}
    workers = Workers(2, doing)
    workers.begin(0, 1)
    wait_until(lambda: len(doing.threads) == 1, timeout_s=30)
    workers.end()
    for number in (1, 2, 3):
        workers.begin(number, 1)
    wait_until(lambda: doing.done == [1, 2, 3], timeout_s=30)
    doing.let_go.set()
    wait_until(lambda: doing.done == [1, 2, 3, 0], timeout_s=30)
    workers.end()


STUCK = """
import threading
from towpath.actors.engine.host import Workers
begun = threading.Event()
def do(work):
    begun.set()
    threading.Event().wait()
workers = Workers(1, do)
workers.begin(1, 1)
begun.wait()
workers.end()
"""


def test_code_that_never_returns_does_not_keep_its_process() -> None:
    subprocess.run([sys.executable, "-c", STUCK], check=True, timeout=60)
