"""A server that answers as a test has written it down: for what a real gateway does seldom, or never."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.http_server import serving


@dataclass(frozen=True)
class Asked:
    """One request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Says:
    """One answer. `cut`: the connection breaks in place of it; `half`: in the middle of its body."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    half: str = ""  # how long the body seems to be: "counted", "chunked" or "open"

    @property
    def bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def refusal(status: int, code: str, details: Any = None, **headers: str) -> Says:
    body = {"error": {"code": code, "message": f"it is {code}", "details": details or {}}}
    return Says(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class ScriptedGateway:
    """`answers` are given one after the other; the last one stays."""

    answers: list[Says]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)

    def next(self) -> Says:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def _handler(server: ScriptedGateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            named = {name.lower(): value for name, value in self.headers.items()}
            server.asked.append(Asked(self.command, self.path, named, body))
            says = server.next()
            if says.cut:
                self.close_connection = True
                return
            self.send_response(says.status)
            if says.half:
                self._break_off(says)
                return
            for name, value in {**says.headers, "Content-Length": str(len(says.bytes))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(says.bytes)

        do_POST = do_GET

        def _break_off(self, says: Says) -> None:
            body = says.bytes[: len(says.bytes) // 2]
            named = {"counted": ("Content-Length", str(len(says.bytes))), "chunked": ("Transfer-Encoding", "chunked")}
            for name, value in {**says.headers, **dict([named.get(says.half, ("Connection", "close"))])}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(body), body) if says.half == "chunked" else body)
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@contextmanager
def scripted_gateway(*answers: Says, tls: ssl.SSLContext | None = None) -> Iterator[ScriptedGateway]:
    made = ScriptedGateway(list(answers))
    with serving(_handler(made), tls) as made.url:
        yield made
