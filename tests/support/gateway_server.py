"""`towpath gateway run` as a real process, and a client that speaks plain HTTP with it, badly where that is wanted."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from tests.support.commands import next_line, started

from towpath.runtime import Runtime
from towpath.settings import load

CHUNK_BYTES, LINE_BYTES = 256 << 10, 16 << 10
CONFIG = """
[database]
url = "sqlite:///{home}/towpath.db"
synchronous = "normal"

[gateway]
directory = "{home}/uploads"
chunk_bytes = {chunk_bytes}
line_bytes = {line_bytes}

[gateway.streams.readings.inputs.readings]
partitions = 1
schema = "sensor string, at bigint, value double"

[gateway.streams.asked]
results = ["answers"]
"""
COLUMNS = ["sensor", "at", "value"]
PREFIX = "/gateway/v1"
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of an error, in the one shape."""
        error = self.json["error"]
        assert set(error) == {"code", "message", "details"}, error
        assert "Traceback" not in error["message"]
        return str(error["code"])


class Client:
    """One person; each request has a connection of its own."""

    def __init__(self, address: str, key: str) -> None:
        self.host = urlsplit(address).netloc
        self.key = key

    def ask(self, method: str, path: str, body: bytes | dict[str, Any] | None = None, **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, dict):
            body, given = json.dumps(body).encode(), {"Content-Type": "application/json", **given}
        with closing(http.client.HTTPConnection(self.host, timeout=TIMEOUT_S)) as connection:
            connection.request(method, PREFIX + path, body, {"Authorization": f"Bearer {self.key}", **given})
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def ok(self, method: str, path: str, body: bytes | dict[str, Any] | None = None, **headers: str) -> Any:
        answer = self.ask(method, path, body, **headers)
        assert answer.status in (200, 201), answer
        return answer.json

    def head(self, method: str, path: str, **headers: object) -> bytes:
        """The first part of a request, for whoever writes the rest by hand."""
        lines = [f"{method} {PREFIX}{path} HTTP/1.1", f"Host: {self.host}", f"Authorization: Bearer {self.key}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode()

    @contextmanager
    def by_hand(self) -> Iterator[socket.socket]:
        host, port = self.host.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
            yield connection

    def send_and_leave(self, request: bytes) -> None:
        """Write, and be gone."""
        with self.by_hand() as connection:
            connection.sendall(request)

    def answered(self, request: bytes) -> bytes:
        """Write, and read until the server closes."""
        with self.by_hand() as connection:
            connection.sendall(request)
            return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    """Until the other side has closed."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


class Lab:
    """One upload with one sender."""

    def __init__(self, client: Client, *, format: str = "csv", sender: str = "lab") -> None:
        self.client = client
        self.id = str(uuid4())
        columns = COLUMNS if format == "csv" else None
        senders = [{"sender": sender, "input": "readings", "format": format, "columns": columns}]
        client.ok("POST", "/uploads", {"id": self.id, "stream": "readings", "senders": senders})
        self.at = f"/uploads/{self.id}/senders/{sender}"
        self.session = 0
        self.sequence = 0
        self.open_session()

    def open_session(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.ok("POST", f"{self.at}/session", {})
        self.session = found["session"]
        return found

    @property
    def position(self) -> int:
        [sender] = self.client.ok("GET", f"/uploads/{self.id}")["senders"]
        return int(sender["position"])

    def path(self, offset: int, *, last: bool = False, session: int | None = None, sequence: int | None = None) -> str:
        self.sequence = self.sequence + 1 if sequence is None else sequence
        numbers = f"session={session or self.session}&offset={offset}&sequence={self.sequence}"
        return f"{self.at}/chunks?{numbers}&last={'true' if last else 'false'}"

    def send(self, body: bytes, offset: int, **options: Any) -> Answer:
        headers = options.pop("headers", {})
        return self.client.ask("POST", self.path(offset, **options), body, **headers)

    def finish(self, data: bytes) -> Answer:
        said = {"session": self.session, "bytes": len(data), "crc32": zlib.crc32(data)}
        return self.client.ask("POST", f"{self.at}/finish", said)


@dataclass
class Gateway:
    """A server, two people who use it, and its database."""

    address: str
    process: subprocess.Popen[str]
    runtime: Runtime
    key: str
    other_key: str

    def client(self) -> Client:
        return Client(self.address, self.key)

    def other(self) -> Client:
        return Client(self.address, self.other_key)

    def lines(self, upload: str) -> list[tuple[int, Any]]:
        """The records of an upload, by line number: what is in the log, in its order."""
        log = self.runtime.log
        found = []
        for partition in log.ends("readings"):
            for record in log.read("readings", partition, log.starts("readings")[partition]):
                headers = {name: (value or b"").decode() for name, value in record.headers}
                if headers["upload"] == upload:
                    found.append((int(headers["line"]), json.loads(record.value or b"null")))
        return found


@contextmanager
def gateway(home: Path, more: str = "") -> Iterator[Gateway]:
    """A gateway on an empty database."""
    config = home / "towpath.toml"
    text = CONFIG.format(home=home, chunk_bytes=CHUNK_BYTES, line_bytes=LINE_BYTES)
    config.write_text(text + more, encoding="utf-8")
    with Runtime(load(file=config)) as runtime:
        keys = [make_key(runtime, name) for name in ("ada", "eve")]
        with serving(config) as (address, process):
            yield Gateway(address, process, runtime, *keys)


@contextmanager
def serving(config: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with started("--config", config, "gateway", "run", "--port", "0", stderr=sys.stderr) as process:
        said = next_line(process)
        assert said.startswith("listening at "), said
        yield said.split()[-1], process


def make_key(runtime: Runtime, name: str, scopes: Sequence[str] = ("gateway:send", "gateway:receive")) -> str:
    runtime.access.add_user(name, "viewer", who="test", why="a test")
    return runtime.access.make_key(name, list(scopes), who="test", why="a test")[1].text


def readings(count: int) -> bytes:
    """Lines that all are good."""
    return b"".join(b"s-%d,%d,%d.5\n" % (number % 7, number, number) for number in range(1, count + 1))


def expected(upload: str, data: bytes) -> list[tuple[int, Any]]:
    """What good lines become."""
    found = []
    for number, line in enumerate(data.decode().splitlines(), 1):
        sensor, at, value = line.split(",")
        found.append((number, {"upload": upload, "sensor": sensor, "at": int(at), "value": float(value)}))
    return found
