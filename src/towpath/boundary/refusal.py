"""A line that is no record: it goes into the topic all the same, as what no flow can take for a document.

An array fails in every flow, and becomes a case of the desk with the rule that was not met, the number of the line and
the line itself. So nothing that a sender has sent is lost without a person knowing.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

MARK = "towpath-refused"
SHOWN_CHARACTERS = 1_000  # of a line that is too long to be kept


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a line is refused. `rule` is a short name that all such lines share; `is_cut`: its text is not all of it."""

    rule: str
    message: str
    is_cut: bool = False


def shown(line: bytes) -> str:
    """The line as text; bytes that are no UTF-8 are written `\\xNN`."""
    return line.decode(errors="backslashreplace")


def refused_value(refusal: Refusal, line: bytes, number: int, upload: str, sender: str) -> bytes:
    """The value of the record that stands for a refused line."""
    about = {
        "rule": refusal.rule,
        "message": f"line {number}: {refusal.message}",
        "line": number,
        "sender": sender,
        "upload": upload,
    }
    text = shown(line[: 4 * SHOWN_CHARACTERS])[:SHOWN_CHARACTERS] if refusal.is_cut else shown(line)
    return orjson.dumps([MARK, about, text])


def too_long(most_bytes: int) -> Refusal:
    """The same of a line that was seen whole and of one that its sender has skipped."""
    return Refusal("line too long", f"longer than {most_bytes} bytes; its beginning is kept", is_cut=True)
