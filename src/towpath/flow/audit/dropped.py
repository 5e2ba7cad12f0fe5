"""Which records a stage has dropped as duplicates, found again from the log: by the same rule, in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from towpath.flow.audit.batch_row import BatchRow
from towpath.flow.nodes import Source
from towpath.flow.positions import Range
from towpath.flow.stateful.keeper import ShardState
from towpath.flow.stateful.record_part import part_of, whole_number
from towpath.flow.stateful.rule import Numbered, Rule
from towpath.log.record import Record


@dataclass(slots=True)
class Dropped:
    """Goes through the records of one source, batch by batch."""

    rule: Rule
    _generation: int | None = None
    _state: ShardState = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source) -> Dropped | None:
        return None if source.dedupe is None else cls(Rule.of(source.name, source.topics, source.dedupe))

    @property
    def forgets(self) -> bool:
        """Whether it goes by the time of batches, which nobody knows any more."""
        return self.rule.dedupe.forget_after_s is not None

    def begin(self, batch: BatchRow) -> None:
        """A new generation has a new checkpoint: it remembers nothing of the one before."""
        if batch.generation != self._generation:
            self._generation, self._state = batch.generation, {}

    def is_dropped(self, record: Record) -> bool:
        dedupe = self.rule.dedupe
        epoch = 0 if dedupe.epoch is None else whole_number(part_of(record, dedupe.epoch))
        sequence = whole_number(part_of(record, dedupe.sequence))
        numbered = Numbered(part_of(record, dedupe.sender), sequence, epoch)
        return self.rule.decide(numbered, self._state) is not None


def in_order(batch: BatchRow) -> Iterator[Range]:
    """As the operator takes them."""
    return iter(sorted(batch.ranges, key=lambda place: (place.topic, place.partition)))
