"""Serves the sites on one port of the loopback interface; which one is wanted, the Host header says."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from examples.harvest.web.page import Answer
from examples.harvest.web.sites import FIRST_DAY, Site, small_web

PIECE = 64  # bytes of a body that drips


class SmallWeb:
    """The web as long as the block lasts. `day` may be moved on; `visits` counts what was asked for."""

    def __init__(self, sites: Mapping[str, Site] | None = None, *, day: int = FIRST_DAY, port: int = 0) -> None:
        self.sites = small_web() if sites is None else sites
        self.day = day
        self.visits: Counter[str] = Counter()
        self.times: dict[str, list[float]] = {host: [] for host in self.sites}
        self.not_modified = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, name="small-web", daemon=True)

    @property
    def address(self) -> str:
        """Where all hosts are, as `host:port`."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def answer(self, host: str, path: str, headers: Mapping[str, str]) -> Answer:
        """What a visitor gets."""
        site = self.sites.get(host)
        if site is None:
            return Answer(421, b"no such host here")
        with self._lock:
            url = site.url(path)
            before = self.visits[url]
            self.visits[url] += 1
            self.times[host].append(time.monotonic())
        if path == "/robots.txt":
            return Answer(404) if site.robots is None else Answer(200, site.robots.encode())
        page = site.pages.get(path)
        found = Answer(404, b"no such page") if page is None else page.answer(self.day, before)
        if found.status == 200 and _is_known(found, headers):
            with self._lock:
                self.not_modified += 1
            return Answer(304, b"", {name: found.headers[name] for name in found.headers if name != "Content-Type"})
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # an endless page would never let it go
    request_queue_size = 64


def _is_known(found: Answer, headers: Mapping[str, str]) -> bool:
    """Whether the visitor has it already: by its tag, or else by its date (RFC 9110)."""
    tags = headers.get("If-None-Match")
    if tags is not None:
        return "ETag" in found.headers and found.headers["ETag"] in [tag.strip() for tag in tags.split(",")]
    since, changed = headers.get("If-Modified-Since"), found.headers.get("Last-Modified")
    if since is None or changed is None:
        return False
    try:
        return parsedate_to_datetime(changed) <= parsedate_to_datetime(since)
    except (ValueError, TypeError):
        return False


def _handler(web: SmallWeb) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host = self.headers.get("Host", "").partition(":")[0].lower()
            answer = web.answer(host, self.path, dict(self.headers.items()))
            with contextlib.suppress(OSError):  # visitors may leave when they like
                self._send(answer)

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            pieces = PIECE if answer.drip_s else len(answer.body) or 1
            for start in range(0, len(answer.body), pieces):
                self.wfile.write(answer.body[start : start + pieces])
                self.wfile.flush()
                time.sleep(answer.drip_s)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads along."""

    return Handler
