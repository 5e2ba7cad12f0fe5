"""What a gateway tells a client, read from its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from towpath.errors import GatewayRefused

T = TypeVar("T")

FINISHED = "finished"
COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class NewSender:
    """Who will send one input of an upload. `columns` are those of a CSV file, in their order."""

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
class Place:
    """How far the server has a sender's data, durably."""

    position: int  # bytes
    line: int  # the number of the last line
    sequence: int
    refused: int  # lines that have become cases on the desk
    crc32: int  # of all bytes up to the position

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Place:
        return cls(*(int(item[name]) for name in ("position", "line", "sequence", "refused", "crc32")))


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of a chunk."""

    place: Place
    next_bytes: int | None  # how large the next may be while many send; gateways before this one do not say it

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Taken:
        next_bytes = item.get("next_bytes")
        return cls(Place.read(item), None if next_bytes is None else int(next_bytes))


@dataclass(frozen=True, slots=True)
class Session:
    """The right to send as one sender, until somebody else asks for it."""

    number: int
    place: Place
    is_finished: bool
    chunk_bytes: int
    line_bytes: int

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Session:
        limits = int(item["chunk_bytes"]), int(item["line_bytes"])
        return cls(int(item["session"]), Place.read(item), item["state"] == FINISHED, *limits)


@dataclass(frozen=True, slots=True)
class KnownSender:
    """A sender, as the status of its upload has it."""

    sender: str
    input: str
    is_finished: bool
    place: Place

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> KnownSender:
        return cls(str(item["sender"]), str(item["input"]), item["state"] == FINISHED, Place.read(item))


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
class Page:
    """Rows of a query, as bytes of whole lines, and the cursor behind them."""

    lines: bytes
    rows: int
    cursor: str | None
    is_end: bool  # the query is complete, and this was the last of it


def understood(read: Callable[[dict[str, Any]], T], body: bytes) -> T:
    """The body of an answer, read; `GatewayRefused` when no gateway answers so."""
    try:
        return read(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise GatewayRefused(200, "", "the answer is not one of a gateway; is that the right address?") from None
