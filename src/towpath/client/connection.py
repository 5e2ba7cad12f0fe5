"""One connection to a server: a question, an answer, or nothing is known."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass

from towpath.client.address import Address
from towpath.errors import BadValue

ANSWER_TIMEOUT_S = 60.0
IDLE_S = 3.0  # a server closes connections that nobody uses; ours is then the older one
MOST_ANSWER_BYTES = 64 << 20


class Later(Exception):
    """The same question may get another answer in a while. The text says why."""

    def __init__(self, why: str, at_least_s: float = 0.0) -> None:
        super().__init__(why)
        self.at_least_s = at_least_s


class Cut(Later):
    """No answer came: what was asked has been done, or not."""


class Unreachable(Cut):
    """There is no connection: nothing was asked."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    status: int
    headers: Mapping[str, str]  # names in small letters
    body: bytes


class Connection:
    """For one thread. Opened when it is needed, and again after it broke."""

    def __init__(self, address: Address, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._open: http.client.HTTPConnection | None = None
        self._used_at = 0.0

    def ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """The answer to one request; `Cut` when there is none."""
        way = self._ready()
        try:
            return self._ask(way, method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Cut(_said(error)) from error

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _ready(self) -> http.client.HTTPConnection:
        if self._open is not None and time.monotonic() - self._used_at > IDLE_S:
            self.close()
        if self._open is None:
            self._open = self._made()
        return self._open

    def _made(self) -> http.client.HTTPConnection:
        made = self._address.connection()
        try:
            made.connect()
        except ssl.SSLCertVerificationError as error:
            made.close()
            raise BadValue(
                f"the certificate of {self._address.url} does not count here: {error.verify_message}; "
                "--ca-file names the certificates that do"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            made.close()
            raise Unreachable(_said(error)) from error
        made.sock.settimeout(self._timeout_s)
        return made

    def _ask(
        self, way: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer:
        # A server that refuses a body may close before it has read all of it; why, it has said before.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            way.request(method, self._address.path + path, body, dict(headers))
        got = way.getresponse()
        read = _whole(got)
        self._used_at = time.monotonic()
        if got.will_close:
            self.close()
        return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, read)


def _whole(got: http.client.HTTPResponse) -> bytes:
    """The body; an error when it was cut off, for half of the rows would pass for all of them."""
    if got.length is not None and got.length > MOST_ANSWER_BYTES:
        raise OSError(f"an answer of more than {MOST_ANSWER_BYTES:,} bytes")
    if got.length is None and not got.chunked and got.status < 300:
        raise OSError("an answer that does not say where it ends")
    return got.read()  # given a number of bytes, it would not mind that there are fewer


def _said(error: Exception) -> str:
    """What went wrong, without anything of the request: it carries the key."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"what answers there does not speak TLS as this machine does ({error.reason or error}); is it http?"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer was cut off"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the connection was closed without an answer"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
