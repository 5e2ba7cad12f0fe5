"""One connection to a server: its address, the API key, and what an answer means that is no success.

A request gets an answer, or nothing is known (`Cut`). An answer that is no success means later (`Later`), never, or
that another client has taken over. The key comes from a variable or a file, never from a command line.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from towpath.errors import BadSettings, BadValue, GatewayRefused, SenderReplaced

PREFIX = "/gateway/v1"
CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 60.0
IDLE_S = 3.0  # a server closes connections that nobody uses; ours is then the older one
MOST_ANSWER_BYTES = 64 << 20
LONGEST_RETRY_AFTER_S = 3600.0
VARIABLE = "TOWPATH_KEY"

LATER = frozenset({425, 429, 502, 503, 504})
FAULT = 500
TOO_SLOW = 408
REPLACED = "session_replaced"
RUNNING = "request_running"  # the same request, sent by us before, is still being worked on
CUT_OFF = "cut_off"


class Connection:
    """For one thread. Opened when it is needed, and again after it broke."""

    def __init__(self, address: ServerAddress, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._open: http.client.HTTPConnection | None = None
        self._used_at = 0.0

    def ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """The answer to one request; `Cut` when there is none."""
        connection = self._ready()
        try:
            return self._ask(connection, method, path, body, headers)
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
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> HttpAnswer:
        # A server that refuses a body may close before it has read all of it; it has said why before.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, self._address.path + path, body, dict(headers))
        got = connection.getresponse()
        read = _whole(got)
        self._used_at = time.monotonic()
        if got.will_close:
            self.close()
        return HttpAnswer(got.status, {name.lower(): value for name, value in got.getheaders()}, read)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer of a server."""

    status: int
    headers: Mapping[str, str]  # names in small letters
    body: bytes


class Later(Exception):
    """The same question may get another answer in a while. The text says why."""

    def __init__(self, why: str, at_least_s: float = 0.0) -> None:
        super().__init__(why)
        self.at_least_s = at_least_s


class Cut(Later):
    """No answer came: what was asked has been done, or not."""


class Unreachable(Cut):
    """There is no connection: nothing was asked."""


@dataclass(frozen=True)
class ServerAddress:
    """A server's address, checked. A key is sent in the clear only within this machine, or where it is asked for."""

    url: str
    ca_file: Path | None = None
    is_plain_allowed: bool = False
    prefix: str = PREFIX  # of the paths that are asked for

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise BadValue(f"{self.url!r} is no address of a server; it looks like https://towpath.example.org")
        if parts.username is not None or parts.password is not None:
            raise BadValue("the address of a server holds no password: the key comes from TOWPATH_KEY or --key-file")
        try:
            _ = parts.port
        except ValueError:
            raise BadValue(f"{self.url!r}: the port is not a number from 1 to 65535") from None
        if parts.scheme == "http" and not self.is_plain_allowed and not _is_loopback(parts.hostname):
            raise BadValue(
                f"{self.url}: over http others on the way could read the key; use https, or say --plain-http where "
                "the way is safe"
            )
        _ = self._tls

    @property
    def path(self) -> str:
        """The prefix of every path that is asked for."""
        return urlsplit(self.url).path.rstrip("/") + self.prefix

    def connection(self) -> http.client.HTTPConnection:
        """One that is not open yet."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if self._tls is None:
            return http.client.HTTPConnection(host, parts.port, timeout=CONNECT_TIMEOUT_S)
        return http.client.HTTPSConnection(host, parts.port, timeout=CONNECT_TIMEOUT_S, context=self._tls)

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        if urlsplit(self.url).scheme == "http":
            return None
        try:
            return ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        except (OSError, ssl.SSLError) as error:
            raise BadValue(f"the certificates of {self.ca_file} cannot be read: {error.strerror or error}") from error


class ClientKey:
    """A key that does not show itself: neither in logs nor in traces."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise BadSettings(
                "the key is not one line of printable characters without spaces; `towpath key make` shows one"
            )
        self._text = text

    @property
    def header(self) -> str:
        return f"Bearer {self._text}"

    def __repr__(self) -> str:
        return "Key(***)"


def find_key(file: Path | None) -> ClientKey:
    """The key of that file, otherwise the one of the variable."""
    if file is not None:
        return ClientKey(_read_key(file))
    found = os.environ.get(VARIABLE, "").strip()
    if not found:
        raise BadSettings(
            f"there is no key: put it into the variable {VARIABLE}, or into a file and say --key-file FILE"
        )
    return ClientKey(found)


def check(answer: HttpAnswer) -> HttpAnswer:
    """The answer, if it is a success; otherwise `Later`, or the error that it means."""
    if 200 <= answer.status < 300:
        return answer
    refusal = ServerRefusal.read(answer)
    if answer.status == TOO_SLOW or refusal.code == CUT_OFF:
        raise Cut(refusal.message)
    if answer.status in LATER or answer.status == FAULT or refusal.code == RUNNING:
        raise Later(refusal.message, _retry_after_s(answer))
    raise refusal.error()


@dataclass(frozen=True, slots=True)
class ServerRefusal:
    """An error in the one shape that the gateway has for it, or as much as can be read from another server's."""

    status: int
    code: str
    message: str
    details: Mapping[str, Any]

    @classmethod
    def read(cls, answer: HttpAnswer) -> ServerRefusal:
        try:
            said = json.loads(answer.body)["error"]
            details = said["details"] if isinstance(said["details"], dict) else {}
            return cls(answer.status, str(said["code"]), str(said["message"]), details)
        except (ValueError, KeyError, TypeError):
            return cls(answer.status, "", _message_of_stranger(answer), {})

    def error(self) -> GatewayRefused | SenderReplaced:
        if self.code == REPLACED:
            return SenderReplaced(
                f"{self.message}: another sender has taken over this part of the upload, with the same state file or "
                "key. What was acknowledged is safe; end the other one if this one is to go on"
            )
        return GatewayRefused(self.status, self.code, self.message, self.details)


def _whole(got: http.client.HTTPResponse) -> bytes:
    """The body; an error when it was cut off, for half of the rows would pass for all of them."""
    if got.length is not None and got.length > MOST_ANSWER_BYTES:
        raise OSError(f"an answer of more than {MOST_ANSWER_BYTES:,} bytes")
    if got.length is None and not got.chunked and got.status < 300:
        raise OSError("an answer that does not say where it ends")
    return got.read()  # given a number of bytes, it would not mind that there are fewer


def _said(error: Exception) -> str:
    """What went wrong, without anything of the request, since that carries the key."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"what answers there does not speak TLS as this machine does ({error.reason or error}); is it http?"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer was cut off"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the connection was closed without an answer"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _retry_after_s(answer: HttpAnswer) -> float:
    try:
        return min(max(0.0, float(answer.headers.get("retry-after", "0"))), LONGEST_RETRY_AFTER_S)
    except ValueError:
        return 0.0  # a date: no server of ours says one


def _message_of_stranger(answer: HttpAnswer) -> str:
    if 300 <= answer.status < 400:
        return f"answered {answer.status} and points to {answer.headers.get('location', 'nowhere')}; give that address"
    return f"answered {answer.status}, and not as Towpath does; is that the right address?"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_key(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"the key cannot be read from {file}: {getattr(error, 'strerror', None) or error}") from error
