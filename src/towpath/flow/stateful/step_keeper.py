"""Calls a user's function with state. What it does to the state counts only if it succeeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import orjson
import pyarrow as pa

from towpath.flow.codes import ErrorCode
from towpath.flow.failure import Failure
from towpath.flow.nodes import Source
from towpath.flow.reentry_record import INPUT_TOPIC, STAGE, said_by
from towpath.flow.stateful.alarms import Alarms
from towpath.flow.stateful.given import Document, several
from towpath.flow.stateful.keeper import ShardState
from towpath.flow.stateful.kept_key import KeptKey, due_times, forget_expired, put, without_alarms
from towpath.flow.stateful.parts import Parts
from towpath.flow.stateful.stateful_step import Moment, StatefulStep
from towpath.flow.stateful.tick import Tick
from towpath.flow.stateful.trail import own_trail
from towpath.flow.stateful.verdict import VERDICT, Verdict, is_settled
from towpath.flow.text.reading import read_documents
from towpath.flow.worker.breadcrumb import Breadcrumb
from towpath.flow.worker.records import Records


@dataclass(frozen=True, slots=True)
class StepKeeper:
    """One step of a stage. `reentry`: the topic of what comes back, of which the stage takes what is its own."""

    source: Source
    step: StatefulStep
    stage: str
    reentry: str
    max_bytes: int
    trail: str = ""  # a directory, in which workers tell where they are

    def keys(self, records: pa.RecordBatch) -> list[bytes | None]:
        keys = Parts(records).of(self.step.key)
        taken = self._taken(Records.of_batch(records))
        return [key if is_taken else None for key, is_taken in zip(keys, taken, strict=True)]

    def decide(
        self, records: pa.Table, keys: Sequence[bytes | None], state: ShardState, now_ms: int
    ) -> list[Verdict | None]:
        [batch] = records.to_batches() or [None]
        if batch is None:
            return []
        self._forget(state, now_ms)
        read, settled = Records.of_batch(batch), records.column(VERDICT).to_pylist()
        is_mine = [is_taken and not is_settled(text) for is_taken, text in zip(self._taken(read), settled, strict=True)]
        said: list[Verdict | None] = [None] * len(read)
        trail = self._trail()
        for at, document in self._documents(read, is_mine):
            key = keys[at]
            if trail is not None:
                trail.at(*read.coordinates(at))
            if key is None:
                said[at] = self._failed(KeyError(f"the record has no {self.step.key}, by which its state is known"))
            else:
                kept = KeptKey.of(state.get(key))
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

    def wake(self, ticks: Sequence[Tick], state: ShardState, now_ms: int) -> list[Verdict]:
        self._forget(state, now_ms)
        return Alarms(self.step, state, now_ms, self._trail()).serve(ticks)

    def _taken(self, records: Records) -> list[bool]:
        """Whether each record is one of the source's: of its topics, or come back to this stage."""
        return [
            topic in self.source.topics or (topic == self.reentry and self._is_back(said_by(records.headers(at))))
            for at, topic in enumerate(records.topics)
        ]

    def _is_back(self, said: Mapping[str, str]) -> bool:
        return said.get(STAGE) == self.stage and said.get(INPUT_TOPIC) in self.source.topics

    def _documents(self, records: Records, is_mine: Sequence[bool]) -> list[tuple[int, Document]]:
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

    def _called(self, document: Document, moment: Moment, kept: KeptKey | None, state: ShardState) -> Verdict:
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
        put(state, moment.key, KeptKey(moment.now_ms, text, moment.next_ms, parked_ms))
        return Verdict(given=given)

    def _moment(self, records: Records, at: int, key: bytes, now_ms: int, kept: KeptKey | None) -> Moment:
        where, due_ms = records.coordinates(at), None if kept is None else kept.due_ms
        is_replay, can_wake = where[0] == self.reentry, self.step.on_wake is not None
        return Moment(key, now_ms, *where, records.timestamps_ms[at], is_replay, due_ms, due_ms, can_wake)

    def _failed(self, error: BaseException) -> Verdict:
        return Verdict(failure=Failure.of(ErrorCode.TRANSFORM_FAILED, self.step.name, error))

    def _forget(self, state: ShardState, now_ms: int) -> None:
        """Drop what has expired, of all keys of the shard: that is when it is looked at."""
        if self.step.on_wake is None:
            without_alarms(state)
        if self._expire_ms is not None:
            forget_expired(state, self._expire_ms, now_ms)

    @property
    def _expire_ms(self) -> int | None:
        return None if self.step.expire_s is None else round(self.step.expire_s * 1000)
