"""Failures of a flow: the fourteen error codes, why a single record failed, and faults that workers report as text.

A `RecordFailure` is stored with its record: code, step and message, all bounded in size.

A `FaultReport` travels as text, because the text is all that the driver gets of an exception in a Python worker. It is
one line, `towpath-fault <nonce> {"code": …}`. Texts hold whatever was in a record, also lines that look like this one;
so each attempt at a batch has a nonce that no record can know, and only lines with it count.
"""

from __future__ import annotations

import json
import re
import traceback
from enum import Enum, IntEnum
from typing import NamedTuple

MESSAGE_CHARACTERS = 1_000
TRACE_CHARACTERS = 4_000
TRACE_FRAMES = 12
ALIKE_CHARACTERS = 200  # of a message that tell one cause from another
NAME_CHARACTERS = 200  # of a step or target in a fault

# What differs from record to record in the same failure: numbers, quoted words, long hexadecimal ids.
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|\b[0-9a-f]{8,}\b|\d+")

_TAG = "towpath-fault"
_NONCE = re.compile(r"[0-9A-Za-z]{8,64}")
_CODE = re.compile(r'\{"code": (\d+),')  # stands first: what is left of a line that was cut off
_decode = json.JSONDecoder().raw_decode


class Action(Enum):
    """What a stage does about an error."""

    AGAIN = "again"  # the attempt ends; wait, then start again from `configure`
    RETRY = "retry"  # wait, then try the same state again, without end
    RESET = "reset"  # move the positions, and record what was skipped
    DIVERT = "divert"  # the record goes to the error topic, the rest goes on


class ErrorCode(IntEnum):
    """The codes of the Qanal machine; their numbers never change."""

    UNCATEGORISED = 0  # nothing below fits, and it cannot be laid on one record
    LOG_UNAVAILABLE = 1  # the broker, or the file of the log, does not answer
    TOPIC_NOT_FOUND = 2  # a topic that is read is not there
    PARTITION_NOT_FOUND = 3  # a partition that is read is not there
    RECORD_TOO_BIG = 4  # larger than the flow's own limit
    OFFSET_NOT_AVAILABLE = 5  # deleted before it was read, or beyond the end
    NETWORK = 6  # a connection broke, timed out or could not be made
    NOT_JSON = 7  # the value is not UTF-8, or not JSON as RFC 8259 has it
    NOT_VALID = 8  # schema or expectation is not met
    TRANSFORM_FAILED = 9  # a step raised, ran out of time or killed its worker
    SINK_UNAVAILABLE = 10  # the sink does not answer
    SINK_FAILED = 11  # the sink answered that it is broken (5xx)
    ITEM_REFUSED = 12  # the sink took the request and refused single items
    SINK_REFUSED = 13  # the sink refused the request (4xx)

    @property
    def action(self) -> Action:
        return _ACTIONS[self]

    @property
    def is_handled(self) -> bool:
        """Whether it is laid on one record, which goes to the error topic while the rest of the batch goes on."""
        return self.action is Action.DIVERT


_ACTIONS = {
    ErrorCode.UNCATEGORISED: Action.AGAIN,
    ErrorCode.LOG_UNAVAILABLE: Action.RETRY,
    ErrorCode.TOPIC_NOT_FOUND: Action.RETRY,
    ErrorCode.PARTITION_NOT_FOUND: Action.RETRY,
    ErrorCode.RECORD_TOO_BIG: Action.DIVERT,
    ErrorCode.OFFSET_NOT_AVAILABLE: Action.RESET,
    ErrorCode.NETWORK: Action.RETRY,
    ErrorCode.NOT_JSON: Action.DIVERT,
    ErrorCode.NOT_VALID: Action.DIVERT,
    ErrorCode.TRANSFORM_FAILED: Action.DIVERT,
    ErrorCode.SINK_UNAVAILABLE: Action.RETRY,
    ErrorCode.SINK_FAILED: Action.RETRY,
    ErrorCode.ITEM_REFUSED: Action.DIVERT,
    ErrorCode.SINK_REFUSED: Action.RETRY,
}

# What people are shown.
MEANINGS = {
    ErrorCode.UNCATEGORISED: "nobody knows what it was",
    ErrorCode.LOG_UNAVAILABLE: "the log does not answer",
    ErrorCode.TOPIC_NOT_FOUND: "a topic is not there",
    ErrorCode.PARTITION_NOT_FOUND: "a partition is not there",
    ErrorCode.RECORD_TOO_BIG: "larger than the flow's limit",
    ErrorCode.OFFSET_NOT_AVAILABLE: "deleted before it was read",
    ErrorCode.NETWORK: "a connection broke or could not be made",
    ErrorCode.NOT_JSON: "not UTF-8, or not JSON",
    ErrorCode.NOT_VALID: "schema or expectation not met",
    ErrorCode.TRANSFORM_FAILED: "a step failed on it",
    ErrorCode.SINK_UNAVAILABLE: "the sink does not answer",
    ErrorCode.SINK_FAILED: "the sink is broken",
    ErrorCode.ITEM_REFUSED: "refused by the sink",
    ErrorCode.SINK_REFUSED: "the sink refuses the request",
}


class RecordFailure(NamedTuple):
    """What happened to one record. `exception` is the name of a type, or of the rule that was not met."""

    code: ErrorCode
    step: str
    exception: str
    message: str
    trace: str = ""

    @classmethod
    def of(cls, code: ErrorCode, step: str, error: BaseException) -> RecordFailure:
        """A failure from an exception, with the frames where it happened."""
        trace = bounded(_traced(error), TRACE_CHARACTERS)
        return cls(code, step, bounded(type(error).__qualname__), bounded(_said(error)), trace)

    @property
    def fingerprint(self) -> str:
        """The same for failures of one cause: code, step, exception and the message without its particulars."""
        return f"{self.code:d}/{self.step}/{self.exception}/{without_particulars(self.message)}"


def without_particulars(message: str) -> str:
    """What failures of one cause have in common: the outage detector and the desk both compare it."""
    return _PARTICULAR.sub("#", message)[:ALIKE_CHARACTERS]


def bounded(text: str, most: int = MESSAGE_CHARACTERS) -> str:
    """The text, or its beginning and end around a mark of what was left out."""
    if len(text) <= most:
        return text
    half = (most - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(an exception that cannot be shown as text)"


def _traced(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, limit=-TRACE_FRAMES))
    except Exception:
        return "".join(traceback.format_tb(error.__traceback__, limit=-TRACE_FRAMES))


class FaultReport(NamedTuple):
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


def decode_fault(text: str, nonce: str) -> FaultReport | None:
    """The fault in a text, if there is one with that nonce. Of a line that was cut off, as much as is left."""
    if not _NONCE.fullmatch(nonce):
        return None
    found = [_read(part) for part in text.split(f"{_TAG} {nonce} ")[1:]]
    whole = [fault for fault in found if fault is not None and fault.message]
    return next(iter(whole or filter(None, found)), None)


def _read(text: str) -> FaultReport | None:
    try:
        value, _ = _decode(text)
        code = ErrorCode(value["code"])
        needs_person = value.get("needs_person") is True
        return FaultReport(code, str(value["step"]), str(value["target"]), str(value["message"]), needs_person)
    except (ValueError, KeyError, TypeError):
        cut = _CODE.match(text)
    try:
        return FaultReport(ErrorCode(int(cut[1])), "", "", "") if cut else None
    except ValueError:
        return None
