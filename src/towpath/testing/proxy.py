"""A TCP proxy on the loopback interface that cuts connections when a test says so.

A network can lose a question before it arrives, or the answer after the work was done. `lose_question` and
`lose_answer` stage exactly one of the two, at the moment when a given text passes.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

CHUNK = 1 << 16


class CuttingProxy:
    """Passes connections on to a server on this machine. Use it as a context manager."""

    def __init__(self, target_port: int, host: str = "127.0.0.1") -> None:
        self._host = host
        self.target_port = target_port  # another one is for connections that come from then on
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self._question: bytes | None = None
        self._answer: bytes | None = None
        self._acceptor = threading.Thread(target=self._accept, name="proxy", daemon=True)

    def lose_question(self, text: bytes) -> None:
        """The next bytes of a client that hold `text` never arrive; its connection breaks."""
        self._question = text

    def lose_answer(self, text: bytes) -> None:
        """The next bytes of a client that hold `text` arrive, the answer does not; the connection breaks."""
        self._answer = text

    def cut_all(self) -> None:
        """Break every connection that is open; new ones are passed on."""
        with self._lock:
            links, self._links = self._links, []
            self.cuts += len(links)
        for link in links:
            link.cut()

    def is_losing_question(self, data: bytes) -> bool:
        with self._lock:
            hit = self._question is not None and self._question in data
            self._question = None if hit else self._question
        return hit

    def is_losing_answer(self, data: bytes) -> bool:
        with self._lock:
            hit = self._answer is not None and self._answer in data
            self._answer = None if hit else self._answer
        return hit

    def count_cut(self) -> None:
        with self._lock:
            self.cuts += 1

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # On Linux a close alone does not wake a thread that waits in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join(5)
        self.cut_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((self._host, self.target_port))
            except OSError:
                client.close()
                continue
            link = _Link(self, client, server)
            with self._lock:
                self._links.append(link)
            link.start()


class _Link:
    """One client's connection and ours to the server for it."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._swallow = threading.Event()
        self._left = 2
        self._lock = threading.Lock()

    def start(self) -> None:
        for target in (self._questions, self._answers):
            threading.Thread(target=target, name="proxy-link", daemon=True).start()

    def cut(self) -> None:
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _questions(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._client.recv(CHUNK):
                if self._proxy.is_losing_question(data):
                    self._proxy.count_cut()
                    break
                if self._proxy.is_losing_answer(data):
                    self._swallow.set()
                self._server.sendall(data)
        self._ended()

    def _answers(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(CHUNK):
                if self._swallow.is_set():
                    self._proxy.count_cut()
                    break
                self._client.sendall(data)
        self._ended()

    def _ended(self) -> None:
        self.cut()
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._client.close()
                self._server.close()
