"""Why one record could not be loaded: the code, the step and what it said, all bounded in size."""

from __future__ import annotations

import re
import traceback
from typing import NamedTuple

from towpath.flow.codes import ErrorCode

MESSAGE_CHARACTERS = 1_000
TRACE_CHARACTERS = 4_000
TRACE_FRAMES = 12
ALIKE_CHARACTERS = 200  # of a message that tell one cause from another

# What differs from record to record in the same failure: numbers, quoted words, long hexadecimal ids.
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|\b[0-9a-f]{8,}\b|\d+")


class Failure(NamedTuple):
    """What happened to one record. `exception` is the name of a type, or of the rule that was not met."""

    code: ErrorCode
    step: str
    exception: str
    message: str
    trace: str = ""

    @classmethod
    def of(cls, code: ErrorCode, step: str, error: BaseException) -> Failure:
        """A failure from an exception, with the frames where it happened."""
        trace = bounded(_traced(error), TRACE_CHARACTERS)
        return cls(code, step, bounded(type(error).__qualname__), bounded(_said(error)), trace)

    @property
    def fingerprint(self) -> str:
        """The same for failures of one cause: code, step, exception and the message without its particulars."""
        return f"{self.code:d}/{self.step}/{self.exception}/{without_particulars(self.message)}"


def without_particulars(message: str) -> str:
    """What failures of one cause say alike: the judge and the desk both go by it."""
    return _PARTICULAR.sub("#", message)[:ALIKE_CHARACTERS]


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


def bounded(text: str, most: int = MESSAGE_CHARACTERS) -> str:
    """The text, or its beginning and end around a mark of what was left out."""
    if len(text) <= most:
        return text
    half = (most - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"
