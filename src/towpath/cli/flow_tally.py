"""What a run of a flow came to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from towpath.events import Event, EventKind
from towpath.flow.ledger_row import Counts, added


class Tally:
    """Adds up the batches of this process, by stage. A subscriber of its events."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._lock = threading.Lock()
        self._stages: dict[str, dict[str, Any]] = {}

    def __call__(self, event: Event) -> None:
        flow, _, stage = event.subject.partition("/")
        if event.kind is EventKind.BATCH_COMMITTED and flow == self._flow:
            counts: Counts = {name: value for name, value in event.data.items() if name not in ("batch_id", "took_s")}
            with self._lock:
                before = self._stages.get(stage, {"batches": 0})
                self._stages[stage] = {**added(before, counts), "batches": before["batches"] + 1}

    def of(self, stage: str) -> dict[str, Any]:
        """`{"read": 9, "filtered": {"label": 1}, "failed": {"9": 2}, …}`"""
        with self._lock:
            return self._stages.get(stage, {})


def parts_text(total: int, parts: Mapping[str, int], each: str) -> str:
    """`3: 2 with code 9, 1 with code 7`"""
    shown = ", ".join(f"{count:,} {each.format(name)}" for name, count in parts.items() if count)
    return f"{total:,}: {shown}" if shown else f"{total:,}"
