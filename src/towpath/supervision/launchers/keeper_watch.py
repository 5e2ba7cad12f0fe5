"""Hears the end of keepers at once, of those that others have started too, without looking at each of them."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from towpath.supervision.launchers.kin import born

LOOK_S = 0.1  # how often those are looked at whose end cannot be heard


class KeeperWatch:
    """The living keepers that we watch, by the handle of their launch."""

    def __init__(self) -> None:
        self._lives: dict[str, int] = {}
        self._children: set[int] = set()
        self._lock = threading.Lock()

    def adopt(self, pid: int) -> None:
        """Remember that this process has started it, and has to take note of its end."""
        with self._lock:
            self._children.add(pid)
        self._reap()

    def add(self, handle: str, keeper: Mapping[str, Any] | None) -> None:
        """Watch a keeper, if it is who it is said to be and the kernel can tell of its end."""
        if keeper is None or not hasattr(os, "pidfd_open"):
            return
        try:
            life = os.pidfd_open(keeper["keeper"])
        except OSError:
            return
        # Asked after it is held: now the number cannot become another's without our knowing.
        if born(keeper["keeper"]) != keeper["keeper_born"]:
            os.close(life)
            return
        with self._lock:
            before, self._lives[handle] = self._lives.get(handle), life
        if before is not None:
            os.close(before)

    def wait(self, handles: Collection[str], timeout_s: float) -> list[str]:
        """Until one of them ends: that one, and those whose end we would not hear, which have to be looked at."""
        lives = {life: handle for handle in handles if (life := self._lives.get(handle)) is not None}
        unheard = [handle for handle in handles if handle not in self._lives]
        heard = [lives[life] for life in _poll(lives, min(timeout_s, LOOK_S) if unheard else timeout_s)]
        if heard:
            self._reap()
        return heard + unheard

    def forget(self, handle: str) -> None:
        with self._lock:
            life = self._lives.pop(handle, None)
        if life is not None:
            os.close(life)
        self._reap()

    def _reap(self) -> None:
        """Let go those of our own that have ended, or they would stay in the list of processes."""
        for pid in list(self._children):
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._children.discard(pid)


def _poll(lives: Iterable[int], timeout_s: float) -> list[int]:
    """Those that have ended, as soon as there is one."""
    poll = select.poll()
    for life in lives:
        poll.register(life, select.POLLIN)
    return [life for life, _ in poll.poll(max(0.0, timeout_s) * 1000)]
