"""How many bytes the next chunk has: more while the way is good, fewer when it breaks, a share while many send."""

from __future__ import annotations

FIRST_BYTES = 256 << 10
LEAST_BYTES = 16 << 10
QUICK_S = 0.5
SLOW_S = 3.0


class ChunkSize:
    """Doubled after a quick answer, halved after a slow one or none, up to what the server takes.

    While many send, answers are slow for all of them, whatever the size. Then the server says what is everybody's
    share, and each comes to it by doubling: who went by the time would stay with the size they had before the crowd.
    """

    def __init__(self, most_bytes: int, first_bytes: int = FIRST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.bytes = min(first_bytes, most_bytes)
        self._line_bytes = 0  # a chunk has to hold a line

    def answered(self, sent_bytes: int, took_s: float, share_bytes: int | None = None) -> None:
        """A short chunk says nothing about longer ones."""
        if share_bytes is not None and share_bytes < self.most_bytes:
            self.bytes = min(self.bytes * 2, max(share_bytes, self._line_bytes), self.most_bytes)
        elif took_s < QUICK_S and sent_bytes * 2 >= self.bytes:
            self.bytes = min(self.bytes * 2, self.most_bytes)
        elif took_s > SLOW_S:
            self.halve()

    def held_no_line(self) -> None:
        """The next one is larger, and so are those after it, whatever the share."""
        self.bytes = self._line_bytes = min(self.bytes * 2, self.most_bytes)

    def halve(self) -> None:
        self.bytes = min(max(self.bytes // 2, LEAST_BYTES), self.most_bytes)

    def lower_to(self, most_bytes: int) -> None:
        """The server takes less than it had said."""
        self.most_bytes = min(self.most_bytes, most_bytes)
        self.bytes = min(self.bytes, self.most_bytes)
