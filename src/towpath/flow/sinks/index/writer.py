"""Writing to Elasticsearch and OpenSearch: bulk requests, some of them under way at once; what becomes of each item.

| answer | what is done |
|---|---|
| 429, 502, 503 or 504, for an item or for all | sent again after a wait, a few times; then `SinkError` |
| a version conflict of an item | a newer document, or this one, is there: as good as written |
| another error of an item | refused (code 12) |
| 413 or 400 for all | halves, down to single ones; one refused alone while others pass: refused (code 13) |
| 400 for every single one | `NeedsPerson`: no waiting helps |
| any other, or none | `SinkError` |

The body of a request has for each document a line that says where it goes, and the document as it came. Lines are put
together column by column, not document by document: at sixty thousand documents a second on a core that also has to
parse them, a microsecond for each is what can be spent.
"""

from __future__ import annotations

import random
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import orjson

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import NeedsPerson, SinkError
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.index.client import NDJSON, IndexAnswer, IndexClient, explained, refused
from towpath.flow.sinks.sink import Deliveries, Refusal, one_line

MAX_ID_BYTES = 512  # a longer one makes the server refuse the whole request
MAX_VERSION = 2**63 - 1
UTF8_CHARACTER_BYTES = 4

TRIES = 5
FIRST_WAIT_S = 0.2
JITTER = 0.35
AGAIN = frozenset({429, 502, 503, 504})
SMALLER = frozenset({400, 413})
TOO_LARGE = 413
LINE_BYTES = 100  # about what stands before a document
# Without the status of the good ones the answer would not tell which of the items failed.
ANSWER_FIELDS = "?filter_path=error,errors,items.*.status,items.*.error"
ALL_GOOD = b'{"errors":false'
CONFLICT = "version_conflict_engine_exception"

V = TypeVar("V")


class IndexWriter:
    """Gathers deliveries into requests, and keeps `in_flight` of these under way while it builds the next."""

    def __init__(
        self, client: IndexClient, path: str, layout: BulkLayout, max_items: int, max_bytes: int, in_flight: int
    ) -> None:
        self._client = client
        self._layout = layout
        self._sender = BulkSender(client, path + "/_bulk" + ANSWER_FIELDS, layout)
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._in_flight = in_flight
        self._threads = ThreadPoolExecutor(in_flight, thread_name_prefix="towpath-index")
        self._under_way: deque[Future[list[Refusal]]] = deque()
        self._parts: list[BulkPart] = []
        self._items = 0
        self._bytes = 0

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        places, refusals = self._layout.fitting(deliveries)
        sizes = [len(deliveries.payloads[at]) + LINE_BYTES for at in places]
        ends = list(accumulate(sizes, initial=0))
        start = 0
        while start < len(places):
            stop = self._room(ends, start)
            if stop == start and self._parts:
                refusals += self._send()
                continue
            stop = max(stop, start + 1)
            self._parts.append(BulkPart(deliveries, places[start:stop]))
            self._items += stop - start
            self._bytes += ends[stop] - ends[start]
            start = stop
        if self._items >= self._max_items:
            refusals += self._send()
        return refusals

    def finish(self) -> list[Refusal]:
        refusals = self._send() if self._parts else []
        while self._under_way:
            refusals += self._under_way.popleft().result()
        crash.here(CrashPoint.INDEX_DONE)
        return refusals

    def close(self) -> None:
        """Nothing is under way afterwards. A request that has begun is waited for: it cannot be called back."""
        self._sender.stopping.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def _room(self, ends: Sequence[int], start: int) -> int:
        """Up to where deliveries fit into the request that is being gathered."""
        most_bytes = min(self._max_bytes, self._sender.most_bytes)
        by_bytes = bisect_right(ends, ends[start] + most_bytes - self._bytes) - 1
        return max(start, min(by_bytes, start + self._max_items - self._items))

    def _send(self) -> list[Refusal]:
        parts, body = self._parts, self._layout.body(self._parts)
        self._parts, self._items, self._bytes = [], 0, 0
        refusals: list[Refusal] = []
        while len(self._under_way) >= self._in_flight:
            refusals += self._under_way.popleft().result()
        self._under_way.append(self._threads.submit(self._sender.send, parts, body))
        return refusals


