"""Servers that take notifications: HTTP and SMTP, plain and with TLS, well and badly behaved. Real sockets."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import trustme
from tests.support.http_server import LOOPBACK, serving

from towpath.testing.clock import wait_until

RIGHT = "right"  # the password of every mail server here


@dataclass
class Post:
    """One request that came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Hook:
    """A webhook. `statuses` are given one after the other; the last one stays."""

    url: str = ""
    posts: list[Post] = field(default_factory=list)
    statuses: list[int] = field(default_factory=lambda: [204])

    def wait(self, count: int, timeout_s: float = 30) -> list[Post]:
        wait_until(lambda: len(self.posts) >= count, timeout_s, f"{count} deliveries")
        return self.posts


@contextmanager
def webhook(tls: ssl.SSLContext | None = None) -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.posts.append(Post(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            status = hook.statuses[0] if len(hook.statuses) == 1 else hook.statuses.pop(0)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{hook.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with serving(Handler, tls) as url:
        hook.url = f"{url}/hooks/secret-token"
        yield hook


@contextmanager
def listener(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where each connection is given to `talk`, in a thread of its own."""
    ended = threading.Event()
    server = socket.create_server((LOOPBACK, 0))
    server.settimeout(0.05)
    threads: list[threading.Thread] = []

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError, ssl.SSLError):
            talk(connection)

    def accept() -> None:
        while not ended.is_set():
            with suppress(TimeoutError):
                connection, _ = server.accept()
                connection.settimeout(30)
                threads.append(threading.Thread(target=one, args=(connection,), daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield server.getsockname()[1]
    finally:
        ended.set()
        accepting.join(10)
        server.close()


@contextmanager
def hanging() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    gone = threading.Event()

    def talk(connection: socket.socket) -> None:
        gone.wait(60)

    with listener(talk) as port:
        try:
            yield port
        finally:
            gone.set()


@contextmanager
def dripping() -> Iterator[int]:
    """A port that answers with a byte at a time, without end: no read ever takes long."""
    gone = threading.Event()

    def talk(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while not gone.wait(0.05):
            connection.sendall(b"x")

    with listener(talk) as port:
        try:
            yield port
        finally:
            gone.set()


@dataclass
class Mailbox:
    """A mail server, and what it has taken."""

    port: int = 0
    mails: list[Message] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    log_ins: list[tuple[str, str]] = field(default_factory=list)
    were_encrypted: list[bool] = field(default_factory=list)
    refusals: int = 0  # so many mails are refused for now


@contextmanager
def mail_server(tls: ssl.SSLContext | None = None, *, at_once: bool = False) -> Iterator[Mailbox]:
    """Speaks as much SMTP as is needed: STARTTLS, or TLS from the start with `at_once`."""
    box = Mailbox()

    def talk(connection: socket.socket) -> None:
        if tls is not None and at_once:
            connection = tls.wrap_socket(connection, server_side=True)
        smtp = _Smtp(box, connection, None if at_once else tls)
        try:
            smtp.run()
        finally:
            smtp.close()

    with listener(talk) as port:
        box.port = port
        yield box


class _Smtp:
    def __init__(self, box: Mailbox, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
        self._box = box
        self._tls = tls
        self._connection = connection
        self._lines = connection.makefile("rb")

    def close(self) -> None:
        self._lines.close()
        self._connection.close()

    def say(self, *lines: str) -> None:
        self._connection.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def run(self) -> None:
        self.say("220 test")
        while line := self._lines.readline():
            word, _, rest = line.decode("latin-1").strip().partition(" ")
            if not self.answer(word.upper(), rest):
                return

    def answer(self, word: str, rest: str) -> bool:
        match word:
            case "EHLO":
                offered = ["250-STARTTLS"] if self._tls is not None else []
                self.say("250-test", *offered, "250 AUTH PLAIN")
            case "STARTTLS" if self._tls is not None:
                self.say("220 go on")
                self._lines.close()
                self._connection = self._tls.wrap_socket(self._connection, server_side=True)
                self._lines = self._connection.makefile("rb")
                self._tls = None
            case "AUTH":
                _, user, password = base64.b64decode(rest.split()[1]).decode().split("\0")
                self._box.log_ins.append((user, password))
                self.say("235 welcome" if password == RIGHT else "535 no")
            case "RCPT":
                self._box.recipients.append(rest)
                self.say("250 ok")
            case "DATA":
                self.say("354 go on")
                self.take()
            case "QUIT":
                self.say("221 bye")
                return False
            case _:
                self.say("250 ok")
        return True

    def take(self) -> None:
        lines = []
        while (line := self._lines.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        if self._box.refusals:
            self._box.refusals -= 1
            self.say("451 later")
            return
        self._box.mails.append(message_from_bytes(b"".join(lines)))
        self._box.were_encrypted.append(isinstance(self._connection, ssl.SSLSocket))
        self.say("250 taken")


@dataclass(frozen=True)
class Certificates:
    """What a server on the loopback interface shows, and the file of who has signed it."""

    server: ssl.SSLContext
    ca_file: str


def certificates(home: Path) -> Certificates:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(LOOPBACK).configure_cert(server)
    ca_file = home / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    return Certificates(server, str(ca_file))
