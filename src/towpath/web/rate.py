"""How much may be asked and sent with one key: requests and bytes a second, as the settings say.

Each key has a bucket that fills at the rate and holds a few seconds of it. Something is let in while there is anything
in the bucket, and takes out all that it needs, so that what is larger than the bucket comes through as well, and the
next one waits for it. It counts in this process: two gateways let twice as much in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from towpath.errors import TooFast

BURST_S = 2.0
MOST_KEYS = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float


class Rate:
    """So much of one thing a second, by key; none: as much as anybody likes."""

    def __init__(self, per_s: float | None, clock: Callable[[], float]) -> None:
        self._per_s = per_s
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._lock = threading.Lock()

    def wait_s(self, key: str) -> float:
        """How long this key has to wait; 0: it may go on."""
        if self._per_s is None:
            return 0.0
        with self._lock:
            return max(0.0, -self._filled(key, self._per_s).left / self._per_s)

    def spend(self, key: str, amount: float) -> None:
        """This much was let in."""
        if self._per_s is not None:
            with self._lock:
                self._filled(key, self._per_s).left -= amount

    def _filled(self, key: str, per_s: float) -> _Bucket:
        now_s, most = self._clock(), max(1.0, per_s * BURST_S)
        bucket = self._buckets.get(key)
        if bucket is None:
            self._forget_full(now_s, per_s, most)
            bucket = self._buckets[key] = _Bucket(most, now_s)
        bucket.left = min(most, bucket.left + (now_s - bucket.at_s) * per_s)
        bucket.at_s = now_s
        return bucket

    def _forget_full(self, now_s: float, per_s: float, most: float) -> None:
        """A full bucket is like a new one."""
        if len(self._buckets) >= MOST_KEYS:
            kept = {k: b for k, b in self._buckets.items() if b.left + (now_s - b.at_s) * per_s < most}
            self._buckets = kept


class Rates:
    """What one key may do at the gateway."""

    def __init__(self, requests_per_s: float | None, bytes_per_s: float | None, clock: Callable[[], float]) -> None:
        self._requests = Rate(requests_per_s, clock)
        self._bytes = Rate(bytes_per_s, clock)

    def admit(self, key: str) -> None:
        """One more request; raises `TooFast`."""
        for rate, what in ((self._requests, "requests"), (self._bytes, "bytes")):
            if (wait_s := rate.wait_s(key)) > 0:
                raise TooFast(f"this key has sent more {what} than gateway.{what}_per_s allows", wait_s)
        self._requests.spend(key, 1)

    def spend_bytes(self, key: str, amount: int) -> None:
        """A body of that many bytes has come."""
        self._bytes.spend(key, amount)