class BulkSender:
    """Sends one request until each of its items is either written or refused."""

    def __init__(self, client: IndexClient, path: str, layout: BulkLayout) -> None:
        self._client = client
        self._path = path
        self._layout = layout
        self._has_passed = False
        self.most_bytes = 1 << 62  # less when the server says that a request was too large
        self.stopping = threading.Event()

    def send(self, parts: list[BulkPart], body: bytes) -> list[Refusal]:
        refusals: list[Refusal] = []
        for number in range(1, TRIES + 1):
            answer = self._answer(body)
            if answer.status in SMALLER:
                return refusals + self._apart(parts, answer)
            self._has_passed = True
            parts, more = outcomes(parts, answer, self._client.url)
            refusals += more
            if not parts:
                return refusals
            body = self._layout.body(parts)
            self._wait(number)
        raise SinkError(ErrorCode.SINK_FAILED, self._client.url, f"refused items as too busy {TRIES} times in a row")

    def _answer(self, body: bytes) -> IndexAnswer:
        for number in range(1, TRIES + 1):
            answer = self._client.request("POST", self._path, body, NDJSON)
            crash.here(CrashPoint.BULK_SENT)
            if answer.status == TOO_LARGE:
                self.most_bytes = max(1, min(self.most_bytes, len(body) // 2))
            if answer.status in (200, *SMALLER):
                return answer
            if answer.status not in AGAIN or number == TRIES:
                break
            self._wait(number)
        raise refused(answer, self._client.url)

    def _apart(self, parts: list[BulkPart], answer: IndexAnswer) -> list[Refusal]:
        """A request that was refused as a whole, in smaller ones."""
        refusals: list[Refusal] = []
        has_passed = self._halved(parts, answer, refusals)
        if not has_passed and not self._has_passed and any(each.exception != str(TOO_LARGE) for each in refusals):
            kind, text = answer.error
            raise NeedsPerson(
                ErrorCode.SINK_REFUSED, self._client.url, f"refuses every single record: {answer.status} {kind}: {text}"
            )
        return refusals

    def _halved(self, parts: list[BulkPart], answer: IndexAnswer, refusals: list[Refusal]) -> bool:
        """Whether anything was taken."""
        if sum(len(part.at) for part in parts) == 1:
            refusals.append(_refused_alone(parts[0], answer))
            return False
        has_passed = False
        for half in halves(parts):
            body = self._layout.body(half)
            answer = self._answer(body)
            if answer.status in SMALLER:
                has_passed |= self._halved(half, answer, refusals)
                continue
            has_passed = True
            again, more = outcomes(half, answer, self._client.url)
            refusals += more
            if again:
                refusals += self.send(again, self._layout.body(again))
        return has_passed

    def _wait(self, number: int) -> None:
        wait_s = FIRST_WAIT_S * 2 ** (number - 1) * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
        if self.stopping.wait(wait_s):
            raise SinkError(ErrorCode.NETWORK, self._client.url, "the writer was closed while it waited to try again")


class BulkPart(NamedTuple):
    """Some of the deliveries that a writer was handed, by their places."""

    deliveries: Deliveries
    at: Sequence[int]

    def chosen(self, column: Sequence[V]) -> Sequence[V]:
        if isinstance(self.at, range):
            return column[self.at.start : self.at.stop]
        return itemgetter(*self.at)(column) if len(self.at) > 1 else [column[at] for at in self.at]


@dataclass(frozen=True, slots=True)
class BulkLayout:
    """What a line says besides the id."""

    op: str
    names_index: bool  # or the address of the request does
    version: str | None  # "input", the name of a field, or none

    def body(self, parts: Iterable[BulkPart]) -> bytes:
        return b"".join(map(self._lines, parts))

    def _lines(self, part: BulkPart) -> bytes:
        deliveries, count = part.deliveries, len(part.at)
        payloads = part.chosen(deliveries.payloads)
        lines = self._together(part, payloads)
        if lines.count(b"\n") != 2 * count or b"\r" in lines:
            return self._together(part, [one_line(payload) for payload in payloads])
        return lines

    def _together(self, part: BulkPart, payloads: Sequence[bytes]) -> bytes:
        deliveries = part.deliveries
        columns: list[tuple[bytes, Sequence[bytes]]] = []
        columns.append((b'\n{"%s":{"_id":' % self.op.encode(), quoted(part.chosen(deliveries.ids))))
        if self.names_index:
            columns.append((b',"_index":', quoted(part.chosen(deliveries.targets))))
        if deliveries.routings is not None:
            columns.append((b',"routing":', quoted(part.chosen(deliveries.routings))))
        if self.version is not None:
            numbers = "\n".join(map(str, self._versions(part))).encode().split(b"\n")
            columns.append((b',"version_type":"external_gte","version":', numbers))
        columns.append((b"}}\n", payloads))
        return b"".join(_interleaved(columns, len(part.at)))[1:] + b"\n"

    def _versions(self, part: BulkPart) -> Sequence[int]:
        if self.version == "input":
            return part.chosen(part.deliveries.versions)
        return [document[str(self.version)] for document in part.chosen(part.deliveries.documents)]

    def fitting(self, deliveries: Deliveries) -> tuple[Sequence[int], list[Refusal]]:
        """The places of those that fit into a request, and refusals of the others, which would fail all the rest."""
        refused = [*self._with_long_ids(deliveries), *self._without_version(deliveries)]
        if not refused:
            return range(len(deliveries)), refused
        bad = {refusal.at for refusal in refused}
        return [at for at in range(len(deliveries)) if at not in bad], list(
            {each.at: each for each in refused}.values()
        )

    def _with_long_ids(self, deliveries: Deliveries) -> Iterator[Refusal]:
        if max(map(len, deliveries.ids), default=0) * UTF8_CHARACTER_BYTES <= MAX_ID_BYTES:
            return
        for at, id in enumerate(deliveries.ids):
            if len(id.encode()) > MAX_ID_BYTES:
                text = f"the id has {len(id.encode())} bytes, {MAX_ID_BYTES} are allowed: {id[:80]}…"
                yield Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, "IdTooLong", text)

    def _without_version(self, deliveries: Deliveries) -> Iterator[Refusal]:
        if self.version is None or self.version == "input":
            return
        for at, document in enumerate(deliveries.documents):
            if not _is_version(document.get(self.version)):
                text = f"field {self.version!r} is not a version: a whole number from 0 to {MAX_VERSION}"
                yield Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, "BadVersion", text)


