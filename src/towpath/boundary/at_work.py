"""The senders that this process has at work: one request of each at a time, and what is kept open for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from towpath.boundary.taking import SenderRun
from towpath.clock import Clock
from towpath.errors import LogError, NotYet

Which = tuple[str, str]  # upload and sender

PATIENCE_S = 10.0  # how long a request waits for another one of its sender
RECENT_S = 30.0  # longer than a turn of many senders takes


class Slot:
    """One sender: who holds its lock may use its run."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.run: SenderRun | None = None
        self.used_at = 0.0
        self.is_gone = False

    def drop(self) -> None:
        """Let go of the run: the next one finds out from the log how far it came."""
        run, self.run = self.run, None
        if run is not None:
            with suppress(LogError):  # what is committed stays, and the rest is not waited for
                run.close()


class AtWork:
    """Slots by sender, made when first asked for, closed when nobody has used them for a while."""

    def __init__(self, clock: Clock, retry_after_s: float) -> None:
        self._clock = clock
        self._retry_after_s = retry_after_s
        self._lock = threading.Lock()
        self._slots: dict[Which, Slot] = {}

    @contextmanager
    def slot(self, upload: str, sender: str) -> Iterator[Slot]:
        """The slot of a sender, for one at a time; `NotYet` when another request of it takes too long."""
        slot = self._taken((upload, sender))
        try:
            yield slot
        finally:
            slot.used_at = self._clock.monotonic()
            slot.lock.release()

    def _taken(self, which: Which) -> Slot:
        while True:
            with self._lock:
                slot = self._slots.setdefault(which, Slot())
            if not slot.lock.acquire(timeout=PATIENCE_S):
                message = f"another request of sender {which[1]} is being worked on; send it again"
                raise NotYet("busy", message, self._retry_after_s)
            if not slot.is_gone:
                return slot
            slot.lock.release()

    def count(self) -> int:
        """How many send: what was taken of them last is not long ago, and they have not finished."""
        since = self._clock.monotonic() - RECENT_S
        with self._lock:
            return sum(slot.run is not None and slot.used_at > since for slot in self._slots.values())

    def close_idle(self, idle_s: float) -> int:
        """Let go of those that were not used for so long; returns how many."""
        before = self._clock.monotonic() - idle_s
        with self._lock:
            slots = list(self._slots.items())
        return sum(self._close(which, slot, before) for which, slot in slots)

    def _close(self, which: Which, slot: Slot, before: float) -> bool:
        if not slot.lock.acquire(blocking=False):
            return False  # at work
        try:
            if slot.used_at > before or slot.is_gone:
                return False
            slot.is_gone = True
            slot.drop()
        finally:
            slot.lock.release()
        with self._lock:
            self._slots.pop(which, None)
        return True

    def close(self) -> None:
        """Let go of all, once nobody is at work with them."""
        with self._lock:
            slots, self._slots = self._slots, {}
        for slot in slots.values():
            with slot.lock:
                slot.is_gone = True
                slot.drop()
