"""The API key with which a client shows who it is: from a variable or a file, never from a command line."""

from __future__ import annotations

import os
from pathlib import Path

from towpath.errors import BadSettings

VARIABLE = "TOWPATH_KEY"


class Key:
    """A key that does not show itself: neither in logs nor in traces."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise BadSettings(
                "the key is not one line of printable characters without spaces; `towpath key make` shows one"
            )
        self._text = text

    @property
    def header(self) -> str:
        return f"Bearer {self._text}"

    def __repr__(self) -> str:
        return "Key(***)"


def find_key(file: Path | None) -> Key:
    """The key of that file, otherwise the one of the variable."""
    if file is not None:
        return Key(_read(file))
    found = os.environ.get(VARIABLE, "").strip()
    if not found:
        raise BadSettings(
            f"there is no key: put it into the variable {VARIABLE}, or into a file and say --key-file FILE"
        )
    return Key(found)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"the key cannot be read from {file}: {getattr(error, 'strerror', None) or error}") from error
