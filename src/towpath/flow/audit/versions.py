"""What can be said about an index whose ids are the flow's own.

Which id a record gets is known to the steps alone, and a newer record takes the place of an older one. So nothing can
be missed here; but each document bears the version of the record that it comes from, and that one must have been read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from towpath.flow.audit.batch_row import StageRows
from towpath.flow.audit.problem import Problem, ProblemKind
from towpath.flow.audit.readers import Versioned
from towpath.flow.delivery import OFFSET_BITS
from towpath.flow.positions import Range

MOST_LISTED = 20


@dataclass(slots=True)
class VersionCheck:
    """Compares versions with the offsets that were read. Pure."""

    stage: StageRows
    output: str
    beyond: list[Range]  # what may be read at this moment
    has_input_versions: bool
    found: int = 0
    strange: int = 0

    def run(self, documents: Iterable[Versioned]) -> Iterator[Problem]:
        stops = self._stops()
        for document in documents:
            self.found += 1
            incarnation, offset = document.version >> OFFSET_BITS, document.version & ((1 << OFFSET_BITS) - 1)
            if self.has_input_versions and offset >= stops.get(incarnation, 0):
                self.strange += 1
                if self.strange <= MOST_LISTED:
                    told = (f"an offset below {stops.get(incarnation, 0)}", f"{document.name} is of offset {offset}")
                    yield Problem(ProblemKind.STRANGER, self.stage.name, *told, output=self.output)
        if self.strange > MOST_LISTED:
            told = ("none", f"{self.strange - MOST_LISTED} more")
            yield Problem(ProblemKind.STRANGER, self.stage.name, *told, output=self.output)

    def _stops(self) -> dict[int, int]:
        """For each incarnation the highest offset that any partition was read to: a version does not say which one."""
        incarnations = {id: number for ids in self.stage.topics.values() for number, id in enumerate(ids)}
        stops: dict[int, int] = {}
        read = (place for batch in self.stage.batches for place in batch.positions)
        for place in (*read, *self.beyond):
            number = incarnations.get(place.topic_id, 0)
            stops[number] = max(stops.get(number, 0), place.stop)
        return stops
