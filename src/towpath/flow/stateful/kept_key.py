"""What a step with state keeps of one key, and when something of it is due. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import Any, NamedTuple

from towpath.flow.stateful.keeper import MOST_DUE, ShardState

EXPIRY_PARTS = 10  # what expires is looked for so many times while it would take to
LEAST_EXPIRY_MS = 1_000


class KeptKey(NamedTuple):
    """The state as text, when it was last touched, and its alarm.

    `parked_ms`: the alarm was due then and its function has failed; it rings no more by itself, its replay may.
    """

    touched_ms: int
    text: bytes
    due_ms: int | None = None
    parked_ms: int | None = None

    @classmethod
    def of(cls, value: Any) -> KeptKey | None:
        return None if value is None else cls(*value)

    def to_value(self) -> list[Any]:
        end = 4 if self.parked_ms is not None else 3 if self.due_ms is not None else 2
        return list(self[:end])

    @property
    def is_empty(self) -> bool:
        return self.text == b"{}" and self.due_ms is None and self.parked_ms is None

    def expires_ms(self, expire_ms: int) -> int | None:
        """When it is forgotten; None: not before it was woken, be it by a replay."""
        is_to_wake = self.due_ms is not None or self.parked_ms is not None
        return None if is_to_wake else self.touched_ms + expire_ms


def put(state: ShardState, key: bytes, kept: KeptKey) -> None:
    """Keep it, unless there is nothing to keep."""
    if kept.is_empty:
        state.pop(key, None)
    else:
        state[key] = kept.to_value()


def forget_expired(state: ShardState, expire_ms: int, now_ms: int) -> None:
    for key, value in list(state.items()):
        expires_ms = KeptKey(*value).expires_ms(expire_ms)
        if expires_ms is not None and expires_ms <= now_ms:
            del state[key]


def without_alarms(state: ShardState) -> None:
    """Nobody is to be woken any more: alarms of before would ring, and keep their keys, for ever."""
    for key, value in [(key, value) for key, value in state.items() if len(value) > 2]:
        put(state, key, KeptKey(*value[:2]))


def due_times(state: ShardState, expire_ms: int | None) -> list[int]:
    """When the shard wants a tick: one for each alarm, and one for all that expire.

    That one comes late, by a tenth of the time at most, so that keys are forgotten many at a time.
    """
    every = [KeptKey(*value) for value in state.values()]
    alarms = nsmallest(MOST_DUE - 1, (kept.due_ms for kept in every if kept.due_ms is not None))
    if expire_ms is None:
        return alarms
    expiring = _earliest(kept.expires_ms(expire_ms) for kept in every)
    return alarms if expiring is None else sorted([*alarms, rounded_up(expiring, expire_ms)])


def rounded_up(time_ms: int, wait_ms: int) -> int:
    """A time at which to look for what has expired: seldom enough, compared with how long it takes to expire."""
    grain = max(LEAST_EXPIRY_MS, wait_ms // EXPIRY_PARTS)
    return -(-time_ms // grain) * grain


def _earliest(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)
