"""The server of the test engine: takes questions, checks them and its own answers against the interface."""

from __future__ import annotations

import json
import queue
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.docker_engine import interface
from tests.support.docker_engine.container import Container
from tests.support.docker_engine.interface import OPERATIONS, breach

NEWEST, OLDEST = (1, 47), (1, 24)
DEFAULT_GRACE_S = 10
METHODS = {"list": "containers", "start": "begin", "stop": "end"}  # of operations that are not called as they are named


class Answer(NamedTuple):
    """A status with a body, or with pieces that come one by one."""

    status: int
    body: Any = None
    pieces: Iterator[bytes] | None = None


class Asked(NamedTuple):
    """A question that has been found to be in order."""

    container: str
    query: dict[str, str]
    body: Any

    @property
    def filters(self) -> dict[str, list[str]]:
        told: dict[str, list[str]] = json.loads(self.query.get("filters", "{}"))
        return told


class TestEngine:
    """An engine on a Unix socket, which can be stopped, started again and made slow."""

    __test__ = False

    def __init__(self, path: Path, images: tuple[str, ...] = ("busybox",)) -> None:
        self.path = path
        self.images = images
        self.breaches: list[str] = []
        self.asked: list[str] = []
        self._answered: list[str] = []
        self.delays_s: dict[str, float] = {}
        self.held: dict[str, threading.Event] = {}  # by the name of an operation: not done before this is set
        """By the name of an operation: how long its answer takes."""
        self.refused: dict[str, tuple[int, str]] = {}
        """By the name of an operation: the error that it gets."""
        self.newest, self.oldest = NEWEST, OLDEST
        self._containers: dict[str, Container] = {}
        self._lock = threading.RLock()
        self._listeners: list[queue.Queue[dict[str, Any] | None]] = []
        self._server: _Server | None = None

    def start(self) -> None:
        self.path.unlink(missing_ok=True)
        self._server = _Server(str(self.path), self)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """As when the engine is restarted: who is connected is cut off. Containers go on (`live-restore`)."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.shutdown()
        server.server_close()
        server.cut_off()
        self.path.unlink(missing_ok=True)
        for listener in self._listeners:
            listener.put(None)

    def close(self) -> None:
        self.stop()
        for container in self._containers.values():
            container.signal(signal.SIGKILL)
            container.wait(10.0)

    def containers_named(self, beginning: str) -> list[Container]:
        return [each for each in self._containers.values() if each.name.startswith(beginning)]

    def answered(self, operation: str) -> int:
        """How often."""
        return self._answered.count(operation)

    # What can be asked for

    def version(self, asked: Asked) -> Answer:
        versions = {"ApiVersion": _text(self.newest), "MinAPIVersion": _text(self.oldest)}
        return Answer(200, {"Version": "0.0.0-test", **versions})

    def containers(self, asked: Asked) -> Answer:
        with self._lock:
            found = [each for each in self._containers.values() if _has(each, asked.filters.get("label", []))]
            if asked.query.get("all") not in ("true", "1"):
                found = [each for each in found if each.is_running]
            return Answer(200, [each.summary() for each in reversed(found)])

    def create(self, asked: Asked) -> Answer:
        name, image = asked.query["name"], asked.body["Image"]
        with self._lock:
            if image not in self.images:
                return _error(404, f"No such image: {image}")
            if (other := self._find(name)) is not None:
                return _taken(name, other)
            made = Container(name, asked.body, self._tell)
            self._containers[made.id] = made
            return Answer(201, {"Id": made.id, "Warnings": []})

    def inspect(self, asked: Asked) -> Answer:
        return self._with(asked, lambda container: Answer(200, container.inspected()))

    def rename(self, asked: Asked) -> Answer:
        def rename(container: Container) -> Answer:
            name = asked.query["name"]
            if (other := self._find(name)) is not None:
                return _taken(name, other)
            container.name = name
            return Answer(204)

        return self._with(asked, rename)

    def begin(self, asked: Asked) -> Answer:
        def begin(container: Container) -> Answer:
            if container.is_running:
                return Answer(304)
            told = container.start()
            return Answer(204) if told is None else _error(400, told)

        return self._with(asked, begin)

    def end(self, asked: Asked) -> Answer:
        container = self._find(asked.container)
        if container is None:
            return _no_such(asked.container)
        if not container.is_running:
            return Answer(304)
        container.signal(signal.SIGTERM)
        if not container.wait(int(asked.query.get("t", DEFAULT_GRACE_S))):
            container.signal(signal.SIGKILL)
            container.wait()
        return Answer(204)

    def kill(self, asked: Asked) -> Answer:
        def kill(container: Container) -> Answer:
            if not container.is_running:
                return _error(409, f"Container {container.id} is not running")
            container.signal(signal.Signals[asked.query.get("signal", "SIGKILL")])
            return Answer(204)

        return self._with(asked, kill)

    def wait(self, asked: Asked) -> Answer:
        container = self._find(asked.container)
        if container is None:
            return _no_such(asked.container)
        container.wait()
        return Answer(200, {"StatusCode": container.exit_code})

    def remove(self, asked: Asked) -> Answer:
        def remove(container: Container) -> Answer:
            if container.is_running:
                return _error(409, f'cannot remove container "/{container.name}": container is running: stop it first')
            del self._containers[container.id]
            return Answer(204)

        return self._with(asked, remove)

    def logs(self, asked: Asked) -> Answer:
        container = self._find(asked.container)
        if container is None:
            return _no_such(asked.container)
        is_followed = asked.query.get("follow") in ("true", "1")
        return Answer(200, pieces=map(_frames, container.batches(asked.query.get("tail", "all"), is_followed)))

    def events(self, asked: Asked) -> Answer:
        listener: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._listeners.append(listener)
        return Answer(200, pieces=self._events(listener, asked.filters))

    # How it is done

    def _events(self, listener: queue.Queue[dict[str, Any] | None], filters: dict[str, list[str]]) -> Iterator[bytes]:
        while (event := listener.get()) is not None:
            self.check("an event", interface.EVENT, event)
            attributes = event["Actor"]["Attributes"]
            is_wanted = event["Type"] in filters.get("type", [event["Type"]])
            is_wanted &= event["Action"] in filters.get("event", [event["Action"]])
            if is_wanted and all(_is_labelled(attributes, label) for label in filters.get("label", [])):
                yield json.dumps(event).encode() + b"\n"

    def _tell(self, container: Container, what: str) -> None:
        now = time.time_ns()
        event = {
            "Type": "container",
            "Action": what,
            "Actor": {"ID": container.id, "Attributes": {**container.config["Labels"], "name": container.name}},
            "scope": "local",
            "time": now // 1_000_000_000,
            "timeNano": now,
        }
        for listener in self._listeners:
            listener.put(event)

    def _find(self, name: str) -> Container | None:
        return next((each for each in self._containers.values() if name in (each.name, each.id)), None)

    def _with(self, asked: Asked, act: Callable[[Container], Answer]) -> Answer:
        with self._lock:
            container = self._find(asked.container)
            return _no_such(asked.container) if container is None else act(container)

    def check(self, what: str, schema: interface.Schema, value: Any) -> None:
        if told := breach(schema, value):
            self.breaches.append(f"{what}: {told}")

    def answer(self, method: str, url: str, body: bytes) -> Answer:
        """Find out what is asked for, check it, do it, check the answer."""
        parts = urlsplit(url)
        path = parts.path
        if (match := re.fullmatch(r"/v(\d+\.\d+)(/.*)", path)) is not None:
            version, path = match.groups()
            if told := self._version_problem(version):
                return _error(400, told)
        elif path != "/version":
            self.breaches.append(f"{method} {path} without a version")
        for name, operation in OPERATIONS.items():
            if (match := operation.matches(method, path)) is not None:
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                return self._answer(name, operation, unquote(match.groupdict().get("container", "")), query, body)
        self.breaches.append(f"{method} {path} is not in the interface")
        return _error(404, "page not found")

    def _answer(
        self, name: str, operation: interface.Operation, container: str, query: dict[str, str], body: bytes
    ) -> Answer:
        self.asked.append(name)
        self.check(f"the query of {name}", interface.only(**operation.query), query)
        if "filters" in query:
            self.check(f"the filters of {name}", interface.FILTERS, json.loads(query["filters"]))
        told = json.loads(body) if body else None
        if operation.body is not None:
            self.check(f"the body of {name}", operation.body, told)
        elif told is not None:
            self.breaches.append(f"{name} takes no body")
        time.sleep(self.delays_s.get(name, 0.0))
        if (gate := self.held.get(name)) is not None:
            gate.wait(60)
        if name in self.refused:
            return _error(*self.refused[name])
        answer: Answer = getattr(self, METHODS.get(name, name))(Asked(container, query, told))
        self._answered.append(name)
        if answer.status not in operation.answers:
            self.breaches.append(f"{name} is never answered with {answer.status}")
        elif (schema := operation.answers[answer.status]) is not None:
            self.check(f"the answer {answer.status} to {name}", schema, answer.body)
        return answer

    def _version_problem(self, version: str) -> str | None:
        major, minor = map(int, version.split("."))
        if (major, minor) > self.newest:
            return f"client version {version} is too new. Maximum supported API version is {_text(self.newest)}"
        if (major, minor) < self.oldest:
            return f"client version {version} is too old. Minimum supported API version is {_text(self.oldest)}"
        return None


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, path: str, engine: TestEngine) -> None:
        super().__init__(path, _Handler)
        self.engine = engine
        self._connections: set[socket.socket] = set()

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def cut_off(self) -> None:
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """That who asked has gone away is no error; all else is one of the test engine."""
        if not isinstance(error := sys.exc_info()[1], OSError):
            self.engine.breaches.append(repr(error))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.engine.answer(self.command, self.path, body)
        self.send_response(answer.status)
        if answer.pieces is not None:
            self._send_pieces(answer.pieces)
            return
        told = b"" if answer.body is None else json.dumps(answer.body).encode()
        if answer.status not in (204, 304):
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    do_POST = do_DELETE = do_GET

    def _send_pieces(self, pieces: Iterator[bytes]) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for piece in pieces:
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read what was asked from the engine."""


def _frames(batch: list[tuple[int, bytes]]) -> bytes:
    """Each piece behind eight bytes: whose output it is, and its length."""
    return b"".join(bytes([stream, 0, 0, 0]) + len(data).to_bytes(4) + data for stream, data in batch)


def _error(status: int, message: str) -> Answer:
    return Answer(status, {"message": message})


def _no_such(container: str) -> Answer:
    return _error(404, f"No such container: {container}")


def _taken(name: str, other: Container) -> Answer:
    told = f'Conflict. The container name "/{name}" is already in use by container "{other.id}".'
    return _error(409, f"{told} You have to remove (or rename) that container to be able to reuse that name.")


def _has(container: Container, labels: list[str]) -> bool:
    return all(_is_labelled(container.config["Labels"], label) for label in labels)


def _is_labelled(labels: dict[str, str], label: str) -> bool:
    name, is_valued, value = label.partition("=")
    return name in labels and (not is_valued or labels[name] == value)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
