"""Clients of the gateway: whose uploads they see, how fast they may be, and room for what is under way.

Each key has a bucket that fills at the rate of the settings and holds a few seconds of it. Something is let in while
there is anything in the bucket, and takes out all that it needs. So what is larger than the bucket comes through as
well, and the next one waits for it. It counts in this process: two gateways let twice as much in.

Whoever has to wait stands in a line, so that nothing fills the memory and no key keeps others out.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from towpath.access.roles import Principal, Role, Scope
from towpath.errors import TooFast
from towpath.settings import GatewaySettings
from towpath.web.auth import RequiredScope, runtime_of

BURST_S = 2.0
MOST_KEYS = 10_000
PATIENCE_S = 10.0
RETRY_S = 1.0
MOST_CHUNKS, MOST_CHUNKS_OF_ONE = 64, 16  # in memory
MOST_STREAMS, MOST_STREAMS_OF_ONE = 200, 50

MaySend = Annotated[Principal, Depends(RequiredScope(Scope.GATEWAY_SEND))]
MayReceive = Annotated[Principal, Depends(RequiredScope(Scope.GATEWAY_RECEIVE))]
MayLook = Annotated[Principal, Depends(RequiredScope(Scope.GATEWAY_SEND, Scope.GATEWAY_RECEIVE, Scope.READ))]
MayAbort = Annotated[Principal, Depends(RequiredScope(Scope.GATEWAY_SEND, Scope.DESK_WRITE))]


class Visitor:
    """One person at one request. An upload of somebody else is for them as if there was none."""

    def __init__(self, request: Request, principal: Principal) -> None:
        self.principal = principal
        self.runtime = runtime_of(request)
        self.limits: VisitorLimits = request.app.state.visitor_limits
        self.limits.rates.admit(self.key)

    @property
    def name(self) -> str:
        return self.principal.name

    @property
    def key(self) -> str:
        """What limits go by."""
        return self.principal.by

    def own(self, upload: str) -> str:
        """The id of their upload, as it is kept; raises `UnknownUpload` when it is another's."""
        return self.runtime.gateway.status(upload, owner=self.name).upload.id


def seen_of(principal: Principal) -> str | None:
    """Whose uploads somebody sees; none: everybody's."""
    sees_all = principal.role is not Role.VIEWER and Scope.READ in principal.scopes
    return None if sees_all else principal.name


def ended_by(principal: Principal) -> str | None:
    """Whose uploads somebody may give up; none: everybody's."""
    return None if Scope.DESK_WRITE in principal.scopes else principal.name


def _sender(request: Request, principal: MaySend) -> Visitor:
    return Visitor(request, principal)


def _receiver(request: Request, principal: MayReceive) -> Visitor:
    return Visitor(request, principal)


def _viewer(request: Request, principal: MayLook) -> Visitor:
    return Visitor(request, principal)


def _ender(request: Request, principal: MayAbort) -> Visitor:
    return Visitor(request, principal)


ASender = Annotated[Visitor, Depends(_sender)]
AReceiver = Annotated[Visitor, Depends(_receiver)]
AViewer = Annotated[Visitor, Depends(_viewer)]  # may see how far an upload is: its owner, and operators
AnEnder = Annotated[Visitor, Depends(_ender)]  # may give an upload up: its owner, and operators


class VisitorLimits:
    """What all visitors of one process share."""

    def __init__(self, settings: GatewaySettings, threads: int) -> None:
        self.rates = Rates(settings.requests_per_s, settings.bytes_per_s, time.monotonic)
        self.streams = RequestSlots("streams", MOST_STREAMS, MOST_STREAMS_OF_ONE)
        self.ending = threading.Event()  # the process was told to stop
        self._lines = WaitingLines()
        self._most_takes = max(1, threads // 2)

    @asynccontextmanager
    async def room_for_chunk(self, key: str) -> AsyncIterator[None]:
        """For the body of one more."""
        async with self._lines.one_of(MOST_CHUNKS_OF_ONE, "key", key), self._lines.one_of(MOST_CHUNKS, "chunks"):
            yield

    @asynccontextmanager
    async def turn_of(self, upload: str, sender: str) -> AsyncIterator[None]:
        """Chunks of one sender come one after the other; half of the threads are for other requests."""
        async with self._lines.one_of(1, "sender", upload, sender), self._lines.one_of(self._most_takes, "takes"):
            yield


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


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float


class RequestSlots:
    """So many at once in this process, and a part of them for one key. Used from the event loop only."""

    def __init__(self, what: str, most: int, most_of_one: int) -> None:
        self._what = what
        self._most = most
        self._most_of_one = most_of_one
        self._taken: Counter[str] = Counter()

    def check(self, key: str) -> None:
        """Raises `TooFast` when there is no room."""
        if self._taken[key] >= self._most_of_one:
            raise TooFast(f"this key has {self._most_of_one} {self._what} under way, which is the most", RETRY_S)
        if self._taken.total() >= self._most:
            raise TooFast(f"the server has {self._most} {self._what} under way, which is the most", RETRY_S)

    @contextmanager
    def held(self, key: str) -> Iterator[None]:
        """One more is under way."""
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            self._taken += Counter()  # forgets the keys that have none


class WaitingLines:
    """Who has to wait does so in order, and where it takes no thread and no memory for a body.

    A client that was cut off comes back while its last request is still being worked on; one that sends a hundred
    chunks at once must not keep others out.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[object, ...], _Line] = {}

    @asynccontextmanager
    async def one_of(self, most: int, *name: str) -> AsyncIterator[None]:
        """One of so many under that name; raises `TooFast` when none of them ends for long."""
        full_name = (id(asyncio.get_running_loop()), *name)
        line = self._lines.setdefault(full_name, _Line(asyncio.Semaphore(most)))
        line.people += 1
        try:
            await self._enter(line, most)
            try:
                yield
            finally:
                line.room.release()
        finally:
            line.people -= 1
            if line.people == 0:
                self._lines.pop(full_name, None)

    async def _enter(self, line: _Line, most: int) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await line.room.acquire()
        except TimeoutError:
            raise TooFast(f"too much is under way: {most} at once is the most", RETRY_S) from None


@dataclass(slots=True)
class _Line:
    room: asyncio.Semaphore
    people: int = 0  # inside and waiting
