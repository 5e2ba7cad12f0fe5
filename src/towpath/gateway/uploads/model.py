"""Uploads and their senders as their rows have them, their states, and every move between these.

docs/reference/upload-states.md is held equal to the states and moves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar
from uuid import uuid4

from towpath.core.clock import to_datetime
from towpath.db.database import Row
from towpath.gateway.lines.lines import Format


class UploadState(StrEnum):
    """How far an upload is."""

    RECEIVING = "receiving"  # its senders may send; after a crash it waits for them
    CLOSING = "closing"  # all have finished; the flow passes what they sent, and the closing computations run
    SENDING = "sending"  # its results are there, and its client has not had all of them
    FINISHED = "finished"  # its client has had all; what was kept for it is removed
    ABORTED = "aborted"  # its client or an operator gave it up
    EXPIRED = "expired"  # nobody went on with it, and a rule with an approver ended it


_RECEIVING, _CLOSING, _SENDING, _FINISHED, _ABORTED, _EXPIRED = UploadState

ENDED = (_FINISHED, _ABORTED, _EXPIRED)


class UploadMove(StrEnum):
    """What can happen to an upload. The value is the label of its arrow in a chart."""

    CLOSE = "all senders have finished"
    SEND = "closing computations done"
    FINISH = "all results acknowledged"
    ABORT = "aborted"
    EXPIRE = "expired by a rule"


class SenderState(StrEnum):
    """Whether more comes from a sender."""

    RECEIVING = "receiving"  # it may send
    FINISHED = "finished"  # it has said that this was all


S = TypeVar("S", UploadState, SenderState)


class SenderMove(StrEnum):
    """What can happen to a sender."""

    FINISH = "finished"


@dataclass(frozen=True, slots=True)
class UploadArrow(Generic[S]):
    """One move of an upload or a sender: from which states, to which."""

    sources: tuple[S, ...]
    target: S


MOVES: dict[UploadMove, UploadArrow[UploadState]] = {
    UploadMove.CLOSE: UploadArrow((_RECEIVING,), _CLOSING),
    UploadMove.SEND: UploadArrow((_CLOSING,), _SENDING),
    UploadMove.FINISH: UploadArrow((_SENDING,), _FINISHED),
    UploadMove.ABORT: UploadArrow((_RECEIVING, _CLOSING, _SENDING), _ABORTED),
    UploadMove.EXPIRE: UploadArrow((_RECEIVING, _SENDING), _EXPIRED),
}
SENDER_MOVES: dict[SenderMove, UploadArrow[SenderState]] = {
    SenderMove.FINISH: UploadArrow((SenderState.RECEIVING,), SenderState.FINISHED),
}


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """What one client sends for a stream, and gets back. Times are the database's."""

    seq: int
    id: str
    stream: str
    state: UploadState
    owner: str  # the name of who opened it: nobody else's requests count
    label: str
    opened_at: datetime
    touched_at: datetime  # when its client was last heard of, to a few seconds
    closed_at: datetime | None  # when its last sender finished
    sending_at: datetime | None
    ended_at: datetime | None
    who: str | None  # who ended it before its time
    why: str | None  # and why; while it is closing, why that has failed so far
    tries: int  # of its closing computations that have failed

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED

    @classmethod
    def from_row(cls, row: Row) -> StoredUpload:
        values: list[Any] = list(row)
        values[3] = UploadState(values[3])
        values[6:11] = (None if time is None else to_datetime(time) for time in values[6:11])
        return cls(*values)


@dataclass(frozen=True, slots=True)
class UploadStatus:
    """An upload with its senders, in the order in which they were named."""

    upload: StoredUpload
    senders: tuple[UploadSender, ...]

    def sender(self, name: str) -> UploadSender:
        return next(each for each in self.senders if each.name == name)


@dataclass(frozen=True, slots=True)
class UploadSender:
    """How far a sender is."""

    upload: str
    name: str
    input: str
    format: Format
    columns: tuple[str, ...] | None
    state: SenderState
    session: int  # the number of its newest connection, which alone counts
    position: int  # bytes acknowledged
    line: int  # the number of the last line taken
    sequence: int  # of the last chunk taken
    crc32: int  # of all bytes acknowledged
    refused: int  # lines that are no records
    plan: SenderPlan | None
    ends: Mapping[int, int] | None  # where each partition of its topic ended when it had finished
    touched_us: int
    finished_us: int | None
    blocked: int = 0  # lines that a rule has kept out

    @property
    def is_finished(self) -> bool:
        return self.state is SenderState.FINISHED

    def taken(self, *, is_repeat: bool = False) -> ChunkReceipt:
        return ChunkReceipt(self.position, self.line, self.sequence, self.refused, self.crc32, is_repeat)

    @classmethod
    def from_row(cls, row: Row) -> UploadSender:
        values: list[Any] = list(row)
        values[4] = None if values[4] is None else tuple(json.loads(values[4]))
        values[5] = SenderState(values[5])
        values[12] = None if values[12] is None else SenderPlan.from_json(values[12])
        values[13] = None if values[13] is None else offsets_from_json(values[13])
        return cls(*values)


@dataclass(frozen=True, slots=True)
class SenderRequest:
    """A sender to be: what it will send, and how.

    `columns` are those of a CSV; they may be said later, with the first session. `first_line` is the number of the
    first line that it sends, so that 2 gives lines the numbers that they have in a file with a header.
    """

    name: str
    input: str
    format: Format = "csv"
    columns: Sequence[str] | None = None
    first_line: int = 1


@dataclass(frozen=True, slots=True)
class SenderPlan:
    """Where the sender will be when the records that are under way are in the log. Written down before they go.

    The same chunk sent twice makes the same numbers: by its id a plan is told from one that was given up before it.
    `caught` is how many of its lines block rules have caught, by the rule's number.
    """

    position: int
    line: int
    sequence: int
    crc32: int
    refused: int
    id: str = field(default_factory=lambda: uuid4().hex)
    blocked: int = 0
    caught: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """Rows of older versions say nothing about block rules, and are known again by their text."""
        said = asdict(self)
        return json.dumps({name: value for name, value in said.items() if value or name not in ("blocked", "caught")})

    @classmethod
    def from_json(cls, text: str) -> SenderPlan:
        said = json.loads(text)
        caught = {int(number): count for number, count in said.pop("caught", {}).items()}
        return cls(**said, caught=caught)


@dataclass(frozen=True, slots=True)
class ChunkReceipt:
    """The answer to a chunk: how far the sender is now. `is_repeat`: there was nothing new in it."""

    position: int
    line: int
    sequence: int
    refused: int
    crc32: int
    is_repeat: bool = False


def offsets_to_json(offsets: Mapping[int, int]) -> str:
    return json.dumps({str(partition): offset for partition, offset in sorted(offsets.items())})


def offsets_from_json(text: str) -> dict[int, int]:
    return {int(partition): offset for partition, offset in json.loads(text).items()}
