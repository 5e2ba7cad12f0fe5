"""Faults of workers as lines of text: all that comes to the driver of an exception in a Python worker is its text.

A fault is one line, `towpath-fault <nonce> {"code": …}`. Texts hold whatever was in a record, also lines that look like
this one; so each attempt at a batch has a nonce that no record can know, and only lines with it count.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from towpath.flow.codes import ErrorCode
from towpath.flow.failure import bounded

_TAG = "towpath-fault"
_NONCE = re.compile(r"[0-9A-Za-z]{8,64}")
_CODE = re.compile(r'\{"code": (\d+),')  # stands first: what is left of a line that was cut off
_decode = json.JSONDecoder().raw_decode

NAME_CHARACTERS = 200


class Fault(NamedTuple):
    """What went wrong in a worker, as it said it."""

    code: ErrorCode
    step: str
    target: str
    message: str
    needs_person: bool = False


def encode_fault(nonce: str, code: int, step: str, target: str, message: str, *, needs_person: bool = False) -> str:
    """One line of ASCII, of bounded length."""
    if not _NONCE.fullmatch(nonce):
        raise ValueError(f"a nonce is 8 to 64 letters and digits, not {nonce!r}")
    fault = {
        "code": int(code),
        "step": bounded(step, NAME_CHARACTERS),
        "target": bounded(target, NAME_CHARACTERS),
        "message": bounded(message),
        "needs_person": needs_person,
    }
    return f"{_TAG} {nonce} {json.dumps(fault)}"


def decode_fault(text: str, nonce: str) -> Fault | None:
    """The fault in a text, if there is one with that nonce. Of a line that was cut off, as much as is left."""
    if not _NONCE.fullmatch(nonce):
        return None
    found = [_read(part) for part in text.split(f"{_TAG} {nonce} ")[1:]]
    whole = [fault for fault in found if fault is not None and fault.message]
    return next(iter(whole or filter(None, found)), None)


def _read(text: str) -> Fault | None:
    try:
        value, _ = _decode(text)
        code = ErrorCode(value["code"])
        needs_person = value.get("needs_person") is True
        return Fault(code, str(value["step"]), str(value["target"]), str(value["message"]), needs_person)
    except (ValueError, KeyError, TypeError):
        cut = _CODE.match(text)
    try:
        return Fault(ErrorCode(int(cut[1])), "", "", "") if cut else None
    except ValueError:
        return None
