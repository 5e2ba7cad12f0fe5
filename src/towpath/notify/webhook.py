"""Webhooks, signed as https://www.standardwebhooks.com says, so that receivers find a library that checks it.

`webhook-signature` is `v1,` and the base64 of HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`. The id stays
the same when a delivery is repeated; the time is that of the try, so that an old one cannot be sent again by others.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import time
from urllib.parse import urlsplit

from towpath.errors import BadSettings, NotDelivered
from towpath.notify.channel import cut_off_after, tls
from towpath.notify.digest import Digest
from towpath.settings import WebhookSettings

GONE = 410
MOST_READ_BYTES = 64 << 10
SECRET_PREFIX = "whsec_"  # noqa: S105 - how secrets begin, not one


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """What the receiver works out too."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key_of(secret), signed, hashlib.sha256).digest()).decode()


def key_of(secret: str) -> bytes:
    """The bytes of a secret: base64 behind `whsec_`, otherwise the text itself."""
    if not secret.startswith(SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise BadSettings("the secret of a webhook begins with whsec_ and is not base64 behind it") from None


class Webhook:
    """Posts to one address. Redirects are not followed: they would carry what is signed elsewhere."""

    def __init__(self, settings: WebhookSettings, timeout_s: float, ca_file: str) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._url = urlsplit(settings.url)
        self._tls = tls(ca_file) if self._url.scheme == "https" else None
        key_of(settings.secret)

    def send(self, message_id: str, found: Digest) -> None:
        body = json.dumps({"type": "towpath.notices", "id": message_id, "data": found}).encode()
        connection = self._connection()
        try:
            with cut_off_after(self._timeout_s, lambda: connection.sock):
                connection.request("POST", self._path(), body, self._headers(message_id, body))
                answer = connection.getresponse()
                answer.read(MOST_READ_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotDelivered(f"{self._where}: {_said(error)}") from error
        finally:
            connection.close()
        if not 200 <= answer.status < 300:
            raise NotDelivered(f"{self._where} answered {answer.status}", is_final=answer.status == GONE)

    @property
    def _where(self) -> str:
        """Without the path, which may hold a token."""
        return f"webhook {self._settings.name} at {self._url.hostname}"

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    def _path(self) -> str:
        return (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")

    def _headers(self, message_id: str, body: bytes) -> dict[str, str]:
        timestamp = int(time.time())
        return {
            "Content-Type": "application/json",
            "User-Agent": "towpath",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(self._settings.secret, message_id, timestamp, body),
        }


def _said(error: Exception) -> str:
    """What went wrong, without anything of the request."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or type(error).__name__
