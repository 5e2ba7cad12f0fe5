"""The wish of a signal that a command ends, wherever the command is."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from towpath.cli.progress import StopRequest


@pytest.mark.timeout(30)
def test_a_handler_may_wish_at_any_line_of_the_wait() -> None:
    """Handlers run between two lines of the thread that waits: with an event, some of these lines hold its lock."""
    interrupted = 0
    while _interrupt(interrupted):
        interrupted += 1
    assert interrupted > 0


def _interrupt(number: int) -> bool:
    """Wish before the line with this number; False when the wait has not so many."""
    wish, passed = StopRequest(), -1

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal passed
        if event == "line":
            passed += 1
            if passed == number:
                wish.stop("asked to")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        was_wished = wish.wait(0.01)
    finally:
        sys.settrace(before)
    assert was_wished is wish.is_set() is (passed >= number)
    return was_wished
