"""E-mail through a mail server."""

from __future__ import annotations

import smtplib
import socket
from email.message import EmailMessage
from email.utils import formatdate

from towpath.errors import NotDelivered
from towpath.notify.channel import cut_off_after, tls
from towpath.notify.digest import Digest, as_text, one_line
from towpath.settings import EmailSettings, SmtpSettings

LONGEST_SUBJECT = 150


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
            raise NotDelivered(f"{self._where}: {_said(error)}") from error
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


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):  # which smtplib calls a hang-up
        return "no answer in time"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "all recipients were refused"
    return getattr(error, "strerror", None) or type(error).__name__
