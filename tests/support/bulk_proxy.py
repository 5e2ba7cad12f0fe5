"""A proxy before the index server: passes requests on, and answers by itself those that a test has staged."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import orjson
import urllib3

from towpath.stack.daemon import free_port


class Told(NamedTuple):
    """What the proxy answers by itself; a `length` beyond the data cuts the answer short."""

    status: int
    data: bytes = b""
    length: int | None = None


Stage = Callable[[bytes], Told | None]  # None: ask the real server


class QuietServer(ThreadingHTTPServer):
    """Clients that hang up are what these tests are about."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class BulkProxy:
    """Passes requests on, unless `stage` answers."""

    def __init__(self, target: str, tls: ssl.SSLContext | None = None) -> None:
        self.stage: Stage = lambda body: None
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self._target = target
        self._pool = urllib3.PoolManager(maxsize=4, retries=False)
        self._tls = tls
        self._port = free_port()  # one that no client takes for its own end while this is closed
        self._listen(self._port)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._port}"

    def _listen(self, port: int) -> None:
        self._server = QuietServer(("127.0.0.1", port), self._handler())
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Told:
        self.bodies.append(body)
        self.headers.append(headers)
        told = self.stage(body)
        return told if told is not None else self.forward(method, path, headers["content-type"], body)

    def forward(self, method: str, path: str, kind: str, body: bytes) -> Told:
        answer = self._pool.request(method, self._target + path, body=body, headers={"content-type": kind})
        return Told(answer.status, answer.data)

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(5)
            self._server.server_close()
            self._pool.clear()

    def open_again(self) -> None:
        """Listen at the same address, after a `close`."""
        self._listen(self._port)
        self._thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {key.lower(): value for key, value in self.headers.items()}
                told = proxy.answer(self.command, self.path, headers, body)
                if told.status == 0:
                    self.close_connection = True
                    return
                self.send_response(told.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(told.length or len(told.data)))
                self.end_headers()
                self.wfile.write(told.data)
                self.wfile.flush()
                self.close_connection = told.length is not None

            do_GET = do_PUT = do_DELETE = do_POST

            wbufsize = -1  # headers and data go in one packet

            def log_message(self, *words: object) -> None:
                pass

        return Handler

    def __enter__(self) -> BulkProxy:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


BROKEN = Told(0)


def times(count: int, told: Told) -> Stage:
    """The first so many requests are answered with this."""
    left = iter(range(count))
    return lambda body: told if next(left, None) is not None else None


def busy(proxy: BulkProxy, name: str, ids: set[str], rounds: int, status: int = 429) -> Stage:
    """These items are answered with that status for some rounds and not written; the others go to the real server."""
    left = iter(range(rounds))

    def stage(body: bytes) -> Told | None:
        if next(left, None) is None:
            return None
        lines = body.split(b"\n")
        pairs = [
            (orjson.loads(action)["index"]["_id"], action, text)
            for action, text in zip(lines[0:-1:2], lines[1::2], strict=True)
        ]
        passed = b"".join(action + b"\n" + text + b"\n" for id, action, text in pairs if id not in ids)
        answered: list[Any] = []
        if passed:
            real = proxy.forward("POST", f"/{name}/_bulk", "application/x-ndjson", passed)
            answered = orjson.loads(real.data)["items"]
        refused = {"index": {"status": status, "error": {"type": "es_rejected_execution_exception", "reason": "busy"}}}
        items = [refused if id in ids else answered.pop(0) for id, _, _ in pairs]
        return Told(200, orjson.dumps({"errors": True, "items": items}))

    return stage
