"""Parts that are there already, held against what is offered again.

A mark says how many deliveries its part has. Which ones these are follows from their sequence, and that from what the
log gives for the batch: where the log has forgotten some of it since, or where a step gives something else than the
first time, the same number stands for other deliveries. Some would be passed over that nobody has written. So a mark
also says what the ids of its deliveries add up to, and where that differs the stage halts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from towpath.errors import FlowHalted
from towpath.flow.delivery import Digest
from towpath.flow.mark import Mark
from towpath.flow.mark_topic import Said


class FoundParts:
    """Walks along the deliveries of parts that are there, in their order."""

    def __init__(self, unit: Mark, found: Mapping[int, Said]) -> None:
        self._unit = unit
        self._found = found
        self._checked: set[int] = set()
        self._part: int | None = None
        self._count = 0
        self._digest = Digest()

    def add(self, part: int, ids: Sequence[bytes]) -> None:
        """These are of the part."""
        if part != self._part:
            self.check()
            self._part, self._count, self._digest = part, 0, Digest()
        self._count += len(ids)
        self._digest.add_many(ids)

    def check(self) -> None:
        """Before anything else is written: the part that has come to its end is the one that its mark speaks of."""
        part, self._part = self._part, None
        if part is not None:
            self._compare(part, self._count, self._digest)

    def finish(self) -> None:
        """There is no more to come: what was not come to is not offered any more."""
        self.check()
        for part in self._found.keys() - self._checked:
            self._compare(part, 0, Digest())

    def _compare(self, part: int, count: int, digest: Digest) -> None:
        self._checked.add(part)
        said = self._found[part]
        if said.digest and (said.deliveries, said.digest) != (count, digest.hex):
            raise FlowHalted(_differs(self._unit, part, said.deliveries, count))


def _differs(unit: Mark, part: int, written: int, offered: int) -> str:
    return (
        f"output {unit.output!r} has {written} deliveries of unit {unit.unit}, part {part}, of batch {unit.batch_id}, "
        f"and now {'others' if written == offered else offered} are to go there: the log has lost records of the batch "
        "since it was begun, or a step that says it is deterministic is not. Nobody can say which deliveries are "
        "written. Look at the output, then let the stage go on behind the batch, or from the beginning of what the "
        f"log still has, which delivers it again: towpath flow reset {unit.flow} --to latest (or earliest)"
    )
