"""The requests that a client makes of a gateway (docs/reference/gateway.md), each repeated until there is an answer.

Also the answers, read from their JSON, and how long to wait before the next try (`RetryPolicy`, `RetryTimer`).
"""

from __future__ import annotations

import gzip
import json
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from towpath.client.connection import FAULT, ClientKey, Connection, HttpAnswer, Later, ServerRefusal, check
from towpath.core.clock import Clock, SystemClock
from towpath.errors import GatewayAway, GatewayRefused

T = TypeVar("T")

FINISHED = "finished"
COMPLETE = "complete"
MOST_FAULTS = 8  # in a row: a fault that stays is told, not waited for
GZIP_LEVEL = 5
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 15.0
FACTOR = 2.0

Waiting = Callable[[str, float], None]  # why, and for how many seconds


class GatewayProtocol:
    """For one thread: its connection and its retries."""

    def __init__(self, connection: Connection, key: ClientKey, retries: RetryTimer) -> None:
        self._connection = connection
        self._key = key
        self._faults = 0
        self.retries = retries

    # Data in

    def open(self, stream: str, senders: Sequence[NewSender], label: str, upload: str) -> Upload:
        """Open an upload. The id is ours, so that asking twice opens one."""
        body = {"stream": stream, "label": label, "senders": [each.item() for each in senders], "id": upload}
        return self._post(Upload.read, "/uploads", body, {"Idempotency-Key": upload})

    def status(self, upload: str) -> Upload:
        return _understood(Upload.read, self._ask("GET", _upload(upload)).body)

    def session(self, upload: str, sender: str) -> Session:
        return self._post(Session.read, f"{_sender(upload, sender)}/session", {})

    def chunk(
        self, upload: str, sender: str, *, session: int, offset: int, sequence: int, data: bytes, last: bool, zip: bool
    ) -> ChunkAnswer:
        """Try once to send a chunk; `Later` when it was not taken, or nobody knows. The next may have another size."""
        said = {"session": session, "offset": offset, "sequence": sequence, "last": "true" if last else "false"}
        headers = {"Content-Type": "application/octet-stream"} | ({"Content-Encoding": "gzip"} if zip else {})
        body = gzip.compress(data, GZIP_LEVEL, mtime=0) if zip else data
        answer = self._try("POST", f"{_sender(upload, sender)}/chunks?{urlencode(said)}", body, headers)
        return _understood(ChunkAnswer.read, answer.body)

    def skip(self, upload: str, sender: str, **said: Any) -> SenderPosition:
        return self._post(SenderPosition.read, f"{_sender(upload, sender)}/skip", said)

    def finish(self, upload: str, sender: str, *, session: int, size: int, crc32: int) -> None:
        said = {"session": session, "bytes": size, "crc32": crc32}
        self._post(dict, f"{_sender(upload, sender)}/finish", said)

    def abort(self, upload: str, why: str) -> Upload:
        return self._post(Upload.read, f"{_upload(upload)}/abort", {"why": why})

    # Results out

    def results(self, upload: str) -> list[Result]:
        answer = self._ask("GET", f"{_upload(upload)}/results")
        return _understood(lambda found: [Result.read(each) for each in found["items"]], answer.body)

    def page(self, upload: str, query: str, cursor: str | None, form: str) -> RowsPage:
        said = {"format": form} | ({} if cursor is None else {"cursor": cursor})
        answer = self._ask("GET", f"{_query(upload, query)}?{urlencode(said)}")
        rows = int(answer.headers.get("towpath-rows") or answer.body.count(b"\n"))
        is_end = answer.headers.get("towpath-end") == "true"
        return RowsPage(answer.body, rows, answer.headers.get("towpath-cursor") or cursor, is_end)

    def acknowledge(self, upload: str, query: str, cursor: str) -> None:
        self._post(dict, f"{_query(upload, query)}/acknowledge", {"cursor": cursor})

    # Asking

    def close(self) -> None:
        self._connection.close()

    def _post(
        self,
        read: Callable[[dict[str, Any]], T],
        path: str,
        said: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> T:
        named = {"Content-Type": "application/json", **(headers or {})}
        return _understood(read, self._ask("POST", path, json.dumps(said).encode(), named).body)

    def _ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> HttpAnswer:
        """Repeat a request until there is an answer; for requests that may safely be repeated."""
        while True:
            try:
                return self._try(method, path, body, headers or {})
            except Later as error:
                self.retries.wait(str(error), error.at_least_s)

    def _try(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        self.retries.check()
        named = {"Authorization": self._key.header, "User-Agent": "towpath", "Accept-Encoding": "identity", **headers}
        answer = self._connection.ask(method, path, body, named)
        self._faults = self._faults + 1 if answer.status == FAULT else 0
        if self._faults >= MOST_FAULTS:
            raise ServerRefusal.read(answer).error()
        good = check(answer)
        self.retries.worked()
        return good


@dataclass(frozen=True, slots=True)
class NewSender:
    """A sender of an upload, and the input that it will send. `columns` are those of a CSV file, in their order."""

    sender: str
    input: str
    format: str
    columns: tuple[str, ...] | None = None
    first_line: int = 1  # number of the first line that is sent: a header is not

    def item(self) -> dict[str, Any]:
        columns = None if self.columns is None else list(self.columns)
        named = {"sender": self.sender, "input": self.input, "format": self.format, "columns": columns}
        return named | {"first_line": self.first_line}


@dataclass(frozen=True, slots=True)
class Upload:
    """One client's data for a stream."""

    id: str
    stream: str
    state: str
    label: str
    reason: str | None
    senders: tuple[KnownSender, ...]

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Upload:
        senders = tuple(KnownSender.read(each) for each in item["senders"])
        return cls(
            str(item["id"]), str(item["stream"]), str(item["state"]), str(item["label"]), item["reason"], senders
        )

    def sender(self, name: str) -> KnownSender:
        return next(each for each in self.senders if each.sender == name)


@dataclass(frozen=True, slots=True)
class KnownSender:
    """A sender, as the status of its upload has it."""

    sender: str
    input: str
    is_finished: bool
    place: SenderPosition

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> KnownSender:
        return cls(str(item["sender"]), str(item["input"]), item["state"] == FINISHED, SenderPosition.read(item))


@dataclass(frozen=True, slots=True)
class Session:
    """The right to send as one sender, until somebody else asks for it."""

    number: int
    place: SenderPosition
    is_finished: bool
    chunk_bytes: int
    line_bytes: int

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Session:
        limits = int(item["chunk_bytes"]), int(item["line_bytes"])
        return cls(int(item["session"]), SenderPosition.read(item), item["state"] == FINISHED, *limits)


@dataclass(frozen=True, slots=True)
class SenderPosition:
    """How far the server has a sender's data, durably."""

    position: int  # bytes
    line: int  # the number of the last line
    sequence: int
    refused: int  # lines that have become cases on the desk
    crc32: int  # of all bytes up to the position

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> SenderPosition:
        return cls(*(int(item[name]) for name in ("position", "line", "sequence", "refused", "crc32")))


@dataclass(frozen=True, slots=True)
class ChunkAnswer:
    """The answer to a chunk."""

    place: SenderPosition
    next_bytes: int | None  # how large the next may be while many send; gateways before this one do not say it

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> ChunkAnswer:
        next_bytes = item.get("next_bytes")
        return cls(SenderPosition.read(item), None if next_bytes is None else int(next_bytes))


@dataclass(frozen=True, slots=True)
class Result:
    """One query of an upload."""

    query: str
    is_complete: bool  # no row comes any more
    rows: int | None  # known when it is complete
    cursor: str | None  # acknowledged up to there

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Result:
        return cls(str(item["query"]), item["state"] == COMPLETE, item["rows"], item["cursor"])


@dataclass(frozen=True, slots=True)
class RowsPage:
    """Rows of a query, as bytes of whole lines, and the cursor behind them."""

    lines: bytes
    rows: int
    cursor: str | None
    is_end: bool  # the query is complete, and this was the last of it


@dataclass(frozen=True)
class RetryPolicy:
    """How a client waits: twice as long after each failure, without end unless a limit is given."""

    first_wait_s: float
    longest_wait_s: float
    give_up_after_s: float | None = None  # since something has last worked


def say_nothing(why: str, wait_s: float) -> None:
    """The default for `on_wait`."""


class RetryTimer:
    """The waits of one thread between its tries. `stop` ends a wait at once."""

    def __init__(
        self,
        policy: RetryPolicy,
        stop: threading.Event | None = None,
        on_wait: Waiting = say_nothing,
        clock: Clock | None = None,
    ) -> None:
        self._policy = policy
        self._stop = stop or threading.Event()
        self._on_wait = on_wait
        self._clock = clock or SystemClock()
        self._next_s = policy.first_wait_s
        self._worked_at = self._clock.monotonic()

    def check(self) -> None:
        """Raise `Stopped` when the caller wants this to end."""
        if self._stop.is_set():
            raise Stopped

    def worked(self) -> None:
        """Note a success: the next failure counts as the first one again."""
        self._next_s = self._policy.first_wait_s
        self._worked_at = self._clock.monotonic()

    def wait(self, why: str, at_least_s: float = 0.0) -> None:
        """Before the next try: as long as the server asks for, or longer after each failure."""
        wait_s = at_least_s * _spread(1.0, 1.25) if at_least_s else self._longer()
        self._check_limit(why, wait_s)
        self._on_wait(why, wait_s)
        self.pause(wait_s)

    def _longer(self) -> float:
        now_s, self._next_s = self._next_s, min(self._next_s * FACTOR, self._policy.longest_wait_s)
        return now_s * _spread(0.5, 1.0)

    def pause(self, wait_s: float) -> None:
        """A wait that is no failure."""
        if self._stop.wait(wait_s):
            raise Stopped

    def _check_limit(self, why: str, wait_s: float) -> None:
        limit_s = self._policy.give_up_after_s
        passed_s = self._clock.monotonic() - self._worked_at
        if limit_s is not None and passed_s + wait_s > limit_s:
            raise GatewayAway(
                f"gave up after {passed_s:,.0f} s without success: {why}; the same command goes on from here"
            )


class Stopped(Exception):
    """The caller wants this to end; all that was acknowledged counts."""


def _understood(read: Callable[[dict[str, Any]], T], body: bytes) -> T:
    """The body of an answer, read; `GatewayRefused` when no gateway answers so."""
    try:
        return read(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise GatewayRefused(200, "", "the answer is not one of a gateway; is that the right address?") from None


def _upload(upload: str) -> str:
    return f"/uploads/{quote(upload, safe='')}"


def _sender(upload: str, sender: str) -> str:
    return f"{_upload(upload)}/senders/{quote(sender, safe='')}"


def _query(upload: str, query: str) -> str:
    return f"{_upload(upload)}/results/{quote(query, safe='')}"


def _spread(least: float, most: float) -> float:
    """A random factor, so that many clients do not come back at the same moment."""
    return random.uniform(least, most)  # noqa: S311 - nobody gains by guessing it
