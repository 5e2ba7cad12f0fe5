"""The channels by which a message reaches people: webhooks and e-mail.

Webhooks are signed as https://www.standardwebhooks.com says, so that receivers find a library that checks it.
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
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from email.utils import formatdate
from typing import Protocol
from urllib.parse import urlsplit

from towpath.errors import BadSettings, NotDelivered
from towpath.notify.model import Digest, as_text, one_line
from towpath.settings import EmailSettings, SmtpSettings, WebhookSettings

LONGEST_SUBJECT = 150  # of an e-mail
GONE = 410  # the receiver says that it will never take webhooks again
MOST_READ_BYTES = 64 << 10  # of an answer
SECRET_PREFIX = "whsec_"  # noqa: S105 - how secrets begin, not one


class Channel(Protocol):
    """One way to people."""

    def send(self, message_id: str, found: Digest) -> None:
        """Deliver it, or raise `NotDelivered`; the same id again is the same message."""


class Email:
    """Writes to the people of one target."""

    def __init__(self, settings: EmailSettings, smtp: SmtpSettings, timeout_s: float, ca_file: str) -> None:
        self._settings = settings
        self._smtp = smtp
        self._timeout_s = timeout_s
        self._tls = None if smtp.security == "none" else tls(ca_file)

    def send(self, message_id: str, found: Digest) -> None:
        server = self._server()
        try:
            with cut_off_after(self._timeout_s, lambda: getattr(server, "sock", None)):
                self._talk(server, self._mail(message_id, found))
        except smtplib.SMTPResponseException as error:
            raise NotDelivered(f"{self._where} answered {error.smtp_code}") from error
        except (OSError, smtplib.SMTPException) as error:
            raise NotDelivered(f"{self._where}: {_mail_failure(error)}") from error
        finally:
            server.close()

    @property
    def _where(self) -> str:
        return f"mail server {self._smtp.host} for {self._settings.name}"

    def _server(self) -> smtplib.SMTP:
        if self._smtp.security == "tls":
            return smtplib.SMTP_SSL(timeout=self._timeout_s, context=self._tls, local_hostname=socket.gethostname())
        return smtplib.SMTP(timeout=self._timeout_s, local_hostname=socket.gethostname())

    def _talk(self, server: smtplib.SMTP, mail: EmailMessage) -> None:
        server._host = self._smtp.host  # type: ignore[attr-defined]  # by it the certificate is checked
        server.connect(self._smtp.host, self._smtp.port)
        if self._smtp.security == "starttls":
            server.starttls(context=self._tls)
        if self._smtp.user:
            server.login(self._smtp.user, self._smtp.password)
        server.send_message(mail)

    def _mail(self, message_id: str, found: Digest) -> EmailMessage:
        mail = EmailMessage()
        mail["From"] = self._smtp.sender
        mail["To"] = ", ".join(self._settings.to)
        mail["Subject"] = f"[Towpath] {one_line(found['title'])}"[:LONGEST_SUBJECT]
        mail["Date"] = formatdate()
        # The same when it is sent again: mailboxes and people can tell.
        mail["Message-ID"] = f"<{message_id}@{self._smtp.sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(as_text(found))
        return mail


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
            raise NotDelivered(f"{self._where}: {_failure(error)}") from error
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


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The signature that the receiver computes too."""
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


@contextmanager
def cut_off_after(seconds: float, sock: Callable[[], socket.socket | None]) -> Iterator[None]:
    """End the connection when its time is over: a socket's own timeout starts anew with each byte that drips in."""
    is_cut = threading.Event()

    def cut() -> None:
        is_cut.set()
        found = sock()
        if found is not None:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if is_cut.is_set():
            raise TimeoutError("cut off") from error
        raise
    finally:
        timer.cancel()
    if is_cut.is_set():
        raise TimeoutError("cut off")  # what was read until then may look like an answer


def tls(ca_file: str) -> ssl.SSLContext:
    """Certificates and names are checked, always."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:  # also a file that holds none
        raise BadSettings(f"notify.ca_file: {ca_file}: {error.strerror or 'holds no certificate'}") from error


def _mail_failure(error: Exception) -> str:
    if isinstance(error.__context__, TimeoutError):  # which smtplib calls a hang-up
        return _failure(error.__context__)
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "all recipients were refused"
    return _failure(error)


def _failure(error: Exception) -> str:
    """What went wrong, without anything of the request."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or type(error).__name__
