"""The body of a chunk while it comes: counted, not waited for too long, and read to its end before it is answered.

A client that has a connection reset under it while it still sends may never read why. So what is refused early is read
all the same and thrown away, up to a size and a time.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi.responses import Response
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from towpath.errors import ChunkTooLarge
from towpath.web.failures import failure, of_towpath

DRAIN_S = 10.0
DRAIN_BYTES = 256 << 20
LONGEST_S = 300.0  # of a body that comes drop by drop


class NotWhole(Exception):
    """The body did not come, or not as it may be; the request is answered with this."""

    def __init__(self, answer: Response, *, is_too_large: bool = False) -> None:
        self.answer = answer
        self.is_too_large = is_too_large


class Incoming:
    """What the server gets of one body."""

    def __init__(self, scope: Scope, receive: Receive, chunk_bytes: int, timeout_s: float) -> None:
        self._receive = receive
        self._chunk_bytes = chunk_bytes
        self._most_bytes = chunk_bytes + chunk_bytes // 1000 + 1024  # what cannot be packed becomes a little longer
        self._timeout_s = timeout_s
        self._ends_at_s = asyncio.get_running_loop().time() + LONGEST_S
        self._come = 0
        self._is_whole = False
        length = Headers(scope=scope).get("content-length", "")
        self._is_too_large = length.isdigit() and int(length) > self._most_bytes

    async def receive(self) -> Message:
        """The next piece; raises `NotWhole`."""
        if self._is_whole:
            return await self._receive()
        if self._is_too_large:
            raise self._too_large()
        try:
            async with asyncio.timeout_at(self._latest_s()):
                message = await self._next()
        except TimeoutError:
            raise NotWhole(failure(408, "request_timeout", "the body did not come in time")) from None
        if message["type"] == "http.disconnect":
            raise NotWhole(failure(400, "cut_off", "the body did not come whole; nothing of it was taken"))
        if self._is_too_large:
            raise self._too_large()
        return message

    async def drain(self) -> None:
        """Read what is left and throw it away, unless that is too much or takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while not self._is_whole and self._come <= DRAIN_BYTES:
                    await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        self._come += len(message.get("body", b""))
        self._is_whole = message["type"] == "http.disconnect" or not message.get("more_body", False)
        self._is_too_large = self._come > self._most_bytes
        return message

    def _latest_s(self) -> float:
        return min(self._ends_at_s, asyncio.get_running_loop().time() + self._timeout_s)

    def _too_large(self) -> NotWhole:
        answer = of_towpath(ChunkTooLarge(self._chunk_bytes))
        answer.headers["Connection"] = "close"
        return NotWhole(answer, is_too_large=True)
