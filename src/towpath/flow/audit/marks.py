"""A set of offsets of one range, one bit each: a batch of a million records costs at most 125 kB."""

from __future__ import annotations

from towpath.flow.positions import Range


class Marks:
    """Which offsets of a range are marked. Grows with the highest one."""

    __slots__ = ("_bits", "_start", "_stop", "count")

    def __init__(self, place: Range) -> None:
        self._start, self._stop = place.start, place.stop
        self._bits = bytearray()
        self.count = 0

    def add(self, offset: int) -> bool:
        """Mark an offset; whether that was news. `ValueError` when it lies outside."""
        if not self._start <= offset < self._stop:
            raise ValueError(f"offset {offset} is not between {self._start} and {self._stop}")
        at, bit = divmod(offset - self._start, 8)
        if at >= len(self._bits):
            self._bits.extend(bytes(at + 1 - len(self._bits)))
        if self._bits[at] >> bit & 1:
            return False
        self._bits[at] |= 1 << bit
        self.count += 1
        return True

    def __contains__(self, offset: int) -> bool:
        at, bit = divmod(offset - self._start, 8)
        return 0 <= at < len(self._bits) and bool(self._bits[at] >> bit & 1)
