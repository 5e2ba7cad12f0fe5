"""A mark: the proof that one part of one unit of a batch is in an output. A sink writes it in the same act as the rows.

Who tries a batch again looks for the marks first and leaves out what is there. A generation is raised by every new
checkpoint, so that the marks of an old one never match.
"""

from __future__ import annotations

import json
from typing import NamedTuple, Self


class Mark(NamedTuple):
    """`unit` is an input partition, `topic/3`, or where a stage shuffles a bucket, `5of8`."""

    flow: str
    stage: str
    generation: int
    batch_id: int
    output: str
    unit: str
    part: int = 0

    @property
    def text(self) -> str:
        """The same for ever: it is stored in sinks."""
        return json.dumps(self, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def of_text(cls, text: str) -> Self:
        return cls(*json.loads(text))
