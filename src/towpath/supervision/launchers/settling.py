"""What is done about a launch that has no keeper: nothing of it runs afterwards, nor ever will."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Any

from towpath.crash import CrashPoint, here
from towpath.supervision.launchers.home import LaunchHome
from towpath.supervision.launchers.kin import born, end_kin, session_left

END_KIN_S = 10.0
STEP_S = 0.02
SHOWN_CHARACTERS = 500


def settle(home: LaunchHome) -> dict[str, Any]:
    """With the lock held: whoever kept it is dead. Nothing of it runs afterwards, nor ever will; how it ended."""
    if (end := home.end) is not None:
        return end
    spec, was_begun = home.told, home.has_begun
    home.begin()
    here(CrashPoint.SETTLE_BEGUN)
    keeper = home.keeper or {}
    session = session_left(keeper["pid"], keeper["born"], keeper["boot"]) if "born" in keeper else None
    left = [] if spec is None else end_kin(f"{spec['variable']}={spec['sign']}", session, END_KIN_S)
    reason = f"its keeper was killed, and it died with it{last_words(home)}"
    if not was_begun:
        reason = "it was ended before it had begun"
    if left:
        reason = f"its keeper was killed, and these of its processes do not end, not even by SIGKILL: {left}"
    end = {"reason": reason, "ended_at": time.time()}
    home.write_end(end)
    return end


def end_keeper(home: LaunchHome, timeout_s: float) -> None:
    """One that does not do what it is told: it is stopped, or the machine is."""
    keeper = home.keeper
    if keeper is None or born(keeper["keeper"]) != keeper["keeper_born"]:
        return
    with suppress(ProcessLookupError):
        os.kill(keeper["keeper"], signal.SIGKILL)
    deadline = time.monotonic() + timeout_s
    while home.is_kept and time.monotonic() < deadline:
        time.sleep(STEP_S)


def last_words(home: LaunchHome) -> str:
    """What a keeper had to say before it died, if anything."""
    with suppress(OSError):
        if said := home.errors.read_text(errors="replace").strip():
            return f": {said[-SHOWN_CHARACTERS:]}"
    return ""
