"""One upload as its row has it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath.boundary.sender import Sender
from towpath.boundary.state import ENDED, UploadState
from towpath.clock import to_datetime
from towpath.db.database import Row


@dataclass(frozen=True, slots=True)
class Upload:
    """What one client sends for a stream, and gets back. Times are the database's, in microseconds since 1970."""

    seq: int
    id: str
    stream: str
    state: UploadState
    owner: str  # the name of who opened it: nobody else's requests count
    label: str
    opened_us: int
    touched_us: int  # when its client was last heard of, to a few seconds
    closed_us: int | None  # when its last sender finished
    sending_us: int | None
    ended_us: int | None
    who: str | None  # who ended it before its time
    why: str | None  # and why; while it is closing, why that has failed so far
    tries: int  # of its closing computations that have failed

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED

    @property
    def opened_at(self) -> datetime:
        return to_datetime(self.opened_us)

    @property
    def touched_at(self) -> datetime:
        return to_datetime(self.touched_us)

    @property
    def closed_at(self) -> datetime | None:
        return None if self.closed_us is None else to_datetime(self.closed_us)

    @property
    def sending_at(self) -> datetime | None:
        return None if self.sending_us is None else to_datetime(self.sending_us)

    @property
    def ended_at(self) -> datetime | None:
        return None if self.ended_us is None else to_datetime(self.ended_us)

    @classmethod
    def from_row(cls, row: Row) -> Upload:
        values: list[Any] = list(row)
        values[3] = UploadState(values[3])
        return cls(*values)


@dataclass(frozen=True, slots=True)
class UploadStatus:
    """An upload with its senders, in the order in which they were named."""

    upload: Upload
    senders: tuple[Sender, ...]

    def sender(self, name: str) -> Sender:
        return next(each for each in self.senders if each.name == name)
