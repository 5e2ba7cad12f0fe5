"""Calls a user's function with state, for records and for keys that are to be woken.

What a function does to the state counts only if it succeeds. It returns no document, one or several.
"""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
import pyarrow as pa

from towpath.flow.documents.reader import read_documents
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.graph.nodes import Source
from towpath.flow.graph.stateful_nodes import Moment, StatefulStep
from towpath.flow.records.reentry import INPUT_TOPIC, STAGE, said_by
from towpath.flow.stateful.keeper import (
    WOKEN,
    KeyState,
    RecordPartColumns,
    ShardState,
    Tick,
    due_times,
    forget_expired,
    put,
    without_alarms,
)
from towpath.flow.worker.breadcrumb import Breadcrumb, own_trail
from towpath.flow.worker.records import VERDICT, RecordColumns, RecordVerdict, is_settled

Document = dict[str, Any]
GIVEN = "given"


@dataclass(frozen=True, slots=True)
class StepKeeper:
    """Keeps the state of one step of a stage.

    `reentry` is the topic of what comes back, of which the stage takes what is its own.
    """

    source: Source
    step: StatefulStep
    stage: str
    reentry: str
    max_bytes: int
    trail: str = ""  # a directory, in which workers tell where they are

    def keys(self, records: pa.RecordBatch) -> list[bytes | None]:
        keys = RecordPartColumns(records).of(self.step.key)
        taken = self._taken(RecordColumns.of_batch(records))
        return [key if is_taken else None for key, is_taken in zip(keys, taken, strict=True)]

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[RecordVerdict | None]:
        [batch] = records.to_batches() or [None]
        if batch is None:
            return []
        self._forget(state, now_ms)
        read, settled = RecordColumns.of_batch(batch), records.column(VERDICT).to_pylist()
        is_mine = [is_taken and not is_settled(text) for is_taken, text in zip(self._taken(read), settled, strict=True)]
        said: list[RecordVerdict | None] = [None] * len(read)
        trail = self._trail()
        for at, document in self._documents(read, is_mine):
            key = keys[at]
            if trail is not None:
                trail.at(*read.coordinates(at))
            if key is None:
                said[at] = self._failed(KeyError(f"the record has no {self.step.key}, by which its state is known"))
            else:
                kept = KeyState.of(state.get(key))
                said[at] = self._called(document, self._moment(read, at, key, now_ms, kept), kept, state)
        if trail is not None:
            trail.leave()
        return said

    def _trail(self) -> Breadcrumb | None:
        if not self.trail:
            return None
        trail = own_trail(self.trail)
        trail.enter(self.step.name)
        return trail

    @property
    def is_timed(self) -> bool:
        return self.step.on_wake is not None or self.step.expire_s is not None

    def due(self, state: ShardState) -> list[int]:
        return due_times(state, self._expire_ms)

    def wake(self, ticks: Sequence[Tick], state: ShardState, now_ms: int) -> list[RecordVerdict]:
        self._forget(state, now_ms)
        return Alarms(self.step, state, now_ms, self._trail()).serve(ticks)

    def _taken(self, records: RecordColumns) -> list[bool]:
        """Whether each record is one of the source's: of its topics, or come back to this stage."""
        return [
            topic in self.source.topics or (topic == self.reentry and self._is_back(said_by(records.headers(at))))
            for at, topic in enumerate(records.topics)
        ]

    def _is_back(self, said: Mapping[str, str]) -> bool:
        return said.get(STAGE) == self.stage and said.get(INPUT_TOPIC) in self.source.topics

    def _documents(self, records: RecordColumns, is_mine: Sequence[bool]) -> list[tuple[int, Document]]:
        """What the function is called with. What cannot be read or does not fit fails later, when it is read again."""
        places = [at for at, mine in enumerate(is_mine) if mine]
        documents, failures = read_documents(
            [records.values[at] for at in places],
            step=self.source.name,
            max_bytes=self.max_bytes,
            duplicates=self.source.duplicates,
        )
        good = [row for row in range(len(places)) if row not in failures]
        fitting = cast(list[Document], [documents[row] for row in good])
        if self.source.schema is not None:
            _, unfit = self.source.schema.columns(fitting, step=self.source.name)
            good = [row for at, row in enumerate(good) if at not in unfit]
        return [(places[row], cast(Document, documents[row])) for row in good]

    def _called(self, document: Document, moment: Moment, kept: KeyState | None, state: ShardState) -> RecordVerdict:
        mine: Document = orjson.loads(kept.text) if kept is not None else {}
        told = (moment,) if self.step.wants_moment else ()
        try:
            given = several(self.step.function(document, mine, *told))
            text = orjson.dumps(mine)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            return self._failed(error)
        # What was parked stays so until the key sets another alarm.
        parked_ms = kept.parked_ms if kept is not None and moment.next_ms is None else None
        put(state, moment.key, KeyState(moment.now_ms, text, moment.next_ms, parked_ms))
        return RecordVerdict(given=given)

    def _moment(self, records: RecordColumns, at: int, key: bytes, now_ms: int, kept: KeyState | None) -> Moment:
        where, due_ms = records.coordinates(at), None if kept is None else kept.due_ms
        is_replay, can_wake = where[0] == self.reentry, self.step.on_wake is not None
        return Moment(key, now_ms, *where, records.timestamps_ms[at], is_replay, due_ms, due_ms, can_wake)

    def _failed(self, error: BaseException) -> RecordVerdict:
        return RecordVerdict(failure=RecordFailure.of(ErrorCode.TRANSFORM_FAILED, self.step.name, error))

    def _forget(self, state: ShardState, now_ms: int) -> None:
        """Drop what has expired, of all keys of the shard: that is when it is looked at."""
        if self.step.on_wake is None:
            without_alarms(state)
        if self._expire_ms is not None:
            forget_expired(state, self._expire_ms, now_ms)

    @property
    def _expire_ms(self) -> int | None:
        return None if self.step.expire_s is None else round(self.step.expire_s * 1000)


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
            if (kept := KeyState(*value)).due_ms is not None and kept.due_ms <= self.now_ms
        ]
        heapq.heapify(self._due)

    def serve(self, ticks: Sequence[Tick]) -> list[RecordVerdict]:
        said = [self._serve(tick) for tick in ticks]
        if self.trail is not None:
            self.trail.leave()
        return said

    def _serve(self, tick: Tick) -> RecordVerdict:
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

    def _gave(self, documents: list[dict[str, Any]]) -> RecordVerdict:
        return RecordVerdict(given=documents, by=self.step.name, was_read=bool(documents))

    def _spoiled(self) -> RecordVerdict:
        """What it had given is in its value alone: woken again, it would be the alarm of another key."""
        why = f"a tick that comes back has in {GIVEN!r} a list of the documents that were given, or names a key"
        failure = RecordFailure(ErrorCode.NOT_VALID, self.step.name, "BadTick", why)
        return RecordVerdict(failure=failure, by=self.step.name)

    def _first(self) -> tuple[bytes, KeyState, int] | None:
        while self._due:
            due_ms, key = heapq.heappop(self._due)
            kept = KeyState.of(self.state.get(key))
            if kept is not None and kept.due_ms == due_ms:
                return key, kept, due_ms
        return None

    def _parked(self, key: bytes) -> tuple[bytes, KeyState, int] | None:
        """What has failed before; nothing, where a record has set another alarm since."""
        kept = KeyState.of(self.state.get(key))
        return None if kept is None or kept.parked_ms is None else (key, kept, kept.parked_ms)

    def _called(
        self, on_wake: Callable[..., Any], tick: Tick, key: bytes, kept: KeyState, due_ms: int
    ) -> RecordVerdict:
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
            failure = RecordFailure.of(ErrorCode.TRANSFORM_FAILED, self.step.name, error)
            header = None if tick.key is not None else (WOKEN, key)
            return RecordVerdict(failure=failure, value=orjson.dumps(shown), header=header, by=self.step.name)
        put(self.state, key, KeyState(self.now_ms, text, moment.next_ms))
        if moment.next_ms is not None and moment.next_ms <= self.now_ms:
            heapq.heappush(self._due, (moment.next_ms, key))
        # Should the tick fail behind this step, its error record has what was given: the state will not give it again.
        return self._gave(documents)._replace(value=value if documents else None)


def several(given: Any) -> list[Document]:
    """Documents, none or one or several; `TypeError` for anything else.

    What cannot go to another process raises here, where it is the failure of one record (see `RecordVerdict.encode`).
    """
    if given is None:
        return []
    documents = [given] if type(given) is dict else given
    if isinstance(documents, list | tuple) and all(type(one) is dict for one in documents):
        pickle.dumps(documents)
        return list(documents)
    raise TypeError(f"gave {type(given).__name__}; a stateful step returns a dict, a list of dicts, or None")
