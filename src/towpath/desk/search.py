"""Searching what a person may see: what is hidden must not be found out by asking for it. Pure."""

from __future__ import annotations

from towpath.desk.selection import Selection


def has_hidden_search(selection: Selection) -> bool:
    """Whether it looks into bodies or messages, where hidden fields are."""
    return selection.body is not None or selection.text is not None


def matches(selection: Selection, message: str, value: bytes | None) -> bool:
    """Whether what is left after hiding still has what was searched for."""
    if selection.text is not None and selection.text not in message:
        return False
    return selection.body is None or (value is not None and selection.body.encode() in value)
