"""Calls the function of a step for keys that are to be woken: a tick, a key."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure
from towpath.flow.stateful.given import several
from towpath.flow.stateful.keeper import ShardState
from towpath.flow.stateful.kept_key import KeptKey, put
from towpath.flow.stateful.stateful_step import Moment, StatefulStep
from towpath.flow.stateful.tick import WOKEN, Tick
from towpath.flow.stateful.verdict import Verdict
from towpath.flow.worker.breadcrumb import Breadcrumb

GIVEN = "given"


@dataclass(slots=True)
class Alarms:
    """The alarms of one shard in one batch. What is due first is served first, and by key where that is the same."""

    step: StatefulStep
    state: ShardState
    now_ms: int
    trail: Breadcrumb | None = None
    _due: list[tuple[int, bytes]] = field(init=False)

    def __post_init__(self) -> None:
        self._due = [
            (kept.due_ms, key)
            for key, value in self.state.items()
            if (kept := KeptKey(*value)).due_ms is not None and kept.due_ms <= self.now_ms
        ]
        heapq.heapify(self._due)

    def serve(self, ticks: Sequence[Tick]) -> list[Verdict]:
        said = [self._serve(tick) for tick in ticks]
        if self.trail is not None:
            self.trail.leave()
        return said

    def _serve(self, tick: Tick) -> Verdict:
        document = tick.document
        known = None if document is None else document.get(GIVEN)
        if isinstance(known, list) and all(type(one) is dict for one in known):
            return self._gave(known)  # it has failed behind this step: the state knows, the documents are here
        if document is None or known is not None or (tick.is_back and tick.key is None):
            return self._spoiled()
        woken = self._first() if tick.key is None else self._parked(tick.key)
        if woken is None or self.step.on_wake is None:
            return self._gave([])
        return self._called(self.step.on_wake, tick, *woken)

    def _gave(self, documents: list[dict[str, Any]]) -> Verdict:
        return Verdict(given=documents, by=self.step.name, was_read=bool(documents))

    def _spoiled(self) -> Verdict:
        """What it had given is in its value alone: woken again, it would be the alarm of another key."""
        why = f"a tick that comes back has in {GIVEN!r} a list of the documents that were given, or names a key"
        return Verdict(failure=Failure(ErrorCode.NOT_VALID, self.step.name, "BadTick", why), by=self.step.name)

    def _first(self) -> tuple[bytes, KeptKey, int] | None:
        while self._due:
            due_ms, key = heapq.heappop(self._due)
            kept = KeptKey.of(self.state.get(key))
            if kept is not None and kept.due_ms == due_ms:
                return key, kept, due_ms
        return None

    def _parked(self, key: bytes) -> tuple[bytes, KeptKey, int] | None:
        """What has failed before; nothing, where a record has set another alarm since."""
        kept = KeptKey.of(self.state.get(key))
        return None if kept is None or kept.parked_ms is None else (key, kept, kept.parked_ms)

    def _called(self, on_wake: Callable[..., Any], tick: Tick, key: bytes, kept: KeptKey, due_ms: int) -> Verdict:
        if self.trail is not None:
            self.trail.at(*tick[:3])
        mine = orjson.loads(kept.text)
        moment = Moment(key, self.now_ms, *tick[:4], tick.key is not None, due_ms)
        shown = {"key": key.decode("utf-8", "replace"), "due_ms": due_ms}
        try:
            documents = several(on_wake(mine, moment))
            text, value = orjson.dumps(mine), orjson.dumps({**shown, GIVEN: documents})
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            self.state[key] = kept._replace(due_ms=None, parked_ms=due_ms).to_value()
            failure = Failure.of(ErrorCode.TRANSFORM_FAILED, self.step.name, error)
            header = None if tick.key is not None else (WOKEN, key)
            return Verdict(failure=failure, value=orjson.dumps(shown), header=header, by=self.step.name)
        put(self.state, key, KeptKey(self.now_ms, text, moment.next_ms))
        if moment.next_ms is not None and moment.next_ms <= self.now_ms:
            heapq.heappush(self._due, (moment.next_ms, key))
        # Should the tick fail behind this step, its error record has what was given: the state will not give it again.
        return self._gave(documents)._replace(value=value if documents else None)
