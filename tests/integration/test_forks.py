"""A forked child may send; it leaves alone what is its parent's."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import pytest
from tests.support.tables import rows, states

from towpath.errors import TowpathError
from towpath.runtime import Runtime

# Python 3.12 and newer warn of forking with threads; what happens then is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_a_child(work: Callable[[], bool]) -> bool:
    """Whether `work` returned true in a forked child."""
    child = os.fork()
    if child == 0:
        done = False
        try:
            done = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0 if done else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_sends_and_does_not_claim(runtime: Runtime) -> None:
    inbox, outbox = runtime.queue.inbox("work"), runtime.queue.outbox("me")
    inbox.claim()

    def work() -> bool:
        outbox.notice("work", "DO")
        try:
            inbox.claim()
        except TowpathError as error:
            if "before a fork" in str(error):
                return True
            raise
        return False

    assert in_a_child(work)
    assert states(runtime.database) == ["NEW"]
    assert len(inbox.claim()) == 1, "the parent's own connection still works"


def test_closing_in_a_child_does_not_end_the_parent(runtime: Runtime) -> None:
    inbox = runtime.queue.inbox("work")
    inbox.claim()
    runtime.database.wakeups.hang("work")

    def work() -> bool:
        runtime.close()
        return True

    assert in_a_child(work)
    runtime.process().renew()
    assert [row["state"] for row in rows(runtime.database, "process")] == ["alive"]
