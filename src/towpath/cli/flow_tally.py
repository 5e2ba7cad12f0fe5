"""What a run of a flow came to: every record that was read was loaded, filtered, has failed, or is in a place that only
stages with state have, or crashes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from towpath.events import Event, EventKind
from towpath.flow.ledger_row import Counts, added
from towpath.flow.place import BY_BATCH

NAMES = ("read", "loaded", "filtered", "failed")
RARE = tuple(str(place) for place in BY_BATCH if place not in NAMES)


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


def counts_of(totals: Mapping[str, Any]) -> dict[str, int]:
    """Read, loaded, filtered, failed, and what there is in rarer places, each as one number."""
    found = {name: totals.get(name, 0) for name in (*NAMES, *RARE) if name in NAMES or totals.get(name)}
    return {name: value if isinstance(value, int) else sum(value.values()) for name, value in found.items()}


def names_of(several: Iterable[Mapping[str, int]]) -> tuple[str, ...]:
    """The columns of a table of counts: those that there always are, and the rarer ones that one of them has."""
    there = {name for counts in several for name in counts}
    return (*NAMES, *(name for name in RARE if name in there))


def parts_text(total: int, parts: Mapping[str, int], each: str) -> str:
    """`3: 2 with code 9, 1 with code 7`"""
    shown = ", ".join(f"{count:,} {each.format(name)}" for name, count in parts.items() if count)
    return f"{total:,}: {shown}" if shown else f"{total:,}"
