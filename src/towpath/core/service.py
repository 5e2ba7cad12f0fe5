"""The one shape of every background loop.

A service has a `run_once` that does one round of its work and says how soon the next should come. `start` and `stop`
may be called any number of times, from any thread. A round that fails is reported once, tried again after a growing
pause, and reported again when it works: no error ends a service, except one it names itself as final.
"""

from __future__ import annotations

import logging
import random
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass

from towpath.core.events import Event, EventKind, Events
from towpath.errors import TowpathError

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
PAUSE_JITTER = 0.35
STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of one round: how many things were done, and how long to rest before the next (0: at once)."""

    done: int
    rest_s: float


class Service(ABC):
    """A loop in a thread of its own: `start`, `stop`, `run_once`."""

    name: str = "service"
    longest_pause_s: float = LONGEST_PAUSE_S  # between failed rounds

    def __init__(self, events: Events) -> None:
        self.events = events
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._failures = 0

    @abstractmethod
    def run_once(self) -> RoundResult:
        """Do one round of the work."""

    def rest(self, seconds: float) -> None:
        """Wait between rounds. Services that can be woken by something else than `stop` override this and `wake`."""
        self._stopping.wait(seconds)

    def wake(self) -> None:
        """End a rest early. `stop` calls it after it has raised the stop flag."""

    def on_stop(self) -> None:
        """Called in the service's own thread when its loop has ended."""

    @property
    def is_running(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def start(self) -> None:
        """Start the loop; nothing happens when it runs already."""
        with self._lock:
            if self.is_running:
                return
            self._stopping = threading.Event()
            self._thread = threading.Thread(target=self._loop, args=(self._stopping,), name=self.name, daemon=True)
            self._thread.start()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask the loop to end and wait for it; nothing happens when it does not run."""
        with self._lock:
            thread = self._thread
            self._stopping.set()
            self.wake()
            if thread is None or thread is threading.current_thread():
                return
            thread.join(timeout_s)
            if thread.is_alive():
                raise TowpathError(f"{self.name} did not stop within {timeout_s:g} s; it is still at work")
            self._thread = None

    def _loop(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            rest_s = self._round()
            if rest_s > 0 and not stopping.is_set():
                self.rest(rest_s)
        self.on_stop()

    def _round(self) -> float:
        try:
            result = self.run_once()
        except Exception as error:
            return self._failed(error)
        self._worked()
        return result.rest_s

    def _failed(self, error: Exception) -> float:
        self._failures += 1
        pause: float = min(FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 10), self.longest_pause_s)
        pause *= random.uniform(1 - PAUSE_JITTER, 1 + PAUSE_JITTER)  # noqa: S311 - spreads retries, hides nothing
        if self._failures == 1:
            # A known error explains itself in one line; an unknown one needs its trace.
            logger.warning("%s failed: %s", self.name, error, exc_info=not isinstance(error, TowpathError))
            self.events.publish(Event(EventKind.SERVICE_FAILED, self.name, why=str(error)))
        return pause

    def _worked(self) -> None:
        if self._failures:
            logger.info("%s works again after %d failed rounds", self.name, self._failures)
            self.events.publish(Event(EventKind.SERVICE_RECOVERED, self.name, data={"failed_rounds": self._failures}))
            self._failures = 0
