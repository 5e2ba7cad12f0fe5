"""One sender of an upload as its row has it, and what it is about to take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from towpath.boundary.lines import Format
from towpath.boundary.state import SenderState
from towpath.clock import to_datetime
from towpath.db.database import Row


@dataclass(frozen=True, slots=True)
class NewSender:
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
class Plan:
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
    def from_json(cls, text: str) -> Plan:
        said = json.loads(text)
        caught = {int(number): count for number, count in said.pop("caught", {}).items()}
        return cls(**said, caught=caught)


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to a chunk: how far the sender is now. `is_repeat`: there was nothing new in it."""

    position: int
    line: int
    sequence: int
    refused: int
    crc32: int
    is_repeat: bool = False


@dataclass(frozen=True, slots=True)
class Sender:
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
    plan: Plan | None
    ends: Mapping[int, int] | None  # where each partition of its topic ended when it had finished
    touched_us: int
    finished_us: int | None
    blocked: int = 0  # lines that a rule has kept out

    @property
    def is_finished(self) -> bool:
        return self.state is SenderState.FINISHED

    @property
    def finished_at(self) -> datetime | None:
        return None if self.finished_us is None else to_datetime(self.finished_us)

    def taken(self, *, is_repeat: bool = False) -> Taken:
        return Taken(self.position, self.line, self.sequence, self.refused, self.crc32, is_repeat)

    @classmethod
    def from_row(cls, row: Row) -> Sender:
        values: list[Any] = list(row)
        values[4] = None if values[4] is None else tuple(json.loads(values[4]))
        values[5] = SenderState(values[5])
        values[12] = None if values[12] is None else Plan.from_json(values[12])
        values[13] = None if values[13] is None else offsets_from_json(values[13])
        return cls(*values)


def offsets_to_json(offsets: Mapping[int, int]) -> str:
    return json.dumps({str(partition): offset for partition, offset in sorted(offsets.items())})


def offsets_from_json(text: str) -> dict[int, int]:
    return {int(partition): offset for partition, offset in json.loads(text).items()}
