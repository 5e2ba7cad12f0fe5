"""Documents of records that leave a join on columns without a partner: in the value of the tick that delivers them."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from towpath.flow.stateful.column_waiting import Entry, Left
from towpath.flow.text.reading import Document, read_document
from towpath.flow.text.writing import Unwritable, write

LONE = "unmatched"  # the field of the value in which they are


def alone(names: Sequence[str], left: Left) -> Document:
    """With null for the other side."""
    document = kept_document(left.entry)
    return {name: document if at == left.input else None for at, name in enumerate(names)}


def kept_document(entry: Entry) -> Document:
    """Of a record that has waited. Whatever the flow says now of duplicates: it was good when it was read."""
    return read_document(entry.value, max_bytes=len(entry.value), duplicates="keep")


def lone_text(names: Sequence[str], every: Sequence[Left], documents: Sequence[Document]) -> bytes:
    try:
        return write({LONE: documents})
    except Unwritable:  # nested as deep as can be before: the tick fails where it is read, and has what they are
        return b"{" + orjson.dumps(LONE) + b": [" + b", ".join(_text(names, left) for left in every) + b"]}"


def _text(names: Sequence[str], left: Left) -> bytes:
    values = (left.entry.value if at == left.input else b"null" for at in range(len(names)))
    return (
        b"{" + b", ".join(orjson.dumps(name) + b": " + value for name, value in zip(names, values, strict=True)) + b"}"
    )


def lone_documents(document: Document) -> list[Document]:
    """Of a tick that comes back; `ValueError` if somebody has made something else of it."""
    found = document.get(LONE)
    if not isinstance(found, list) or not all(type(each) is dict for each in found):
        raise ValueError(f"a tick that comes back has in {LONE!r} a list of the documents that go without a partner")
    return found
