"""Changes put into the original text of a record: only what changed is written anew.

All else stays as it was, byte for byte: numbers (`1.0`, `1E+2`), the order of fields, escapes, nested values and
white space. New fields come at the end, in order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure, bounded
from towpath.flow.text.members import SPACE, Finder, spelt
from towpath.flow.text.writing import write, write_column

if TYPE_CHECKING:
    import pyarrow as pa

(_QUOTE,) = b'"'
(_BRACE,) = b"}"
_BEFORE_NONE = b"{" + SPACE


def splice(text: bytes, changed: Mapping[str, Any], dropped: Collection[str] = ()) -> bytes:
    """The text of an object with some fields changed, added or dropped; `Unwritable` if JSON cannot hold a value.

    Of a name that stands twice the last is changed, for that is the one that is read; dropped, both are gone.
    """
    if not changed and not dropped:
        return text
    tokens = {name: write(value) for name, value in changed.items()}
    return _spliced(text, tokens, dropped, _finder((*changed, *dropped)))


def splice_rows(
    texts: Sequence[bytes | None],
    names: Sequence[str],
    columns: Sequence[pa.Array | Sequence[Any]],
    dropped: Collection[str] = (),
    *,
    keep: Mapping[str, Sequence[bool]] | None = None,
    step: str = "write",
) -> tuple[list[bytes | None], dict[int, Failure]]:
    """Many texts with the same fields changed, each to its row of the columns; and the rows that cannot be written.

    `keep` says for a field in which rows it stays as it is (see `same_rows`). A text that is None stays None.
    """
    if not names and not dropped:
        return list(texts), {}
    finder = Finder((*names, *dropped))
    kept = {name: rows for name, rows in (keep or {}).items() if name in names}
    columns_of_tokens, failures = _written(names, columns, kept, step)
    for name, column in columns_of_tokens.items():
        if len(column) != len(texts):
            raise ValueError(f"column {name!r} has {len(column)} values for {len(texts)} texts")
    addition = b",".join(spelt(name).replace(b"%", b"%%") + b":%b" for name in names)
    rows_of_tokens = list(zip(*columns_of_tokens.values(), strict=True)) if names else [()] * len(texts)
    spliced: list[bytes | None] = []
    for row, text in enumerate(texts):
        if text is None or row in failures:
            spliced.append(None)
            continue
        if not kept and _is_tight(text) and not finder.find(text):
            # Nothing but new fields, and a text that ends as most do.
            spliced.append(b"%b,%b}" % (text[:-1], addition % rows_of_tokens[row]) if names else text)
            continue
        tokens = dict(zip(names, rows_of_tokens[row], strict=True))
        for name, rows in kept.items():
            if rows[row]:
                del tokens[name]
        spliced.append(_spliced(text, tokens, dropped, finder))
    return spliced, failures


_finder = lru_cache(maxsize=256)(Finder)


def _is_tight(text: bytes) -> bool:
    """Whether the text ends with the brace of an object that has fields, and nothing stands between."""
    return text[-1] == _BRACE and text[-2] not in _BEFORE_NONE


def _written(
    names: Sequence[str], columns: Sequence[Any], kept: Mapping[str, Sequence[bool]], step: str
) -> tuple[dict[str, list[bytes]], dict[int, Failure]]:
    texts: dict[str, list[bytes]] = {}
    failures: dict[int, Failure] = {}
    for name, column in zip(names, columns, strict=True):
        texts[name], errors = write_column(column)
        for row, error in errors.items():
            if not (name in kept and kept[name][row]):
                message = bounded(f"field {name!r}: {error}")
                failures.setdefault(row, Failure(ErrorCode.TRANSFORM_FAILED, step, "Unwritable", message))
    return texts, failures


def _spliced(text: bytes, tokens: dict[str, bytes], dropped: Collection[str], finder: Finder) -> bytes:
    """From the last field to the first, so that what was found further left stays where it is. Uses up `tokens`."""
    for name, start, value, end in reversed(finder.find(text)):
        if name in tokens:
            text = text[:value] + tokens.pop(name) + text[end:]
        elif name in dropped:
            text = _without(text, start, end)
    return _with(text, tokens) if tokens else text


def _without(text: bytes, start: int, end: int) -> bytes:
    """A field cut out with the comma after it, or, if it is the last, with the one before it."""
    after = text[end:].lstrip(SPACE)
    if after[:1] == b",":
        return text[:start] + after[1:].lstrip(SPACE)
    bare = text[:start].rstrip(SPACE)
    return (bare[:-1] if bare[-1:] == b"," else text[:start]) + text[end:]


def _with(text: bytes, tokens: Mapping[str, bytes]) -> bytes:
    """New fields after the last one."""
    body = text[: text.rindex(b"}")].rstrip(SPACE)
    added = [spelt(name) + b":" + token for name, token in tokens.items()]
    comma = b"," if _QUOTE in body else b""
    return body + comma + b",".join(added) + text[len(body) :]
