"""What a reader makes of lines. Two classes fit: `CsvLines` and `JsonLines`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from towpath.boundary.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Reading:
    """For each line the value and the key of its record, None where it is refused or blank; and why it is refused."""

    values: list[bytes | None]
    keys: list[bytes | None]
    refusals: dict[int, Refusal] = field(default_factory=dict)


class LineReader(Protocol):
    """Lines of one sender to values of records."""

    def read(self, lines: Sequence[bytes], numbers: Sequence[int]) -> Reading:
        """What becomes of each of the lines; `numbers` are those under which the sender knows them."""
