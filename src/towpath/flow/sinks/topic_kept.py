"""A part that is being written. Its deliveries are kept until it is committed: it may have to be done again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from towpath.flow.delivery import Digest
from towpath.flow.mark_topic import Reason, Said
from towpath.flow.sinks.kept import Kept
from towpath.flow.sinks.sink import Deliveries

GROUPS = 16


@dataclass(slots=True)
class OpenPart:
    """A part in an open transaction."""

    number: int
    kept: Kept = field(default_factory=Kept)
    count: int = 0
    digest: Digest = field(default_factory=Digest)
    refused: dict[bytes, Reason] = field(default_factory=dict)  # and told
    bad: dict[bytes, str] = field(default_factory=dict)  # what a broker has refused, and why
    suspects: frozenset[bytes] = frozenset()  # of which a broker has refused one, or some
    began: float = field(default_factory=time.monotonic)

    def add(self, piece: Deliveries) -> None:
        self.count += len(piece)
        self.digest.add_many(piece.delivery_ids)
        self.kept.add(piece)

    def groups(self, ids: Sequence[bytes], places: Sequence[int]) -> list[Sequence[int]]:
        """The places as they are to travel: suspects in groups, to see in which the bad one is."""
        if not self.suspects:
            return [places] if places else []
        most = max(1, len(self.suspects) // GROUPS)
        groups: list[list[int]] = [[]]
        seen = 0
        for at in places:
            is_suspect = ids[at] in self.suspects
            if is_suspect and seen % most == 0:
                groups.append([])
            groups[-1].append(at)
            seen += is_suspect
        return [group for group in groups if group]

    @property
    def said(self) -> Said:
        return Said(self.count, self.refused, self.digest.hex)
