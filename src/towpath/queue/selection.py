"""Which messages are meant: the filter of a list."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from towpath.errors import BadValue
from towpath.queue.state import MessageState


@dataclass(frozen=True, slots=True)
class Selection:
    """All that is given must hold; what is None does not count."""

    inbox: str | None = None
    state: MessageState | None = None
    function: str | None = None
    owner: str | None = None  # who has it, or had it last
    since: datetime | None = None  # sent at this time or later
    until: datetime | None = None  # sent before this time

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            time: datetime | None = getattr(self, name)
            if time is not None and time.tzinfo is None:
                raise BadValue(f"{name}: a time needs its zone")
