"""Bodies of bulk requests: for each document a line that says where it goes, and the document as it came.

Lines are put together column by column, not document by document: at sixty thousand documents a second on a core that
also has to parse them, a microsecond for each is what can be spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import orjson

from towpath.flow.codes import ErrorCode
from towpath.flow.sinks.json_line import one_line
from towpath.flow.sinks.sink import Deliveries, Refusal

MAX_ID_BYTES = 512  # a longer one makes the server refuse the whole request
MAX_VERSION = 2**63 - 1
UTF8_CHARACTER_BYTES = 4

V = TypeVar("V")


class Part(NamedTuple):
    """Some of the deliveries that a writer was handed, by their places."""

    deliveries: Deliveries
    at: Sequence[int]

    def chosen(self, column: Sequence[V]) -> Sequence[V]:
        if isinstance(self.at, range):
            return column[self.at.start : self.at.stop]
        return itemgetter(*self.at)(column) if len(self.at) > 1 else [column[at] for at in self.at]


@dataclass(frozen=True, slots=True)
class Layout:
    """What a line says besides the id."""

    op: str
    names_index: bool  # or the address of the request does
    version: str | None  # "input", the name of a field, or none

    def body(self, parts: Iterable[Part]) -> bytes:
        return b"".join(map(self._lines, parts))

    def _lines(self, part: Part) -> bytes:
        deliveries, count = part.deliveries, len(part.at)
        payloads = part.chosen(deliveries.payloads)
        lines = self._together(part, payloads)
        if lines.count(b"\n") != 2 * count or b"\r" in lines:
            return self._together(part, [one_line(payload) for payload in payloads])
        return lines

    def _together(self, part: Part, payloads: Sequence[bytes]) -> bytes:
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

    def _versions(self, part: Part) -> Sequence[int]:
        if self.version == "input":
            return part.chosen(part.deliveries.versions)
        return [document[str(self.version)] for document in part.chosen(part.deliveries.documents)]

    def fitting(self, deliveries: Deliveries) -> tuple[Sequence[int], list[Refusal]]:
        """The places of those that can stand in a request, and why others cannot: one such fails all its neighbours."""
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
