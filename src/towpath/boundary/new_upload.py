"""What a client says when it opens an upload, checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Sequence

from towpath.boundary.chunk import LARGEST
from towpath.boundary.csv_lines import columns_of
from towpath.boundary.sender import NewSender, Sender
from towpath.boundary.streams import Stream
from towpath.errors import BadName, BadValue

MOST_SENDERS = 1_000
MOST_COLUMNS = 2_000
LONGEST_COLUMN = 200

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,59}")
_FORMATS = ("csv", "jsonl")


def check_new(stream: Stream, senders: Sequence[NewSender]) -> None:
    """Raise when an upload of these senders could take nothing."""
    if not 1 <= len(senders) <= MOST_SENDERS:
        raise BadValue(f"an upload has 1 to {MOST_SENDERS} senders, not {len(senders)}")
    names = [new.name for new in senders]
    for new in senders:
        if not _NAME.fullmatch(new.name):
            raise BadName(f"{new.name!r} is not the name of a sender: 1 to 60 letters, digits, dots, _ and -")
        if names.count(new.name) > 1:
            raise BadValue(f"two senders are called {new.name!r}")
        _check_sender(stream, new)


def _check_sender(stream: Stream, new: NewSender) -> None:
    stream.input(new.input)
    if new.format not in _FORMATS:
        raise BadValue(f"format={new.format!r}: it is {' or '.join(_FORMATS)}")
    if type(new.first_line) is not int or not 1 <= new.first_line <= LARGEST:
        raise BadValue(f"first_line={new.first_line!r}: lines are numbered from 1")
    if new.columns is not None:
        _check_columns(stream, new.input, new.format, new.columns)


def check_columns(stream: Stream, sender: Sender, columns: Sequence[str]) -> None:
    """Raise when these cannot be the columns of the sender, or are not those that it has said before."""
    _check_columns(stream, sender.input, sender.format, columns)
    if sender.columns is not None and sender.columns != tuple(columns):
        raise BadValue(f"sender {sender.name} has said other columns before: {', '.join(sender.columns)}")


def _check_columns(stream: Stream, input: str, format: str, columns: Sequence[str]) -> None:
    if format != "csv":
        raise BadValue("JSON lines have no columns: leave them away")
    if len(columns) > MOST_COLUMNS or any(len(name) > LONGEST_COLUMN for name in columns):
        raise BadValue(f"at most {MOST_COLUMNS} columns, and {LONGEST_COLUMN} characters in the name of each")
    if any("\x00" in name or not _is_unicode(name) for name in columns):
        raise BadValue("the name of a column holds a NUL character or half of a character")
    found = stream.input(input)
    key = None if found.key == stream.upload_field else found.key
    reserved = [name for name in (stream.upload_field, stream.line_field) if name]
    columns_of(list(columns), found.schema, reserved, key)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_same(new: Sequence[NewSender], found: Sequence[Sender]) -> bool:
    """Whether an upload that is there has the senders that are asked for; columns may have been said since."""
    said = [(each.name, each.input, each.format) for each in new]
    if said != [(each.name, each.input, each.format) for each in found]:
        return False
    return all(
        each.columns is None or there.columns == tuple(each.columns) for each, there in zip(new, found, strict=True)
    )
