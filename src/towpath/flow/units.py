"""What is fixed with the snapshot of a batch about how its work is cut up and where its marks begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from towpath.access.barrier import OPEN, Barrier


@dataclass(frozen=True, slots=True)
class Units:
    """The same on every attempt, whatever the settings are by then."""

    buckets: int = 1  # into which a stage that shuffles puts its inputs
    marks_since: Mapping[int, int] = field(default_factory=dict)  # by partition of the marks topic
    marks_id: str = ""  # of that topic; an older row has none
    watermarks: Mapping[str, int] = field(default_factory=dict)  # in ms, by source that joins on columns
    # The latest of all batches before, in ms, by input of such a source; when it is committed, with its own.
    event_times: Mapping[str, int] = field(default_factory=dict)
    blocks: Barrier = OPEN  # the rules that counted when the batch was fixed

    def to_value(self) -> dict[str, Any]:
        marks = {str(number): at for number, at in self.marks_since.items()}
        times = {"watermarks": dict(self.watermarks), "event_times": dict(self.event_times)} if self.event_times else {}
        blocks = {"blocks": self.blocks.to_value()} if self.blocks else {}
        return {"buckets": self.buckets, "marks": marks, "marks_id": self.marks_id, **times, **blocks}

    @classmethod
    def of_value(cls, value: Any) -> Self:
        """An older row may have none."""
        if not value:
            return cls()
        marks = {int(number): at for number, at in value["marks"].items()}
        times = (value.get("watermarks", {}), value.get("event_times", {}))
        blocks = Barrier.of_value(value.get("blocks", ()))
        return cls(value["buckets"], marks, value.get("marks_id", ""), *times, blocks)
