"""What is fixed with the snapshot of a batch about how its work is cut up and where its marks begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Units:
    """The same on every attempt, whatever the settings are by then."""

    buckets: int = 1  # into which a stage that shuffles puts its inputs
    marks_since: Mapping[int, int] = field(default_factory=dict)  # by partition of the marks topic

    def to_value(self) -> dict[str, Any]:
        return {"buckets": self.buckets, "marks": {str(number): at for number, at in self.marks_since.items()}}

    @classmethod
    def of_value(cls, value: Any) -> Self:
        """An older row may have none."""
        if not value:
            return cls()
        return cls(value["buckets"], {int(number): at for number, at in value["marks"].items()})
