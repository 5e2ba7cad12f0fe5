"""What is to be done with a chunk: taken, cut, answered as a repeat, or refused. Nothing but numbers in and out."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.errors import BadValue, ChunkGap

LARGEST = (1 << 62) - 1  # of offsets and sequence numbers, which have to fit into a column


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sender is, or where a chunk says that it belongs."""

    offset: int
    sequence: int

    def __post_init__(self) -> None:
        for name, value in (("offset", self.offset), ("sequence", self.sequence)):
            if type(value) is not int or not 0 <= value <= LARGEST:
                raise BadValue(f"{name}={value!r}: it is a whole number from 0 to {LARGEST}")


def known_bytes(taken: Place, chunk: Place, length: int) -> int | None:
    """How many bytes at the beginning of the chunk are known already; None when there is nothing new in it.

    `ChunkGap` when bytes are missing between what was taken and the chunk.
    """
    if chunk.sequence <= taken.sequence:
        return None
    if chunk.offset > taken.offset:
        raise ChunkGap(chunk.offset, taken.offset)
    known = taken.offset - chunk.offset
    return known if known < length else None
