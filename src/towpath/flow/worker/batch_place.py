"""Where a segment runs: names and settings of its batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
