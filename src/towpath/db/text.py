"""Text that both databases can hold."""

from __future__ import annotations


def storable(text: str) -> str:
    """The text with NUL characters and unpaired surrogates spelled out: reasons hold whatever broke a handler."""
    return text.replace("\x00", "\\0").encode(errors="backslashreplace").decode()
