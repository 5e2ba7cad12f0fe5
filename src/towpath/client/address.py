"""Where a server is, and how to talk to it."""

from __future__ import annotations

import http.client
import ipaddress
import ssl
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from towpath.errors import BadValue

PREFIX = "/gateway/v1"
CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Address:
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
        """What stands before every path that is asked for."""
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


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
