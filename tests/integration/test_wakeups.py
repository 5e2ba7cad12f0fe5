"""Who writes wakes who waits, also in another process; a wake-up that is lost costs one slow poll."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.programs import run_together

from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

ASKER = """
with towpath.connect(database=database, queue={"poll_s": 3600}) as runtime:
    answers = [runtime.queue.outbox("asker").request("work", "DO", n, timeout_s=120).payload for n in range(argument)]
print(json.dumps(answers))
"""


def test_a_round_trip_between_processes_needs_no_poll(
    make_runtime: Callable[..., Runtime], database_settings: dict[str, Any]
) -> None:
    """Both sides poll once an hour: ten round trips can only be done by bells."""
    runtime = make_runtime(queue={"poll_s": 3600})
    worker = runtime.queue.synchronous("work")
    worker.on("DO")(lambda message: message.payload + 1)
    worker.start()
    try:
        [answers] = run_together(ASKER, database_settings, [10])
        assert answers == list(range(1, 11))
    finally:
        worker.stop()


def test_a_lost_wake_up_costs_one_poll(make_runtime: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = make_runtime(queue={"poll_s": 0.1}), make_runtime()
    worker = reader.queue.synchronous("work")
    got = threading.Event()
    worker.on("DO")(lambda message: got.set())
    worker.start()
    try:
        monkeypatch.setattr(writer.database.wakeups, "ring", lambda names: None)
        writer.queue.outbox("me").notice("work", "DO")
        assert got.wait(10)
    finally:
        worker.stop()


def test_a_ring_reaches_every_waiter_of_that_name_only(make_runtime: Callable[..., Runtime]) -> None:
    first, second = make_runtime(), make_runtime()
    wakeups = [first.database.wakeups.hang("a"), second.database.wakeups.hang("a")]

    def both_ring() -> bool:
        for wakeup in wakeups:
            wakeup.clear()
        first.database.wakeups.ring(["a"])
        return all(wakeup.wait(1) for wakeup in wakeups)

    wait_until(both_ring, what="a ring in both processes")


def test_a_bell_that_was_taken_down_is_silent(runtime: Runtime) -> None:
    wakeups = runtime.database.wakeups
    down, hanging = wakeups.hang("a"), wakeups.hang("a")
    wakeups.take_down("a", down)
    wait_until(lambda: _rings(runtime, hanging), what="the ring of the other bell")
    down.clear()
    wait_until(lambda: _rings(runtime, hanging), what="another ring of the other bell")
    assert not down.wait(0)


def _rings(runtime: Runtime, wakeup: Any) -> bool:
    wakeup.clear()
    runtime.database.wakeups.ring(["a"])
    return bool(wakeup.wait(1))


def test_ringing_after_the_end_harms_nobody(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime()
    wakeups = runtime.database.wakeups
    wakeups.hang("a")
    runtime.close()
    wakeups.ring(["a", "b"])
    runtime.close()
