"""A client of a gateway, for programs; `towpath send` and `towpath receive` use nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from towpath.client.connection import ANSWER_TIMEOUT_S, ClientKey, Connection, ServerAddress
from towpath.client.protocol import (
    FIRST_WAIT_S,
    LONGEST_WAIT_S,
    GatewayProtocol,
    NewSender,
    Result,
    RetryPolicy,
    RetryTimer,
    RowsPage,
    Upload,
    Waiting,
    say_nothing,
)
from towpath.client.sender import OnSent, SendRun, Sent, watch_nothing
from towpath.client.sources import ByteSource

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 2.0


class Client:
    """Talks to one gateway in the name of one key. May be used by several threads.

    Every method asks until there is an answer: without end, unless `give_up_after_s` says for how long nothing may
    work. What the gateway refuses is an error at once.
    """

    def __init__(
        self,
        server: str,
        key: str | ClientKey,
        *,
        ca_file: Path | None = None,
        plain_http: bool = False,
        give_up_after_s: float | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
        first_wait_s: float = FIRST_WAIT_S,
        longest_wait_s: float = LONGEST_WAIT_S,
        stop: threading.Event | None = None,
        on_wait: Waiting = say_nothing,
    ) -> None:
        self.server = server
        self._address = ServerAddress(server, ca_file, plain_http)
        self._key = key if isinstance(key, ClientKey) else ClientKey(key)
        self._retry_policy = RetryPolicy(first_wait_s, longest_wait_s, give_up_after_s)
        self._timeout_s = timeout_s
        self.stop = stop or threading.Event()
        self._on_wait = on_wait

    @contextmanager
    def wire(self, on_wait: Waiting | None = None) -> Iterator[GatewayProtocol]:
        """A connection of its own, for one thread."""
        retries = RetryTimer(self._retry_policy, self.stop, on_wait or self._on_wait)
        wire = GatewayProtocol(Connection(self._address, self._timeout_s), self._key, retries)
        try:
            yield wire
        finally:
            wire.close()

    def open(self, stream: str, senders: Sequence[NewSender], label: str = "", upload: str | None = None) -> Upload:
        """Open an upload. With an id of yours (a UUID) the call may be repeated, and opens one."""
        with self.wire() as wire:
            return wire.open(stream, senders, label, upload or str(uuid4()))

    def send(
        self,
        upload: str,
        sender: str,
        source: ByteSource,
        *,
        zip: bool = False,
        on_sent: OnSent = watch_nothing,
        on_wait: Waiting | None = None,
    ) -> Sent:
        """Send everything of the source that the server does not have yet, and then that this is the end."""
        with self.wire(on_wait) as wire:
            return SendRun(wire, upload, sender, source, zip=zip, on_sent=on_sent).run()

    def status(self, upload: str) -> Upload:
        with self.wire() as wire:
            return wire.status(upload)

    def abort(self, upload: str, why: str) -> Upload:
        """Give the upload up: what the server has taken stays accounted for, and it takes no more."""
        with self.wire() as wire:
            return wire.abort(upload, why)

    def results(self, upload: str) -> list[Result]:
        with self.wire() as wire:
            return wire.results(upload)

    def pages(self, upload: str, query: str, cursor: str | None = None, form: str = "jsonl") -> Iterator[RowsPage]:
        """The rows of a query as they come, to its end. Acknowledge a page's cursor when its rows are safe."""
        with self.wire() as wire:
            pause_s = FIRST_PAUSE_S
            while True:
                page = wire.page(upload, query, cursor, form)
                if page.lines or page.is_end:
                    yield page
                    cursor, pause_s = page.cursor, FIRST_PAUSE_S
                if page.is_end:
                    return
                if not page.lines:
                    wire.retries.pause(pause_s)
                    pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def acknowledge(self, upload: str, query: str, cursor: str) -> None:
        """The server may forget all rows before the cursor."""
        with self.wire() as wire:
            wire.acknowledge(upload, query, cursor)
