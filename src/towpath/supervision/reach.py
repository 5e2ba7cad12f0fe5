"""How the coordinator reaches processes: by its own hands on its host, by request on the others. Nothing here waits.

What is under way is not begun a second time; what came to nothing can be asked for again at the next look.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from towpath.clock import Clock
from towpath.errors import LauncherError, TowpathError
from towpath.queue import Outbox, Queue
from towpath.supervision.agent import OUTBOX, REQUEST_TTL_S, inbox_of
from towpath.supervision.duty import Duty
from towpath.supervision.hands import Hands

logger = logging.getLogger(__name__)

WORKERS = 8
ASK_AGAIN_S = 3.0


class Reach:
    """`start`, `stop` and `kill` of a duty's present launch, wherever it runs."""

    def __init__(self, host: str, hands: Hands, queue: Queue, clock: Clock) -> None:
        self._host = host
        self._hands = hands
        self._queue = queue
        self._clock = clock
        self._outbox: Outbox | None = None
        self._lock = threading.Lock()
        self._under_way: set[tuple[str, str]] = set()
        self._asked_at: dict[tuple[str, str], float] = {}
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="hands")

    def is_here(self, duty: Duty) -> bool:
        return duty.host == self._host

    def being_started(self) -> set[str]:
        """The ids of launches at which a launcher of this host is now."""
        with self._lock:
            return {launch_id for verb, launch_id in self._under_way if verb == "start"}

    def do(self, verb: str, duty: Duty) -> None:
        """Have it done, unless it is being done."""
        key = verb, duty.launch_id or ""
        if not self.is_here(duty):
            self._ask(key, duty)
        elif self._begin(key):
            self._pool.submit(self._work, key, duty)

    def forget(self, launch_ids: set[str]) -> None:
        """Only these launches are there any more."""
        self._asked_at = {key: at for key, at in self._asked_at.items() if key[1] in launch_ids}

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, key: tuple[str, str]) -> bool:
        with self._lock:
            is_new = key not in self._under_way
            self._under_way.add(key)
        return is_new

    def _work(self, key: tuple[str, str], duty: Duty) -> None:
        try:
            getattr(self._hands, key[0])(duty)
        except LauncherError as error:
            logger.warning("cannot %s %s: %s", key[0], duty.name, error)
        except TowpathError as error:
            logger.warning("%s of %s came to nothing: %s", key[0], duty.name, error)
        except Exception:
            logger.exception("%s of %s came to nothing", key[0], duty.name)
        finally:
            with self._lock:
                self._under_way.discard(key)

    def _ask(self, key: tuple[str, str], duty: Duty) -> None:
        now = self._clock.monotonic()
        if now - self._asked_at.get(key, float("-inf")) < ASK_AGAIN_S:
            return
        self._asked_at[key] = now
        if self._outbox is None:
            self._outbox = self._queue.outbox(OUTBOX)
        self._queue.inbox(inbox_of(duty.host))  # so that it is known before a peer of that host runs
        payload = {"duty": duty.name, "launch_id": duty.launch_id}
        self._outbox.notice(inbox_of(duty.host), key[0], payload, ttl_s=REQUEST_TTL_S)