def outcomes(parts: Sequence[BulkPart], answer: IndexAnswer, url: str) -> tuple[list[BulkPart], list[Refusal]]:
    """What has to be sent again, and what was refused."""
    if answer.data.startswith(ALL_GOOD):
        return [], []
    items = _items(answer, sum(len(part.at) for part in parts), url)
    again, refusals = [], []
    behind = 0
    for part in parts:
        repeat = []
        for at, (status, error) in zip(part.at, items[behind : behind + len(part.at)], strict=True):
            if status in AGAIN:
                repeat.append(at)
            elif error is not None:
                refusals += _refused_item(part, at, error)
        behind += len(part.at)
        if repeat:
            again.append(BulkPart(part.deliveries, repeat))
    return again, refusals


def _items(answer: IndexAnswer, count: int, url: str) -> list[tuple[int, Any]]:
    """Status and error of each item."""
    try:
        items = [outcome for item in answer.json()["items"] for outcome in item.values()]
        found = [(outcome["status"], outcome.get("error")) for outcome in items]
        if len(found) == count:
            return found
    except (AttributeError, LookupError, TypeError):
        pass
    raise SinkError(ErrorCode.SINK_FAILED, url, "gave an answer that is not that of a bulk request")


def _refused_item(part: BulkPart, at: int, error: Any) -> list[Refusal]:
    kind, text = explained(error)
    if kind == CONFLICT:
        return []
    return [Refusal(part.deliveries, at, ErrorCode.ITEM_REFUSED, kind, text)]


def _refused_alone(part: BulkPart, answer: IndexAnswer) -> Refusal:
    if answer.status == TOO_LARGE:
        size = len(part.deliveries.payloads[part.at[0]])
        text = f"a record of {size} bytes is larger than the server takes in one request"
        return Refusal(part.deliveries, part.at[0], ErrorCode.SINK_REFUSED, str(TOO_LARGE), text)
    kind, text = answer.error
    return Refusal(part.deliveries, part.at[0], ErrorCode.SINK_REFUSED, kind, text)


def halves(parts: Sequence[BulkPart]) -> tuple[list[BulkPart], list[BulkPart]]:
    """The same in two requests, the same order."""
    left: list[BulkPart] = []
    right: list[BulkPart] = []
    room = sum(len(part.at) for part in parts) // 2
    for deliveries, at in parts:
        taken = min(room, len(at))
        room -= taken
        if at[:taken]:
            left.append(BulkPart(deliveries, at[:taken]))
        if at[taken:]:
            right.append(BulkPart(deliveries, at[taken:]))
    return left, right


def quoted(texts: Sequence[str]) -> list[bytes]:
    """Each as a JSON string."""
    together = "".join(texts)
    if together.isprintable() and '"' not in together and "\\" not in together:
        return f'"{chr(10).join(texts)}"'.replace("\n", '"\n"').encode().split(b"\n")
    return [orjson.dumps(text) for text in texts]


def _interleaved(columns: Sequence[tuple[bytes, Sequence[bytes]]], count: int) -> list[bytes]:
    width = 2 * len(columns)
    pieces: list[bytes] = [b""] * (width * count)
    for number, (mark, column) in enumerate(columns):
        pieces[2 * number :: width] = [mark] * count
        pieces[2 * number + 1 :: width] = column
    return pieces


def _is_version(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_VERSION
