"""JSON texts as single lines."""

from __future__ import annotations

from collections.abc import Sequence

_LINE_ENDS = bytes.maketrans(b"\n\r", b"  ")


def one_line(payload: bytes) -> bytes:
    """The same JSON on one line: inside a string a raw line end is not JSON, so all there are stand between tokens."""
    return payload.translate(_LINE_ENDS)


def one_line_each(payloads: Sequence[bytes]) -> Sequence[bytes]:
    """The payloads, as they are unless one has a line end."""
    together = b"".join(payloads)
    if b"\n" in together or b"\r" in together:
        return [one_line(payload) for payload in payloads]
    return payloads
