"""What every request passes: its id, the name it was asked under, its size; and what every answer carries.

A body is read before anything else is done, except the body of a chunk of an upload. That can be large, so the route
first finds out who sends it and then reads it through `BodyReader`: counted, not waited for too long, and read to its
end before it is answered.

A client whose connection is reset while it still sends may never read why. So what is refused early is read all the
same and thrown away, up to a size and a time.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from uuid import uuid4

from fastapi.responses import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from towpath.errors import ChunkTooLarge
from towpath.web.failures import COMPLAINTS, GATEWAY, failure, of_towpath, unexpected
from towpath.web.metrics import ApiMetrics

logger = logging.getLogger(__name__)

DRAIN_S = 10.0
DRAIN_BYTES = 256 << 20
LONGEST_S = 300.0  # of a body that comes drop by drop
BODY_TIMEOUT_S = 30.0
STRANGERS_BODY_BYTES = 64 << 10  # of who needs no key
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
REQUEST_ID = "X-Request-ID"
_GIVEN_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
_CHUNK = re.compile(rf"{GATEWAY}/uploads/[^/]+/senders/[^/]+/chunks")
SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class RequestMiddleware:
    """Around the whole app. A host that is not ours is refused: a page whose name points here cannot use a browser."""

    def __init__(
        self, app: ASGIApp, hosts: Iterable[str], max_body_bytes: int, chunk_bytes: int, metrics: ApiMetrics
    ) -> None:
        self._app = app
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in hosts}
        self._max_body_bytes = max_body_bytes
        self._chunk_bytes = chunk_bytes
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.monotonic()
        answer = _Answer(send, _request_id(scope))
        scope.setdefault("state", {})["request_id"] = answer.request_id
        try:
            self._check_host(scope)
            if _CHUNK.fullmatch(scope["path"]):
                await self._pass_chunk(scope, receive, answer)
                return
            body = await self._read(scope, receive)
            scope["state"] |= {"asked": _asked(scope, body), "body": body}
            await self._app(scope, _replayed(body, receive), answer.send)
        except _Refused as refused:
            await refused.answer(scope, receive, answer.send)
        except Exception:
            logger.exception("a request failed", extra={"request_id": answer.request_id, "path": scope["path"]})
            if answer.has_begun:
                raise  # the client sees that the answer was cut off
            as_page = "text/html" in Headers(scope=scope).get("accept", "")
            await unexpected(as_page=as_page)(scope, receive, answer.send)
        finally:
            self._metrics.observe(scope, answer.status, time.monotonic() - begun)

    def _check_host(self, scope: Scope) -> None:
        host = Headers(scope=scope).get("host", "")
        name = host.lower() if host.endswith("]") else host.rpartition(":")[0].lower() or host.lower()
        if name not in self._hosts:
            message = "this server does not answer under that name; the setting api.hosts says which it has"
            raise _Refused(failure(421, "unknown_host", message))

    async def _pass_chunk(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        """Let the route read the body. Whatever is answered, the rest of it is read first."""
        reader = BodyReader(scope, receive, self._chunk_bytes, BODY_TIMEOUT_S)
        answer.before = reader.drain
        try:
            await self._app(scope, reader.receive, answer.send)
        except NotWhole as wrong:
            if not wrong.is_too_large:
                answer.before = None
            await wrong.answer(scope, receive, answer.send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, or `_Refused` when it is too large or too slow."""
        most = min(self._max_body_bytes, STRANGERS_BODY_BYTES if scope["path"] == COMPLAINTS else self._max_body_bytes)
        length = Headers(scope=scope).get("content-length", "0")
        if length.isdigit() and int(length) > most:
            raise self._too_large(most)
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                return await self._gather(receive, most)
        except TimeoutError:
            raise _Refused(failure(408, "request_timeout", "the body did not come in time")) from None

    async def _gather(self, receive: Receive, most: int) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Refused(failure(400, "cut_off", "the body did not come whole"))
            body += message.get("body", b"")
            if len(body) > most:
                raise self._too_large(most)
            if not message.get("more_body", False):
                return bytes(body)

    def _too_large(self, most: int) -> _Refused:
        setting = " (setting api.max_body_bytes)" if most == self._max_body_bytes else ""
        message = f"the body has more than {most:,} bytes{setting}"
        return _Refused(failure(413, "too_large", message, headers={"Connection": "close"}))


class NotWhole(Exception):
    """The body did not come, or not as it may be; the request is answered with this."""

    def __init__(self, answer: Response, *, is_too_large: bool = False) -> None:
        self.answer = answer
        self.is_too_large = is_too_large


class BodyReader:
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


class _Refused(Exception):
    """The request is answered here."""

    def __init__(self, answer: Response) -> None:
        self.answer = answer


class _Answer:
    """Adds what every answer carries, and remembers its status."""

    def __init__(self, send: Send, request_id: str) -> None:
        self.request_id = request_id
        self.status = 500
        self.has_begun = False
        self.before: Callable[[], Awaitable[None]] | None = None
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.before is not None:
                await self.before()
            self.has_begun = True
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            headers[REQUEST_ID] = self.request_id
        await self._send(message)


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).get(REQUEST_ID, "")
    return given if _GIVEN_ID.fullmatch(given) else uuid4().hex


def _asked(scope: Scope, body: bytes) -> str:
    """What was asked, as one hash: method, path, query and body."""
    parts = (scope["method"].encode(), scope["path"].encode(errors="replace"), scope["query_string"])
    head = b"\n".join(str(len(part)).encode() + b" " + part for part in parts)
    return hashlib.sha256(head + b"\n" + body).hexdigest()


def _replayed(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    is_read = False

    async def again() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
