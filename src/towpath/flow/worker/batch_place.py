"""Where a segment runs: names and settings of its batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from towpath.access.barrier import OPEN, Barrier
from towpath.crash import Armed
from towpath.flow.sinks.sink import Place
from towpath.flow.strategy import Strategy
from towpath.flow.worker.reentry import Reentry
from towpath.settings import Settings


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """The batch that a segment belongs to; the same on every attempt, except for the nonce."""

    flow: str
    stage: str
    hash: str
    directory: str  # for reports; driver and workers share it
    nonce: str  # tells this attempt's faults from texts that look like one
    settings: Settings = field(repr=False)
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # make coordinates unique for ever
    incarnations: Mapping[str, int] = field(default_factory=dict)  # how often a name was given to another topic
    reentry: Reentry | None = None  # None: nothing in this batch has come back
    generation: int = 1
    batch_id: int = 0
    strategy: Strategy = Strategy.AT_LEAST_ONCE
    launch: int = 0
    marks_since: Mapping[int, int] = field(default_factory=dict)
    outages: int = 0
    crash: Armed | None = None  # where to die, in tests
    blocks: Barrier = OPEN  # the block rules that were fixed with the batch

    def place(self, output: str, unit: str) -> Place:
        """What a sink is told about the writer that it opens."""
        return Place(
            self.flow,
            self.stage,
            output,
            self.hash,
            unit,
            self.settings,
            self.generation,
            self.batch_id,
            self.strategy,
            self.launch,
            self.marks_since,
            self.outages,
        )
