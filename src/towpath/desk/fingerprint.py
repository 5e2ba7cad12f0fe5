"""Which errors are of one cause: the same code, step, exception, message without its particulars, and frames. Pure.

The algorithm has a number, which is part of the fingerprint. A changed one gets a new number, so that cases which are
there stay where they are, and only errors that come later may go to new groups.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from towpath.flow.failure import Failure, without_particulars

ALGORITHM = 1
MOST_FRAMES = 5  # the innermost of the application
DIGITS = 32
KEPT = 4096  # results that are remembered, since errors of one cause come together

_FRAME = re.compile(r'^  File "([^"\n]*)", line \d+, in (.+)$', re.MULTILINE)
_LINE = '  File "'
# Not the application's: what is installed, Python's own, and what Python makes up.
_FOREIGN = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python3?[.\d]*|pyspark|src[/\\]towpath)[/\\]|^<")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The text is what counts; the rest says what it was made of."""

    text: str
    code: int
    step: str
    exception: str
    title: str
    frames: tuple[str, ...] = ()
    algorithm: int = ALGORITHM
    made_of: dict[str, Any] = field(default_factory=dict, compare=False, hash=False)

    @classmethod
    def of(cls, failure: Failure, kind: str = "error") -> Fingerprint:
        """The fingerprint of a failure. A trace that ends with its message costs more, and gives the same."""
        said = without_particulars(failure.message)
        frames = frames_of(failure.trace) if failure.trace else ()
        return _fingerprint(kind, int(failure.code), failure.step, failure.exception, said, frames)


@lru_cache(KEPT)
def _fingerprint(kind: str, code: int, step: str, exception: str, said: str, frames: tuple[str, ...]) -> Fingerprint:
    made_of = {
        "algorithm": ALGORITHM,
        "kind": kind,
        "code": code,
        "step": step,
        "exception": exception,
        "message": said,
        "frames": list(frames),
    }
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:DIGITS]
    return Fingerprint(f"{ALGORITHM}:{digest}", code, step, exception, said or exception, frames, ALGORITHM, made_of)


def frames_only(trace: str) -> str:
    """A trace up to its last frame: the message at its end differs from record to record."""
    last = trace.rfind(_LINE)
    if last < 0:
        return ""
    end = trace.find("\n", last)
    while end >= 0 and trace.startswith("    ", end + 1):  # the line of code, and marks under it
        end = trace.find("\n", end + 1)
    return trace if end < 0 else trace[:end]


@lru_cache(KEPT)
def frames_of(trace: str) -> tuple[str, ...]:
    """`orders.py:price` for each frame of the application, without lines: those move when the file is edited."""
    own = (f"{PurePath(file).name}:{function}" for file, function in _FRAME.findall(trace) if not _FOREIGN.search(file))
    return tuple(own)[-MOST_FRAMES:]


@lru_cache(KEPT)
def trace_id(trace: str) -> str:
    """The same for traces of one text."""
    return hashlib.sha256(trace.encode("utf-8", "replace")).hexdigest()[:DIGITS]
